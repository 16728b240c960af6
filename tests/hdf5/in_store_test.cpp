// HDF5 files that lie in a store, an object in S3 above all: every dataset is what it is in a file, few requests are
// made for it, and what is wrong is said in one line.
#ifdef TIERMAP_HAS_S3
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "hdf5/hdf5_file.hpp"
#include "s3/moto_server.hpp"
#include "s3/strict_server.hpp"
#include "store/hdf5/dataset.hpp"
#include "store/opening_refusal.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

class Hdf5InStoreTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.runs()) << "python3 does not run tests/s3/strict_server.py"; }

  /// To the server, under the name file.h5.
  void upload() { server_.load("file.h5", read_file(path_)); }
  std::string url(const std::string& dataset, const std::string& options = "") const {
    return "hdf5:" + server_.url("file.h5" + dataset, options);
  }
  std::string file_url(const std::string& dataset) const {
    return "hdf5:" + directory_.encoded() + "/file.h5" + dataset;
  }
  std::string refusal(const std::string& dataset, int error_number, const std::string& options = "") const {
    return refusal_of_opening(url(dataset, options), error_number);
  }
  /// -1000 is read where there is no more: every read has to fail or be right.
  std::int64_t read_quietly(Store& store, std::uint64_t offset) const {
    std::vector<char> buffer(1000);
    testing::internal::CaptureStderr();
    const std::int64_t got = store.read(buffer.data(), buffer.size(), offset);
    testing::internal::GetCapturedStderr();
    return got;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file.h5";
  StrictServer server_;
};

struct NamedForm {
  const char* name;
  Form form;
  bool written = true;
};

std::vector<NamedForm> every_form() {
  return {{"contiguous", {{100, 30, 7}}},
          {"chunked", {{100, 30, 7}, H5T_IEEE_F64LE, {7, 8, 3}}},
          {"packed", {{200'000}, H5T_STD_I32LE, {4'000}, true}},
          {"checked", {{50'000}, H5T_STD_I16BE, {999}, true, true}},
          {"compact", {{100}, H5T_STD_U8LE, {}, false, false, true}},
          {"growing", {{3'000, 5}, H5T_IEEE_F32LE, {100, 2}, true, false, false, true}},
          {"single", {{}, H5T_IEEE_F64LE}},
          {"unwritten", {{1'000}, H5T_IEEE_F32LE}, false},
          {"unwritten chunks", {{1'000}, H5T_IEEE_F32LE, {10}}, false}};
}

TEST_F(Hdf5InStoreTest, EveryDatasetIsWhatItIsInAFile) {
  for (const bool newest : {false, true}) {
    {
      const WrittenFile file(path_, 1, newest);
      for (const NamedForm& named : every_form()) {
        const std::vector<char> data = random_bytes(bytes_of(named.form) + 8);
        file.add(std::string("group/inner/") + named.name, named.form, named.written ? data.data() : nullptr);
      }
    }
    upload();
    for (const NamedForm& named : every_form()) {
      const std::string dataset = std::string("/group/inner/") + named.name;
      for (const std::string& inner :
           {url(":" + dataset), "hdf5:file://" + directory_.encoded() + "/file.h5:" + dataset}) {
        const auto store = open_store(inner, OpenMode::read_only);
        const auto local = open_store(file_url(":" + dataset), OpenMode::read_only);
        SCOPED_TRACE(inner);
        EXPECT_EQ(store->name(), inner);
        EXPECT_FALSE(store->writable());
        EXPECT_EQ(store->write("x", 1, 0), -EROFS);
        EXPECT_EQ(store->element_layout()->shape, local->element_layout()->shape);
        EXPECT_EQ(store->element_layout()->type, local->element_layout()->type);
        EXPECT_EQ(store->element_layout()->row_bytes, local->element_layout()->row_bytes);
        expect_equal(*store, dataset_bytes(path_, dataset));
      }
    }
  }
}

TEST_F(Hdf5InStoreTest, OptionsGoToTheFormatOrToTheStore) {
  const Form form{{1'000}, H5T_IEEE_F32LE, {100}, true};
  const std::vector<char> data = random_bytes(bytes_of(form));
  WrittenFile(path_).add("x", form, data.data());
  upload();
  EXPECT_EQ(open_store(url(":x", "decoded=4000&type=float32&shape=1000&retries=2"), OpenMode::read_only)->size_bytes(),
            4'000U);
  EXPECT_EQ(open_store(url(":/x", "d%65coded=4KiB"), OpenMode::read_only)->size_bytes(), 4'000U);
  expect_said(refusal(":/x", EINVAL, "decoded=100"), {"less than a chunk"});
  expect_said(refusal(":/x", EINVAL, "type=float64"), {"float64"});
  expect_said(refusal(":/x", EINVAL, "direct=off"), {"option 'direct' is unknown to s3"});
  expect_said(refusal(":/x", EINVAL, "retries=x"), {"retries 'x' is no count"});
}

TEST_F(Hdf5InStoreTest, AKeyMayHaveAnyCharacter) {
  const Form form{{10}};
  const std::vector<char> data = random_bytes(bytes_of(form));
  WrittenFile(path_).add("a:b", form, data.data());
  server_.load("a:b?/c*[d", read_file(path_));
  const auto store = open_store("hdf5:" + server_.url("a%3Ab%3F/c*[d:a%3Ab"), OpenMode::read_only);
  expect_equal(*store, data);
}

TEST_F(Hdf5InStoreTest, AVectorLargerThanMemoryByManyThreads) {
  std::vector<float> numbers(1'000'000);
  double expected = 0;
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    numbers[index] = static_cast<float>(index % 1000);
    expected += numbers[index];
  }
  {
    const WrittenFile file(path_);
    file.add("plain", {{numbers.size()}}, numbers.data());
    file.add("packed", {{numbers.size()}, H5T_NATIVE_FLOAT, {10'000}, true}, numbers.data());
  }
  upload();
  for (const char* dataset : {":/plain", ":/packed"}) {
    VectorOptions options;
    options.budget_bytes = 1 << 20;
    options.page_size_bytes = 64 << 10;
    auto vector = Vector<float>::open_read_only(url(dataset), options);
    std::vector<double> sums(4);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < sums.size(); ++thread) {
      threads.emplace_back([&, thread] {
        const std::size_t share = numbers.size() / sums.size();
        for (std::size_t index = thread * share; index < (thread + 1) * share; ++index) {
          sums[thread] += static_cast<double>(std::as_const(vector)[index]);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(sums[0] + sums[1] + sums[2] + sums[3], expected) << dataset;
    EXPECT_THROW(Vector<double>::open_read_only(url(dataset), options), StoreError);
    EXPECT_THROW(Vector<float>::open(url(dataset), options), StoreError);
  }
}

TEST_F(Hdf5InStoreTest, FewRequestsFindADatasetAmongMany) {
  {
    const WrittenFile file(path_);
    for (int number = 0; number < 300; ++number) {
      const Form form{{10}, H5T_IEEE_F32LE, {5}};
      file.add("group" + std::to_string(number % 20) + "/x" + std::to_string(number), form, random_bytes(40).data());
    }
  }
  upload();
  server_.counts();
  const auto store = open_store(url(":/group7/x287"), OpenMode::read_only);
  EXPECT_EQ(read_quietly(*store, 0), 40);
  EXPECT_LE(server_.counts()["get"], 3);
  // Here all of them are looked at.
  expect_said(refusal(":/group7/x288", ENOENT),
              {"dataset /group7/x288 is not there: choose among /group0/x0", "others"});
  EXPECT_LE(server_.counts()["get"], 3);
}

TEST_F(Hdf5InStoreTest, WhatIsWrongIsSaidInOneLine) {
  const Form form{{100'000}, H5T_IEEE_F32LE, {1'000}, true};
  const std::vector<char> data = random_bytes(bytes_of(form));
  {
    const WrittenFile file(path_);
    file.add("chunked", form, data.data());
    file.add("plain", {{100'000}}, data.data());
    file.add_group("group");
    H5Lcreate_external("other.h5", "/x", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT);
  }
  upload();
  const std::string object = server_.url("file.h5");
  expect_said(refusal("", EINVAL), {"names no dataset, behind a colon: choose among /chunked, /plain"});
  expect_said(refusal(":/none", ENOENT), {object.c_str(), "dataset /none is not there: choose among /chunked, /plain"});
  expect_said(refusal(":/group", EISDIR), {"is a group"});
  expect_said(refusal(":/link", ENOENT), {"cannot be opened"});
  expect_said(refusal(":/plain:0", EINVAL), {"more than one colon", "%3A"});
  for (const OpenMode mode : {OpenMode::read_write, OpenMode::create, OpenMode::open_or_create}) {
    expect_said(refusal_of_opening(url(":/plain"), EROFS, mode), {"only read", "open it read-only"});
  }
  expect_said(refusal_of_opening("hdf5:" + server_.url("none.h5:/x"), ENOENT), {"NoSuchKey"});
  expect_said(refusal_of_opening("hdf5:ftp://host/x.h5:/x", ENOTSUP), {"scheme 'ftp' is unknown"});
  expect_said(refusal_of_opening("hdf5:tiered:///tiers.yaml:/x?store=hdf5:file.h5:/y", ENOTSUP),
              {"an HDF5 file in a dataset of another", "copy it to a file"});
  server_.load("file.h5", std::string(100'000, 'x'));
  expect_said(refusal(":/plain", EINVAL), {object.c_str(), "is no HDF5 file that libhdf5 can open"});
  server_.load("file.h5", "");
  expect_said(refusal(":/plain", EINVAL), {object.c_str(), "is no HDF5 file"});
  const std::string whole = read_file(path_);
  for (const std::size_t bytes : {std::size_t{50}, std::size_t{1'000}, whole.size() / 2, whole.size() - 1}) {
    server_.load("file.h5", whole.substr(0, bytes));
    expect_said(refusal(":/plain", EINVAL), {object.c_str()});
  }
}

TEST_F(Hdf5InStoreTest, AnObjectThatChangesIsNotReadAnyFurther) {
  const Form form{{1'000'000}, H5T_IEEE_F32LE, {10'000}};
  const std::vector<char> data = random_bytes(bytes_of(form));
  {
    const WrittenFile file(path_);
    file.add("chunked", form, data.data());
    file.add("plain", {{1'000'000}}, data.data());
  }
  upload();
  const auto chunked = open_store(url(":/chunked", "retries=0"), OpenMode::read_only);
  const auto plain = open_store(url(":/plain"), OpenMode::read_only);
  EXPECT_EQ(read_quietly(*chunked, 0), 1'000);
  EXPECT_EQ(read_quietly(*plain, 0), 1'000);
  server_.load("file.h5", read_file(path_) + "x");
  EXPECT_EQ(read_quietly(*chunked, 3'500'000), -ESTALE);
  EXPECT_EQ(read_quietly(*plain, 3'500'000), -ESTALE);
  server_.load("file.h5", read_file(path_));  // The same bytes are the same version to S3.
  EXPECT_EQ(read_quietly(*chunked, 3'500'000), 1'000);
  server_.fault("get", "500", 1);
  EXPECT_EQ(read_quietly(*chunked, 2'000'000), -EIO);
  EXPECT_EQ(read_quietly(*chunked, 2'000'000), 1'000);
  expect_equal(*chunked, data);
}

/// A file of which all behind the first bytes cannot be read.
class HalfReadable final : public Store {
 public:
  explicit HalfReadable(std::string content) : content_(std::move(content)) {}
  std::uint64_t size_bytes() const override { return content_.size(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    if (offset + bytes > readable) {
      return -EREMOTEIO;
    }
    std::memcpy(buffer, content_.data() + offset, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::string name() const override { return "half of it"; }

  std::uint64_t readable = 0;

 private:
  const std::string content_;
};

TEST_F(Hdf5InStoreTest, AStoreThatFailsWhileAFileIsOpenedIsNamed) {
  const std::vector<char> data = random_bytes(3 << 20);
  {
    const WrittenFile file(path_);
    file.add("before", {{data.size()}, H5T_STD_U8LE}, data.data());
    for (int number = 0; number < 50; ++number) {  // More than the room for such things before that.
      file.add("behind" + std::to_string(number) + "/x", {{10}}, data.data());
    }
  }
  const auto store = std::make_shared<HalfReadable>(read_file(path_));
  load_hdf5("hdf5:");
  const Hdf5Call hdf5;
  EXPECT_THROW(Hdf5File::open_in(hdf5, store), StoreError);
  for (const std::uint64_t readable : {std::uint64_t{0}, std::uint64_t{2 << 20}}) {
    store->readable = readable;
    try {
      const auto file = Hdf5File::open_in(hdf5, store);
      EXPECT_THROW(describe_hdf5_dataset(hdf5, *file, "/behind49/x", false), StoreError);
      file->refuse_unread();
      ADD_FAILURE() << "all is well";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), EREMOTEIO);
      EXPECT_NE(std::string(error.what()).find("half of it cannot be read: Remote I/O error"), std::string::npos);
    }
  }
}

TEST_F(Hdf5InStoreTest, BehindTiersAnObjectIsReadOnce) {
  const Form form{{500'000}, H5T_IEEE_F32LE, {5'000}, true};
  const std::vector<char> data = random_bytes(bytes_of(form));
  WrittenFile(path_).add("x", form, data.data());
  upload();
  write_file(directory_ / "tiers.yaml", "tiers: [{capacity: 64MiB}]\n");
  std::string object = server_.url("file.h5");
  for (std::size_t at = object.find('&'); at != std::string::npos; at = object.find('&', at)) {
    object.replace(at, 1, "%26");
  }
  const auto store = open_store("hdf5:tiered://" + directory_.encoded() + "/tiers.yaml:/x?decoded=1MiB&store=" + object,
                                OpenMode::read_only);
  expect_equal(*store, data);
  server_.counts();
  expect_equal(*store, data);
  EXPECT_EQ(server_.counts().value("get", 0), 0);
}

TEST_F(Hdf5InStoreTest, AServerThatOthersWroteGivesTheSame) {
  if (!MotoServer::is_installed()) {
    GTEST_SKIP() << "moto[server] is not installed: scripts/moto.sh fetches it from PyPI";
  }
  const Form form{{300, 400}, H5T_IEEE_F32LE, {7, 400}, true};
  const std::vector<char> data = random_bytes(bytes_of(form));
  {
    const WrittenFile file(path_);
    file.add("group/packed", form, data.data());
    file.add("plain", {{300, 400}}, data.data());
  }
  const MotoServer server;
  ASSERT_TRUE(server.runs());
  const std::string content = read_file(path_);
  {
    const auto made = open_store(server.url("a folder/file.h5"), OpenMode::create, content.size());
    ASSERT_EQ(made->write(content.data(), content.size(), 0), static_cast<std::int64_t>(content.size()));
    ASSERT_EQ(made->flush(), 0);
  }
  for (const char* const dataset : {":/group/packed", ":plain"}) {
    const auto store = open_store("hdf5:" + server.url(std::string("a folder/file.h5") + dataset), OpenMode::read_only);
    expect_equal(*store, data);
    EXPECT_EQ(store->element_layout()->shape, (std::vector<std::uint64_t>{300, 400}));
  }
}

TEST_F(Hdf5InStoreTest, AChildOfForkReadsToo) {
  const Form form{{500'000}, H5T_IEEE_F32LE, {5'000}, true};
  const std::vector<char> data = random_bytes(bytes_of(form));
  WrittenFile(path_).add("x", form, data.data());
  upload();
  const auto store = open_store(url(":/x"), OpenMode::read_only);
  std::vector<char> buffer(40'000);
  ASSERT_EQ(store->read(buffer.data(), buffer.size(), 0), 40'000);
  const pid_t child = ::fork();
  const auto all_right = [&] {
    bool right = true;
    for (std::uint64_t offset = 0; offset < data.size(); offset += buffer.size()) {
      right = right && store->read(buffer.data(), buffer.size(), offset) == 40'000 &&
              std::memcmp(buffer.data(), data.data() + offset, buffer.size()) == 0;
    }
    return right;
  };
  if (child == 0) {
    ::_exit(all_right() ? 0 : 1);
  }
  EXPECT_TRUE(all_right());
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tiermap
#endif
