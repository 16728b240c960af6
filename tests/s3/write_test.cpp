// What is written becomes an object as a whole or not at all: put or uploaded in parts, under conditions, with answers
// that get lost, while others write, and while more is being written.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "s3/strict_server.hpp"
#include "store/reference_check.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

class S3WriteTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.runs()) << "python3 does not run tests/s3/strict_server.py"; }

  /// Says nothing on standard error, or what it is to say.
  int flush(Store& store) {
    testing::internal::CaptureStderr();
    const int result = store.flush();
    said_ = testing::internal::GetCapturedStderr();
    return result;
  }
  bool said(const std::string& part) const { return said_.find(part) != std::string::npos; }
  static void write(Store& store, const std::string& text, std::uint64_t offset) {
    ASSERT_EQ(store.write(text.data(), text.size(), offset), static_cast<std::int64_t>(text.size()));
  }

  StrictServer server_;
  std::string said_;
};

TEST_F(S3WriteTest, ASmallOneIsThereOnceItIsFlushed) {
  const auto store = open_store(server_.url("new"), OpenMode::create, 100'000);
  std::string expected(100'000, '\0');
  write(*store, "hello", 50'000);
  expected.replace(50'000, 5, "hello");
  EXPECT_EQ(server_.saved("new"), "(none)");
  EXPECT_EQ(flush(*store), 0);
  EXPECT_EQ(server_.saved("new"), expected);
  EXPECT_EQ(server_.counts()["put"], 1);
  EXPECT_EQ(flush(*store), 0);  // Nothing to do.
  EXPECT_EQ(server_.counts().contains("put"), false);
  write(*store, "again", 0);
  expected.replace(0, 5, "again");
  EXPECT_EQ(store->settle(), 0);
  EXPECT_EQ(server_.saved("new"), expected);
  expect_equal(*store, {expected.begin(), expected.end()});
}

TEST_F(S3WriteTest, WhatWasNeverWrittenIsMadeByFlushAloneAndWhatWasByItsEndToo) {
  open_store(server_.url("nothing"), OpenMode::create, 10);
  EXPECT_EQ(server_.saved("nothing"), "(none)");
  open_store(server_.url("zeros"), OpenMode::create, 10)->flush();
  EXPECT_EQ(server_.saved("zeros"), std::string(10, '\0'));
  write(*open_store(server_.url("written"), OpenMode::open_or_create, 10), "x", 3);
  EXPECT_EQ(server_.saved("written"), std::string("\0\0\0x\0\0\0\0\0\0", 10));
  open_store(server_.url("empty"), OpenMode::create)->flush();
  EXPECT_EQ(server_.saved("empty"), "");
}

TEST_F(S3WriteTest, ALargeOneIsUploadedInParts) {
  const std::string content = patterned(11'000'001);
  const auto store = open_store(server_.url("large", "part=5MiB"), OpenMode::create, content.size());
  write(*store, content, 0);
  EXPECT_EQ(flush(*store), 0);
  EXPECT_TRUE(server_.saved("large") == content);
  auto counts = server_.counts();
  EXPECT_EQ(counts["part"], 3);
  EXPECT_EQ(counts["uploads_left"], 0);
  EXPECT_FALSE(counts.contains("get") && counts["get"] > 1) << "what was just written was read";
}

TEST_F(S3WriteTest, PartsWithoutAChangeAreCopiedByTheServer) {
  std::string content = patterned(16 << 20);
  server_.load("large", content);
  const auto store = open_store(server_.url("large", "part=5MiB"), OpenMode::read_write);
  write(*store, "changed here", (7 << 20) + 77);
  content.replace((7 << 20) + 77, 12, "changed here");
  server_.counts();
  EXPECT_EQ(flush(*store), 0);
  auto counts = server_.counts();
  EXPECT_EQ(counts["part"], 1);
  EXPECT_EQ(counts["copy"], 2);
  EXPECT_EQ(counts["get"], 1);  // The rest of the part that has changed.
  EXPECT_EQ(counts["bytes_copied"], 11 << 20);
  EXPECT_TRUE(server_.saved("large") == content);
  EXPECT_EQ(server_.ask("headers bucket large").find("\"content-type\": \"text/x-test\""), 1U);
  EXPECT_NE(server_.ask("headers bucket large").find("\"x-amz-meta-owner\": \"me\""), std::string::npos);
  // What was written before is in the object by now, and is copied too.
  write(*store, "and here", 0);
  content.replace(0, 8, "and here");
  EXPECT_EQ(flush(*store), 0);
  counts = server_.counts();
  EXPECT_EQ(counts["part"], 1);
  EXPECT_EQ(counts["bytes_copied"], 11 << 20);
  EXPECT_TRUE(server_.saved("large") == content);
  expect_equal(*store, {content.begin(), content.end()});
}

TEST_F(S3WriteTest, CutAndGrown) {
  std::string content = patterned(8 << 20);
  server_.load("key", content);
  const auto store = open_store(server_.url("key", "part=5MiB"), OpenMode::read_write);
  ASSERT_EQ(store->resize(7'000'000), 0);
  content.resize(7'000'000);
  EXPECT_EQ(flush(*store), 0);
  EXPECT_TRUE(server_.saved("key") == content);
  ASSERT_EQ(store->resize(5'500'000), 0);
  ASSERT_EQ(store->resize(7'500'000), 0);
  content.resize(5'500'000);
  content.resize(7'500'000);
  EXPECT_EQ(flush(*store), 0);
  EXPECT_TRUE(server_.saved("key") == content);
  write(*store, "past the end", 8'000'000);
  content.resize(8'000'000);
  content += "past the end";
  EXPECT_EQ(flush(*store), 0);
  EXPECT_TRUE(server_.saved("key") == content);
  ASSERT_EQ(store->resize(3), 0);
  EXPECT_EQ(flush(*store), 0);
  EXPECT_EQ(server_.saved("key"), content.substr(0, 3));
}

TEST_F(S3WriteTest, RandomWorkAndFlushesMatchAnArray) {
  const std::string content = patterned(6'000'000);
  server_.load("key", content);
  std::vector<char> expected(content.begin(), content.end());
  const auto store = open_store(server_.url("key", "part=5MiB"), OpenMode::read_write);
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t round = 0; round < 3; ++round) {
    random_work(*store, expected, 0, expected.size(), 30, seed + round);
    EXPECT_EQ(flush(*store), 0);
    EXPECT_TRUE(server_.saved("key") == std::string(expected.begin(), expected.end())) << round;
  }
  expect_equal(*store, expected);
}

TEST_F(S3WriteTest, NobodysWorkIsOverwritten) {
  for (const std::uint64_t bytes : {std::uint64_t{1000}, std::uint64_t{9} << 20}) {
    const std::string key = "key" + std::to_string(bytes);
    const auto made = open_store(server_.url(key), OpenMode::create, bytes);
    write(*made, "mine", 0);
    server_.load(key, "theirs");
    EXPECT_EQ(flush(*made), -ESTALE);
    EXPECT_TRUE(said("PreconditionFailed")) << said_;
    EXPECT_EQ(server_.saved(key), "theirs");
    EXPECT_EQ(server_.counts()["uploads_left"], 0);
    server_.ask("delete bucket " + key);
    EXPECT_EQ(flush(*made), 0);  // Nothing was lost.
    const auto opened = open_store(server_.url(key), OpenMode::read_write);
    write(*opened, "more", 0);
    server_.load(key, "theirs");
    EXPECT_EQ(flush(*opened), -ESTALE);
    server_.ask("delete bucket " + key);
    EXPECT_EQ(flush(*opened), -ESTALE);
    EXPECT_EQ(server_.saved(key), "(none)");
  }
}

TEST_F(S3WriteTest, FailuresLeaveTheOldObjectAndLoseNothing) {
  std::string content = patterned(12 << 20);
  server_.load("key", content);
  const auto store = open_store(server_.url("key", "part=5MiB&retries=1"), OpenMode::read_write);
  write(*store, "changed", 6 << 20);
  for (const char* operation : {"begin", "part", "copy", "complete"}) {
    server_.fault(operation, "500", 4);
    EXPECT_EQ(flush(*store), -EIO) << operation;
    EXPECT_TRUE(said("InternalError (It is InternalError.), 2 tries") || said_.empty()) << said_;
    EXPECT_TRUE(server_.saved("key") == content);
    EXPECT_EQ(server_.counts()["uploads_left"], 0) << operation;
    server_.ask("calm");
  }
  content.replace(6 << 20, 7, "changed");
  EXPECT_EQ(flush(*store), 0);
  EXPECT_TRUE(server_.saved("key") == content);
}

TEST_F(S3WriteTest, AnswersThatAreLostDoNotCountAsSomebodyElsesWrites) {
  for (const std::uint64_t bytes : {std::uint64_t{1000}, std::uint64_t{11} << 20}) {
    const std::string key = "key" + std::to_string(bytes);
    const auto store = open_store(server_.url(key, "part=5MiB"), OpenMode::create, bytes);
    for (const char* text : {"one", "two"}) {
      write(*store, text, 0);
      server_.fault(bytes < 2000 ? "put" : "complete", "lost", 1);
      EXPECT_EQ(flush(*store), 0) << said_;
      EXPECT_EQ(server_.saved(key).substr(0, 3), text);
      char buffer[4];
      EXPECT_EQ(store->read(buffer, 4, bytes - 4), 4);
    }
  }
}

TEST_F(S3WriteTest, WhatWasMadeThoughNobodyHeardOfItIsNoneOfSomebodyElses) {
  for (const std::uint64_t bytes : {std::uint64_t{9000}, std::uint64_t{11} << 20}) {
    const std::string key = "key" + std::to_string(bytes);
    const auto store = open_store(server_.url(key, "part=5MiB&retries=0"), OpenMode::create, bytes);
    std::string expected(bytes, '\0');
    for (const char* text : {"one", "two", "six"}) {
      write(*store, text, 0);
      server_.fault(bytes < 10'000 ? "put" : "complete", "lost", 1);
      server_.fault("get", "503", 2);  // So that nobody knows.
      EXPECT_NE(flush(*store), 0);
      server_.ask("calm");
      expected.replace(0, 3, text);
      EXPECT_TRUE(server_.saved(key) == expected);
      char buffer[4];
      EXPECT_EQ(store->read(buffer, 4, bytes - 4), 4);  // What is in the object.
      write(*store, text, 4097);
      expected.replace(4097, 3, text);
      EXPECT_EQ(flush(*store), 0) << said_;
      EXPECT_TRUE(server_.saved(key) == expected);
      expect_equal(*store, {expected.begin(), expected.end()});
    }
    write(*store, "mine", 0);
    server_.load(key, "theirs");
    EXPECT_EQ(flush(*store), -ESTALE);
    EXPECT_EQ(server_.saved(key), "theirs");
  }
}

TEST_F(S3WriteTest, FailuresInAnAnswerThatBeganWellAreSeen) {
  const auto store = open_store(server_.url("key", "part=5MiB&retries=0"), OpenMode::create, 11 << 20);
  write(*store, "text", 0);
  server_.fault("part", "503", 1);
  EXPECT_EQ(flush(*store), -EIO);
  server_.fault("complete", "late", 1);  // But it was done.
  EXPECT_EQ(flush(*store), 0);
  EXPECT_EQ(server_.saved("key").substr(0, 4), "text");
}

TEST_F(S3WriteTest, APageOfSomebodyElseIsNoAnswer) {
  const auto store = open_store(server_.url("key", "retries=0"), OpenMode::create, 10);
  write(*store, "text", 0);
  server_.fault("put", "portal", 1);
  EXPECT_EQ(flush(*store), -EIO);
  EXPECT_TRUE(said("the server says it is written, and it is not: check endpoint and proxy")) << said_;
  EXPECT_EQ(server_.saved("key"), "(none)");
  server_.fault("put", "portal", 1);
  server_.fault("get", "503", 1);  // So that nobody knows.
  EXPECT_EQ(flush(*store), -EIO);
  EXPECT_TRUE(said("SlowDown (It is SlowDown.)")) << said_;
  EXPECT_EQ(flush(*store), 0);
  EXPECT_EQ(server_.saved("key").substr(0, 4), "text");
}

TEST_F(S3WriteTest, AConflictBeginsAgain) {
  const auto store = open_store(server_.url("key", "part=5MiB"), OpenMode::create, 11 << 20);
  server_.fault("complete", "409", 2);
  EXPECT_EQ(flush(*store), 0);
  EXPECT_EQ(server_.counts()["begin"], 3);
  server_.fault("put", "409", 3);
  const auto small = open_store(server_.url("small"), OpenMode::create, 10);
  EXPECT_EQ(flush(*small), -ESTALE);
  EXPECT_EQ(flush(*small), 0);
}

TEST_F(S3WriteTest, WritesAndReadsGoOnWhileAnObjectIsMade) {
  const std::uint64_t bytes = 12 << 20;
  server_.load("key", patterned(bytes));
  const auto store = open_store(server_.url("key", "part=5MiB"), OpenMode::read_write);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  std::vector<std::string> mine(3);
  for (std::uint64_t thread = 0; thread < mine.size(); ++thread) {
    threads.emplace_back([&, thread] {
      const std::uint64_t begin = thread * (4 << 20);
      std::vector<char> buffer(5000);
      mine[thread] = patterned(bytes).substr(begin, 4 << 20);
      for (unsigned step = 0; !done; ++step) {
        const std::uint64_t offset = step * 7919 % ((4 << 20) - buffer.size());
        ASSERT_EQ(store->read(buffer.data(), buffer.size(), begin + offset), 5000);
        ASSERT_EQ(std::memcmp(buffer.data(), mine[thread].data() + offset, buffer.size()), 0);
        const std::string text = patterned(300, step);
        ASSERT_EQ(store->write(text.data(), text.size(), begin + offset), 300);
        mine[thread].replace(offset, 300, text);
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(store->flush(), 0);
  }
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(store->flush(), 0);
  EXPECT_TRUE(server_.saved("key") == mine[0] + mine[1] + mine[2]);
}

TEST_F(S3WriteTest, AVectorThatGrows) {
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  options.capacity_bytes = 64 << 20;
  auto vector = Vector<std::uint64_t>::create(server_.url("vector"), 0, options);
  for (std::uint64_t index = 0; index < 1'200'000; ++index) {
    vector.append(index * index);
  }
  vector.sync();
  vector[3] = 7;
  vector.close();
  const auto read = Vector<std::uint64_t>::open_read_only(server_.url("vector"), options);
  ASSERT_EQ(read.size(), 1'200'000U);
  for (std::uint64_t index = 0; index < read.size(); index += 999) {
    ASSERT_EQ(read[index], index == 3 ? 7 : index * index);
  }
  EXPECT_EQ(read[3], 7U);
}

TEST_F(S3WriteTest, AVectorThatBecameLongerAloneIsNotClosedBeforeTheObjectIs) {
  server_.load("vector", std::string(4000, 'x'));
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  options.capacity_bytes = 64 << 20;
  auto vector = Vector<int>::open(server_.url("vector", "retries=0"), options);
  vector.resize(2000);
  server_.fault("put", "403", 1);
  testing::internal::CaptureStderr();
  EXPECT_THROW(vector.close(), Error);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(server_.saved("vector"), std::string(4000, 'x'));
  vector.close();
  EXPECT_EQ(server_.saved("vector"), std::string(4000, 'x') + std::string(4000, '\0'));
}

TEST_F(S3WriteTest, AVectorBehindTiersIsNotClosedBeforeTheObjectIsThere) {
  const TemporaryDirectory directory;
  write_file(directory / "tiers.yaml", "tiers:\n  - name: dram\n    kind: memory\n    capacity: 1MiB\n");
  std::string object = server_.url("vector", "retries=0");
  for (std::size_t at = object.find('&'); at != std::string::npos; at = object.find('&', at)) {
    object.replace(at, 1, "%26");
  }
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  options.capacity_bytes = 64 << 20;
  auto vector = Vector<int>::create("tiered:" + directory.encoded() + "/tiers.yaml?store=" + object, 1000, options);
  vector[999] = 7;
  server_.fault("put", "403", 1);
  testing::internal::CaptureStderr();
  EXPECT_THROW(vector.close(), Error);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(server_.saved("vector"), "(none)");
  EXPECT_EQ(vector[999], 7);
  vector.close();
  EXPECT_EQ(server_.saved("vector"), std::string(3996, '\0') + std::string("\7\0\0\0", 4));
}

TEST_F(S3WriteTest, AChildOfForkLeavesItToItsParent) {
  auto store = open_store(server_.url("key"), OpenMode::create, 1000);
  write(*store, "parent", 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused =
        store->write("child", 5, 0) == -EBUSY && store->flush() == -EBUSY && store->resize(1) == -EBUSY;
    store.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(server_.saved("key"), "(none)");
  EXPECT_EQ(flush(*store), 0);
  EXPECT_EQ(server_.saved("key").substr(0, 6), "parent");
}

}  // namespace
}  // namespace tiermap
