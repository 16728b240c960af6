// Temporary keys of a profile that expire while an object is open: those that stand there by then are taken.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "s3/strict_server.hpp"
#include "tiermap/store.hpp"

namespace tiermap {
namespace {

class S3RenewedKeysTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.runs()) << "python3 does not run tests/s3/strict_server.py";
    server_.load("key", content_);
    ::unsetenv("AWS_ACCESS_KEY_ID");
    ::unsetenv("AWS_SECRET_ACCESS_KEY");
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", profiles_.c_str(), 1);
    give("first");
  }
  /// The server takes this token alone, and the profile has it.
  void give(const std::string& token) {
    server_.ask("require " + token);
    write_profile(token);
  }
  void write_profile(const std::string& token) const {
    write_file(profiles_,
               "[default]\naws_access_key_id = AKIDTIERMAP\naws_secret_access_key = wJalr/XUtn+FEMI=K7MDENG\n"
               "aws_session_token = " +
                   token + "\n");
  }
  static std::int64_t read(Store& store) {
    std::vector<char> buffer(50'000);
    testing::internal::CaptureStderr();
    const std::int64_t got = store.read(buffer.data(), buffer.size(), 1000);
    testing::internal::GetCapturedStderr();
    return got;
  }

  const std::string content_ = patterned(300'000);
  const TemporaryDirectory directory_;
  const std::string profiles_ = directory_ / "credentials";
  StrictServer server_;
};

TEST_F(S3RenewedKeysTest, ReadingGoesOn) {
  const auto store = open_store(server_.url("key", "retries=0"), OpenMode::read_only);
  EXPECT_EQ(read(*store), 50'000);
  server_.ask("require second");
  EXPECT_EQ(read(*store), -EACCES);
  write_file(profiles_, "[default]\naws_access_key_id = AKIDTIERMAP\n");  // Half of them: it is being written.
  EXPECT_EQ(read(*store), -EACCES);
  write_profile("second");
  EXPECT_EQ(read(*store), 50'000);
  give("third");
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&] {
      std::vector<char> buffer(1000);
      for (std::uint64_t round = 0; round < 10; ++round) {
        EXPECT_EQ(store->read(buffer.data(), buffer.size(), round * 1000), 1000);
        EXPECT_EQ(std::string(buffer.data(), buffer.size()), content_.substr(round * 1000, 1000));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(S3RenewedKeysTest, WhatWasWrittenIsNotLost) {
  const auto store = open_store(server_.url("key"), OpenMode::read_write);
  EXPECT_EQ(store->write("new", 3, 5000), 3);
  server_.ask("require second");
  testing::internal::CaptureStderr();
  EXPECT_EQ(store->flush(), -EACCES);
  testing::internal::GetCapturedStderr();
  write_profile("second");
  EXPECT_EQ(store->flush(), 0);
  EXPECT_EQ(server_.saved("key"), std::string(content_).replace(5000, 3, "new"));
}

TEST_F(S3RenewedKeysTest, WhatMayPassIsTriedAsOftenAsEver) {
  const auto store = open_store(server_.url("key", "retries=2"), OpenMode::read_only);
  give("second");
  server_.counts();
  server_.fault("get", "503", 1);
  EXPECT_EQ(read(*store), 50'000);
  give("third");
  server_.fault("get", "503", 100);
  EXPECT_LT(read(*store), 0);
  EXPECT_EQ(server_.counts()["get"], 3 + 3);
}

}  // namespace
}  // namespace tiermap
