// What goes wrong while a dataset is open: the error comes to who reads, writes, flushes or closes, and nothing else is
// touched.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "hdf5/hdf5_file.hpp"
#include "store/file_descriptor.hpp"
#include "store/opening_refusal.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/region.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

class Hdf5FailureTest : public testing::Test {
 protected:
  Hdf5FailureTest() { WrittenFile(path_).add("x", form_, expected_.data()); }

  std::string url() const { return "hdf5:" + directory_.encoded() + "/file.h5:/x"; }

  /// Where the chunk that holds an element lies, and how long it is.
  std::pair<haddr_t, hsize_t> chunk_place(hsize_t element) const {
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    haddr_t place = 0;
    hsize_t bytes = 0;
    EXPECT_GE(H5Dget_chunk_info_by_coord(dataset, &element, nullptr, &place, &bytes), 0);
    H5Dclose(dataset);
    H5Fclose(file);
    return {place, bytes};
  }

  /// Numbers that deflate makes little of: 10 chunks of 40 KB.
  static std::vector<char> noise(std::size_t bytes) {
    std::mt19937 random(5);
    std::vector<char> made(bytes);
    for (char& byte : made) {
      byte = static_cast<char>(random());
    }
    return made;
  }

  const Form form_{{100'000}, H5T_IEEE_F32LE, {10'000}, true};
  const std::vector<char> expected_ = random_bytes(bytes_of(form_));
  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file.h5";
};

TEST_F(Hdf5FailureTest, ADamagedChunkIsAnErrorOfItsOwnElementsOnly) {
  const auto [place, bytes] = chunk_place(25'000);
  {
    const FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    const std::vector<char> damage(bytes / 2, 0x55);
    ASSERT_EQ(::pwrite(file.get(), damage.data(), damage.size(), static_cast<off_t>(place)),
              static_cast<ssize_t>(damage.size()));
  }
  testing::internal::CaptureStderr();
  for (const OpenMode mode : {OpenMode::read_only, OpenMode::read_write}) {
    const auto store = open_store(url(), mode);
    std::vector<char> buffer(40'000);
    EXPECT_EQ(store->read(buffer.data(), 40'000, 80'000), -EIO);
    EXPECT_EQ(store->read(buffer.data(), 40'000, 40'000), 40'000);
    EXPECT_TRUE(std::equal(buffer.begin(), buffer.end(), expected_.begin() + 40'000));
    if (mode == OpenMode::read_write) {
      EXPECT_EQ(store->write("x", 1, 90'000), -EIO);
      EXPECT_EQ(store->write(expected_.data(), 40'000, 80'000),
                40'000);  // A whole one needs nothing of what was there.
      EXPECT_EQ(store->read(buffer.data(), 40'000, 80'000), 40'000);
      EXPECT_EQ(store->flush(), 0);
    }
  }
  // Each range that was asked for is named once by each store.
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 3) << said;
  expect_said(said, {path_.c_str(), "from 20000 on, 10000 in all, are some that cannot be read: "});
}

/// No file becomes longer than it is while this is there.
class NoGrowth {
 public:
  explicit NoGrowth(const std::string& path) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit limit = before_;
    limit.rlim_cur = std::filesystem::file_size(path);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~NoGrowth() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  struct rlimit before_ = {};
};

TEST_F(Hdf5FailureTest, WhatCannotBeWrittenIsSaidByEveryCallFromThenOn) {
  const std::vector<char> written = noise(expected_.size());
  const auto store = open_store(url() + "?decoded=128KiB", OpenMode::read_write);
  {
    const NoGrowth limit(path_);
    std::int64_t put = store->write(written.data(), written.size(), 0);
    const int flushed = store->flush();
    EXPECT_LT(flushed, 0);
    put = store->write(written.data(), 100, 0);
    EXPECT_EQ(put, flushed);
  }
  char byte = 0;
  EXPECT_LT(store->read(&byte, 1, 0), 0);
  EXPECT_LT(store->flush(), 0);
}

TEST_F(Hdf5FailureTest, AReadThatFindsNoRoomForWhatWasWrittenSaysThatAndNotThatItCannotRead) {
  const std::vector<char> written = noise(120'000);
  const auto store = open_store(url() + "?decoded=128KiB", OpenMode::read_write);
  ASSERT_EQ(store->write(written.data(), written.size(), 0), static_cast<std::int64_t>(written.size()));
  const NoGrowth limit(path_);
  testing::internal::CaptureStderr();
  std::vector<char> buffer(120'000);
  EXPECT_EQ(store->read(buffer.data(), buffer.size(), 200'000), -EFBIG);
  EXPECT_EQ(store->read(buffer.data(), buffer.size(), 200'000), -EFBIG);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  expect_said(said, {path_.c_str(), "chunks that were changed cannot be written (", "): make room, open it again"});
}

TEST_F(Hdf5FailureTest, ClosingARegionSaysWhatItCouldNotWrite) {
  const std::vector<char> written = noise(expected_.size());
  VectorOptions options;
  options.budget_bytes = 4 << 20;
  auto vector = Vector<float>::open(url(), options);
  std::memcpy(vector.data(), written.data(), written.size());
  const NoGrowth limit(path_);
  EXPECT_THROW(vector.close(), Error);
}

TEST_F(Hdf5FailureTest, CopyingFromOneDatasetToAnotherWaitsForNoLock) {
  // The buffer is a region of another dataset, whose pages come and go while libhdf5 is at work for the first.
  WrittenFile(directory_ / "other.h5").add("x", form_, expected_.data());
  VectorOptions options;
  options.budget_bytes = 128 << 10;
  options.page_size_bytes = 4 << 10;
  auto other = Vector<float>::open("hdf5:" + directory_.encoded() + "/other.h5:/x", options);
  const auto store = open_store(url(), OpenMode::read_write);
  char* const memory = reinterpret_cast<char*>(other.data());
  const std::uint64_t half = expected_.size() / 2;
  std::thread second([&] {
    EXPECT_EQ(store->read(memory + half, half, half), static_cast<std::int64_t>(half));
    EXPECT_EQ(store->write(memory + half, half, half), static_cast<std::int64_t>(half));
  });
  EXPECT_EQ(store->read(memory, half, 0), static_cast<std::int64_t>(half));
  EXPECT_EQ(store->write(memory, half, 0), static_cast<std::int64_t>(half));
  second.join();
  EXPECT_EQ(std::memcmp(memory, expected_.data(), expected_.size()), 0);
  other.close();
}

/// What a child process says of `question`.
template <typename Question>
bool in_child(Question&& question) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool answer = false;
    try {
      answer = question();
    } catch (const StoreError& error) {
      answer = error.code().value() == EBUSY;
    }
    ::_exit(answer ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST_F(Hdf5FailureTest, AForkedChildReadsAndLeavesTheLock) {
  auto store = open_store(url(), OpenMode::read_only);
  const FileDescriptor other(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(in_child([&] {
    store.reset();
    std::vector<char> buffer(100'000);
    return open_store(url(), OpenMode::read_only)->read(buffer.data(), 100'000, 0) == 100'000 &&
           std::memcmp(buffer.data(), expected_.data(), buffer.size()) == 0;
  }));
  EXPECT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), -1);
  EXPECT_TRUE(in_child([&] { return open_store(url(), OpenMode::read_write) == nullptr; }));
  store = open_store(url(), OpenMode::read_write);
  ASSERT_EQ(store->write("more", 4, 0), 4);
  EXPECT_TRUE(in_child([&] { return open_store(url(), OpenMode::read_only) == nullptr; }));
  EXPECT_TRUE(in_child([&] {
    const bool refused = store->write("less", 4, 0) == -EBUSY;
    store.reset();
    return refused;
  }));
  store.reset();
  const std::vector<char> there = dataset_bytes(path_, "x");
  EXPECT_EQ(std::memcmp(there.data(), "more", 4), 0);
}

}  // namespace
}  // namespace tiermap
