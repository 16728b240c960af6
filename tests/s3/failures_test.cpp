// What goes wrong on the way: what may pass is tried again, what does not is said, and no wrong byte is read.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <thread>

#include "s3/strict_server.hpp"
#include "store/unread_standard_error.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/error.hpp"
#include "tiermap/region.hpp"
#include "tiermap/store.hpp"

namespace tiermap {
namespace {

class S3FailureTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.runs()) << "python3 does not run tests/s3/strict_server.py";
    server_.load("key", content_);
  }

  /// What a read returns; what it brings has to be right then.
  std::int64_t read(Store& store, std::uint64_t offset = 1000) {
    std::vector<char> buffer(50'000);
    testing::internal::CaptureStderr();
    const std::int64_t got = store.read(buffer.data(), buffer.size(), offset);
    said_ = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(got < 0 || std::memcmp(buffer.data(), content_.data() + offset, static_cast<std::size_t>(got)) == 0);
    return got;
  }
  bool said(const std::string& part) const { return said_.find(part) != std::string::npos; }

  const std::string content_ = patterned(300'000);
  StrictServer server_;
  std::string said_;
};

TEST_F(S3FailureTest, WhatPassesIsTriedAgain) {
  const auto store = open_store(server_.url("key"), OpenMode::read_only);
  for (const char* kind : {"500", "503", "429", "reset", "short", "garbage"}) {
    server_.fault("get", kind, 2);
    EXPECT_EQ(read(*store), 50'000) << kind;
    EXPECT_EQ(said_, "") << kind;
    EXPECT_EQ(server_.counts()["faults_left"], 0) << kind;
  }
}

TEST_F(S3FailureTest, NobodyHasToHearWhatFailed) {
  const auto store = open_store(server_.url("key", "retries=0"), OpenMode::read_only);
  server_.fault("get", "503", 1);
  const UnreadStandardError unread;
  char byte = 0;
  EXPECT_EQ(store->read(&byte, 1, 0), -EIO);
}

TEST_F(S3FailureTest, TriesAreCountedAndTheLastSaysWhy) {
  const auto store = open_store(server_.url("key", "retries=3"), OpenMode::read_only);
  server_.counts();
  server_.fault("get", "503", 4);
  EXPECT_EQ(read(*store), -EIO);
  EXPECT_TRUE(said("tiermap: store '" + store->name() + "': SlowDown (It is SlowDown.)"));
  EXPECT_TRUE(said(", 4 tries: check endpoint and network, or choose more retries\n")) << said_;
  EXPECT_EQ(server_.counts()["get"], 4);
  EXPECT_EQ(read(*store), 50'000);  // It has passed by now.
  server_.fault("get", "503", 4);
  EXPECT_EQ(read(*store), -EIO);
  EXPECT_EQ(said_, "");  // Said before.
}

TEST_F(S3FailureTest, TooSlowAnswersEndInTime) {
  const auto store = open_store(server_.url("key", "retries=1&timeout=0.2"), OpenMode::read_only);
  server_.fault("get", "stall5", 2);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(read(*store), -ETIMEDOUT);
  EXPECT_TRUE(said("2 tries")) << said_;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  server_.fault("get", "stall5", 1);
  EXPECT_EQ(read(*store), 50'000);
}

TEST_F(S3FailureTest, WrongAnswersAreNeverTakenForRightOnes) {
  const std::pair<const char*, const char*> table[] = {
      {"range", "when asked for bytes=1000-50999: check endpoint and proxy"},
      {"shifted", "and range 'bytes 0-0/1' when asked for bytes=1000-50999"},
      {"whole", "the server ignores which range is asked for: use another one"},
      {"more", "the answer is longer than what was asked for: check the endpoint"},
      {"etag", "it has changed since it was opened"},
      {"endless", "status 403: sign with keys"},
      {"header", "or the answer has a header of more than 100 KiB: check endpoint and proxy"},
  };
  for (const auto& [kind, remedy] : table) {
    const auto store = open_store(server_.url("key", "retries=0"), OpenMode::read_only);
    server_.fault("get", kind, 1);
    EXPECT_LT(read(*store), 0) << kind;
    EXPECT_TRUE(said(remedy)) << kind << ": " << said_;
  }
}

TEST_F(S3FailureTest, AServerThatTellsNoVersionsIsRefused) {
  server_.fault("get", "weak", 1);
  try {
    open_store(server_.url("key"), OpenMode::read_only);
    FAIL() << "it was opened";
  } catch (const StoreError& error) {
    EXPECT_NE(std::string(error.what()).find("no ETag of its content"), std::string::npos) << error.what();
  }
}

TEST_F(S3FailureTest, ACertificateThatNobodyTrustsIsSaidToBeOne) {
  const TemporaryDirectory directory;
  const std::string key = directory / "key";
  const std::string certificate = directory / "certificate";
  const std::string make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout '" + key +
                           "' -out '" + certificate + "' 2>/dev/null";
  if (std::system(make.c_str()) != 0) {
    GTEST_SKIP() << "openssl makes no certificate here";
  }
  write_file(directory / "both", read_file(key) + read_file(certificate));
  const std::string port = server_.ask("tls " + directory / "both");
  const std::string url = "s3://bucket/key?region=eu-test-1&endpoint=https://127.0.0.1:" + port;
  try {
    open_store(url, OpenMode::read_only);
    FAIL() << "it was opened";
  } catch (const StoreError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code().value(), EIO);
    EXPECT_NE(text.find("certificate"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with(
        ": check the endpoint, or let this machine trust who signed its certificate (Debian: update-ca-certificates)"))
        << text;
  }
}

TEST_F(S3FailureTest, AnObjectThatChangesIsNoticed) {
  const auto store = open_store(server_.url("key"), OpenMode::read_only);
  EXPECT_EQ(read(*store), 50'000);
  server_.load("key", patterned(300'000, 2));
  EXPECT_EQ(read(*store), -ESTALE);
  EXPECT_TRUE(said("PreconditionFailed (It is PreconditionFailed.): it has changed since it was opened: open it again"))
      << said_;
  server_.load("key", content_);  // As it was, to the byte.
  EXPECT_EQ(read(*store), 50'000);
  server_.ask("delete bucket key");
  EXPECT_EQ(read(*store), -ESTALE);
  EXPECT_TRUE(said("NoSuchKey (It is NoSuchKey.): it has been removed since it was opened")) << said_;
}

thread_local sigjmp_buf recovery;
void on_bus_error(int) {
  siglongjmp(recovery, 1);
}

TEST_F(S3FailureTest, AChangeReachesTheThreadThatFaults) {
  struct sigaction before = {};
  struct sigaction action = {};
  action.sa_handler = on_bus_error;
  ::sigaction(SIGBUS, &action, &before);
  {
    Cache cache({.budget_bytes = 1 << 20});
    RegionOptions options;
    options.page_size_bytes = 64 << 10;
    options.read_ahead_bytes = 0;
    const Region region = cache.map(server_.url("key"), options);
    const auto* const bytes = reinterpret_cast<const volatile char*>(region.data());
    EXPECT_EQ(bytes[100], content_[100]);
    server_.load("key", patterned(300'000, 2));
    EXPECT_EQ(bytes[101], content_[101]);  // In memory as it was.
    testing::internal::CaptureStderr();
    bool refused = false;
    if (sigsetjmp(recovery, 1) == 0) {
      static_cast<void>(bytes[200'000]);
    } else {
      refused = true;
    }
    EXPECT_NE(testing::internal::GetCapturedStderr().find("it has changed since it was opened"), std::string::npos);
    EXPECT_TRUE(refused);
  }
  ::sigaction(SIGBUS, &before, nullptr);
}

}  // namespace
}  // namespace tiermap
