// One file has one vector that writes to it, by whatever path it is named; parts of it have one each.
#include "vector/written_parts.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "store/temporary_directory.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

VectorOptions small() {
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  return options;
}

class WrittenPartsTest : public testing::Test {
 protected:
  template <typename Call>
  static std::string refused_as_busy(Call&& call) {
    try {
      call();
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), EBUSY) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no exception";
    return "";
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "vector";
};

TEST_F(WrittenPartsTest, a_second_writer_of_one_file_is_refused_until_the_first_is_closed) {
  auto first = Vector<int>::create(path_, 10, small());
  const std::string link = directory_ / "link";
  std::filesystem::create_symlink(path_, link);
  for (const std::string& name :
       {path_, link, "file:" + directory_.encoded() + "/./vector", "concat:" + directory_.encoded() + "/vector@4+8",
        "file:" + directory_.encoded() + "/v*"}) {
    const std::string said = refused_as_busy([&] { Vector<int>::open(name, small()); });
    EXPECT_NE(said.find("close that first"), std::string::npos) << said;
    EXPECT_NO_THROW(Vector<int>::open_read_only(name, small()));
  }
  refused_as_busy([&] { Vector<int>::open_or_create(path_, 10, small()); });
  first[3] = 7;
  auto moved = std::move(first);
  refused_as_busy([&] { Vector<int>::open(path_, small()); });
  moved.close();
  EXPECT_EQ(Vector<int>::open(path_, small())[3], 7);
  EXPECT_EQ(Vector<int>::open(path_, small())[3], 7) << "also after one that was destroyed";
}

TEST_F(WrittenPartsTest, an_array_of_numpy_is_one_by_whatever_store_it_is_named) {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (100,), }";
  header.resize(117, ' ');
  write_file(path_, std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" + std::string(400, '\0'));
  write_file(directory_ / "tiers.yaml", "tiers: [{name: dram, capacity: 2MiB}]\n");
  const std::string file = directory_.encoded() + "/vector";
  const std::string names[] = {"npy:" + file, "npy:file://" + file, "npy:concat://" + file,
                               "npy:tiered://" + directory_.encoded() + "/tiers.yaml?store=" + file};
  for (const std::string& first_name : names) {
    auto first = Vector<int>::open(first_name, small());
    for (const std::string& name : names) {
      refused_as_busy([&] { Vector<int>::open(name, small()); });
    }
    refused_as_busy([&] { Vector<std::byte>::open(path_, small()); });
    ++first[7];
    first.close();
  }
  EXPECT_EQ(Vector<int>::open_read_only(names[0], small())[7], 4);
}

TEST_F(WrittenPartsTest, parts_of_one_file_have_a_writer_each) {
  Vector<int>::create(path_, 4096, small()).close();
  const std::string part = "concat:" + directory_.encoded() + "/vector@";
  auto lower = Vector<int>::open(part + "0+8KiB", small());
  auto upper = Vector<int>::open(part + "8KiB+8KiB", small());
  refused_as_busy([&] { Vector<int>::open(part + "8188+8", small()); });
  lower[0] = 1;
  upper[2047] = 2;
  lower.close();
  upper.close();
  const auto whole = Vector<int>::open_read_only(path_, small());
  EXPECT_EQ(whole[0] + whole[4095], 3);
}

TEST_F(WrittenPartsTest, a_child_forked_beside_threads_that_open_vectors_waits_for_none) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator has a lock that a thread may hold at the fork";
#endif
  Vector<int>::create(path_, 10, small()).close();
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop.load()) {
      const WrittenParts parts(path_);
    }
  });
  int status = 0;
  for (int round = 0; round < 300 && status == 0; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      const WrittenParts others(directory_.path());
      ::_exit(0);
    }
    EXPECT_EQ(::waitpid(child, &status, 0), child);
  }
  stop.store(true);
  thread.join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tiermap
