// Objects are read as they are: by ranges, signed, by many threads over connections that stay, in regions and vectors.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "s3/strict_server.hpp"
#include "store/reference_check.hpp"
#include "tiermap/error.hpp"
#include "tiermap/region.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

class S3ReadTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.runs()) << "python3 does not run tests/s3/strict_server.py"; }

  std::string refusal(const std::string& url, int error_number, OpenMode mode = OpenMode::read_only) {
    try {
      open_store(url, mode);
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), error_number) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("'" + url + "'"), std::string::npos) << error.what();
      return error.what();
    }
    ADD_FAILURE() << url << " was opened";
    return "";
  }

  StrictServer server_;
};

TEST_F(S3ReadTest, AllOfItAndItsEnds) {
  const std::string content = patterned(3'000'001);
  server_.load("some/key", content);
  const auto store = open_store(server_.url("some/key"), OpenMode::read_only);
  EXPECT_FALSE(store->writable());
  EXPECT_EQ(store->size_bytes(), content.size());
  expect_equal(*store, {content.begin(), content.end()});
  char buffer[20];
  EXPECT_EQ(store->read(buffer, 20, 2'999'991), 10);
  EXPECT_EQ(std::memcmp(buffer, content.data() + 2'999'991, 10), 0);
  EXPECT_EQ(store->read(buffer, 20, 3'000'001), 0);
  EXPECT_EQ(store->read(buffer, 0, 5), 0);
  EXPECT_EQ(store->write(buffer, 1, 0), -EROFS);
}

TEST_F(S3ReadTest, AnEmptyOneAndASingleByte) {
  server_.load("empty", "");
  server_.load("one", "x");
  EXPECT_EQ(open_store(server_.url("empty"), OpenMode::read_only)->size_bytes(), 0U);
  EXPECT_EQ(open_store(server_.url("one"), OpenMode::read_only)->size_bytes(), 1U);
}

TEST_F(S3ReadTest, AnyKeyIsSignedAsItIs) {
  for (const char* key : {"a=b+c,d/e.f", "x:y@z!*'()", "%C3%A4%20b%25%2B%3F%23%26", "//double/./../dots", "a~b-_"}) {
    const auto made = open_store(server_.url(key), OpenMode::create, 10);
    ASSERT_EQ(made->write("0123456789", 10, 0), 10) << key;
    ASSERT_EQ(made->flush(), 0) << key;
    char buffer[10];
    EXPECT_EQ(open_store(server_.url(key), OpenMode::read_only)->read(buffer, 10, 0), 10) << key;
    EXPECT_EQ(std::string(buffer, 10), "0123456789");
  }
}

TEST_F(S3ReadTest, TheBucketMayStandInTheHost) {
  server_.load("key", "content");
  const std::string url =
      "s3://bucket/key?region=eu-test-1&addressing=virtual&endpoint=http://localhost:" + server_.port();
  EXPECT_EQ(open_store(url, OpenMode::read_only)->size_bytes(), 7U);
}

TEST_F(S3ReadTest, TemporaryKeysSendTheirToken) {
  server_.load("key", "content");
  server_.ask("require token/with+odd=characters");
  EXPECT_NE(refusal(server_.url("key"), EACCES).find("InvalidToken"), std::string::npos);
  ::setenv("AWS_SESSION_TOKEN", "token/with+odd=characters", 1);
  EXPECT_EQ(open_store(server_.url("key"), OpenMode::read_only)->size_bytes(), 7U);
}

TEST_F(S3ReadTest, WhatAnybodyMayReadIsReadWithoutKeys) {
  server_.load("key", "content", "public");
  server_.load("key", "content");
  StrictServer::clear_environment();
  EXPECT_EQ(open_store(server_.url("key", "anonymous=on", "public"), OpenMode::read_only)->size_bytes(), 7U);
  EXPECT_NE(
      refusal(server_.url("key", "anonymous=on"), EACCES).find("AccessDenied (It is AccessDenied.): sign with keys"),
      std::string::npos);
  EXPECT_NE(refusal(server_.url("key"), EACCES).find("no keys to sign with: set AWS_ACCESS_KEY_ID"), std::string::npos);
}

TEST_F(S3ReadTest, RefusalsSayWhyAndWhatToDo) {
  server_.load("key", "content");
  EXPECT_NE(refusal(server_.url("none"), ENOENT).find("NoSuchKey (It is NoSuchKey.): check the key, or create it"),
            std::string::npos);
  EXPECT_NE(refusal(server_.url("none"), ENOENT, OpenMode::read_write).find("NoSuchKey"), std::string::npos);
  EXPECT_NE(refusal(server_.url("key", "", "elsewhere"), ENOENT, OpenMode::create).find("NoSuchBucket"),
            std::string::npos);
  EXPECT_NE(refusal(server_.url("key"), EEXIST, OpenMode::create).find("open it instead"), std::string::npos);
  const std::string other_region = "s3://bucket/key?region=us-east-1&endpoint=http://127.0.0.1:" + server_.port();
  EXPECT_NE(refusal(other_region, EINVAL).find("the bucket is in another region: write region=eu-test-1"),
            std::string::npos);
  ::setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
  EXPECT_NE(refusal(server_.url("key"), EACCES)
                .find("SignatureDoesNotMatch (The signature is another one.?Two lines & more): check the secret key"),
            std::string::npos);
  ::setenv("AWS_ACCESS_KEY_ID", "wrong", 1);
  EXPECT_NE(refusal(server_.url("key"), EACCES).find("InvalidAccessKeyId"), std::string::npos);
}

TEST_F(S3ReadTest, NobodyThereIsSaidAfterAFewTries) {
  const std::string url = "s3://bucket/key?retries=2&pause=0.001&endpoint=http://127.0.0.1:1";
  EXPECT_NE(refusal(url, ECONNREFUSED).find(", 3 tries: check endpoint and network"), std::string::npos);
}

TEST_F(S3ReadTest, ManyThreadsKeepTheirConnections) {
  const std::string content = patterned(4 << 20);
  server_.load("key", content);
  const auto store = open_store(server_.url("key"), OpenMode::read_only);
  server_.counts();
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<char> buffer(20'000);
      for (unsigned step = 0; step < 25; ++step) {
        const std::uint64_t offset = (thread * 7919 + step * 104729) % (content.size() - buffer.size());
        ASSERT_EQ(store->read(buffer.data(), buffer.size(), offset), 20'000);
        ASSERT_EQ(std::memcmp(buffer.data(), content.data() + offset, buffer.size()), 0);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto counts = server_.counts();
  EXPECT_EQ(counts["get"], 200);
  EXPECT_LE(counts["connections"], 8);
}

TEST_F(S3ReadTest, AChildOfForkHasConnectionsOfItsOwn) {
  const std::string content = patterned(1 << 20);
  server_.load("key", content);
  const auto store = open_store(server_.url("key"), OpenMode::read_only);
  char buffer[1000];
  ASSERT_EQ(store->read(buffer, 1000, 0), 1000);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = true;
    for (std::uint64_t step = 0; step < 50; ++step) {
      right = right && store->read(buffer, 1000, step * 3000) == 1000 &&
              std::memcmp(buffer, content.data() + step * 3000, 1000) == 0;
    }
    ::_exit(right ? 0 : 1);
  }
  for (std::uint64_t step = 0; step < 50; ++step) {
    ASSERT_EQ(store->read(buffer, 1000, step * 2000), 1000);
    ASSERT_EQ(std::memcmp(buffer, content.data() + step * 2000, 1000), 0);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(S3ReadTest, AVectorLargerThanMemory) {
  std::string content(6 << 20, '\0');
  double expected = 0;
  for (std::uint32_t index = 0; index < content.size() / sizeof(float); ++index) {
    const auto value = static_cast<float>(index % 1000);
    std::memcpy(content.data() + index * sizeof(float), &value, sizeof value);
    expected += value;
  }
  server_.load("floats", content);
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  options.page_size_bytes = 64 << 10;
  auto vector = Vector<float>::open_read_only(server_.url("floats"), options);
  double sum = 0;
  vector.read().for_each([&](float value) { sum += value; });
  EXPECT_EQ(sum, expected);
}

TEST_F(S3ReadTest, ANumpyArrayInAnObject) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 3), }";
  std::string file =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + std::string(117 - header.size(), ' ') + "\n";
  for (int index = 0; index < 3000; ++index) {
    const auto value = static_cast<float>(index);
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  server_.load("array.npy", file);
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  auto vector = Vector<float>::open("npy:" + server_.url("array.npy"), options);
  ASSERT_EQ(vector.size(), 3000U);
  EXPECT_EQ(vector[2999], 2999);
  EXPECT_EQ(open_store("npy:" + server_.url("array.npy"), OpenMode::read_only)->element_layout()->shape,
            (std::vector<std::uint64_t>{1000, 3}));
  EXPECT_THROW(Vector<double>::open_read_only("npy:" + server_.url("array.npy"), options), StoreError);
  vector[7] = -1;
  vector.close();
  const float changed = -1;
  std::memcpy(file.data() + 128 + 7 * sizeof(float), &changed, sizeof changed);
  EXPECT_EQ(server_.saved("array.npy"), file);
  server_.load("array.npy", file.substr(0, 5000));
  EXPECT_THROW(open_store("npy:" + server_.url("array.npy"), OpenMode::read_only), StoreError);
}

}  // namespace
}  // namespace tiermap
