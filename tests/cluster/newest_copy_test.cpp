// Which of the copies of a data set are the newest, where writers reached some of its servers only.
#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "tiermap/error.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

/// Three servers, of which some stand still at times.
class NewestCopyTest : public testing::Test {
 protected:
  std::string url(const std::string& layout) const {
    return "remote://" + servers[0].address + "," + servers[1].address + "," + servers[2].address +
           "/set?copies=2&timeout=1s&layout=" + layout;
  }
  /// With a time-out that is short: where the machine is busy even a server that runs may say nothing for so long.
  static std::unique_ptr<Store> opened_in_the_end(const std::string& url, OpenMode mode) {
    std::unique_ptr<Store> store;
    std::string why;
    EXPECT_TRUE(comes_true([&] {
      try {
        store = open_store(url, mode, mebi);
      } catch (const StoreError& error) {
        why = error.what();
      }
      return store != nullptr;
    })) << why;
    return store;
  }
  static std::int64_t write(Store& store, std::uint64_t seed) {
    const auto content = test_body(mebi, seed);
    return store.write(content.data(), mebi, 0);
  }
  static void fill(const std::string& url, OpenMode mode, std::uint64_t seed) {
    const auto store = opened_in_the_end(url, mode);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(write(*store, seed), static_cast<std::int64_t>(mebi));
    EXPECT_EQ(store->flush(), 0);
  }
  /// Reads so often that each copy is asked more than once.
  static void expect_content(const std::string& url, std::uint64_t seed) {
    const auto store = opened_in_the_end(url, OpenMode::read_only);
    ASSERT_NE(store, nullptr);
    std::vector<std::byte> got(mebi);
    for (int round = 0; round < 6; ++round) {
      EXPECT_EQ(store->read(got.data(), got.size(), 0), static_cast<std::int64_t>(got.size()));
      EXPECT_TRUE(same_bytes(got, test_body(mebi, seed)));
    }
  }
  /// Of the first server alone, once it wants to.
  void fail_to_write(const std::string& url) {
    const auto store = opened_in_the_end(url, OpenMode::read_write);
    ASSERT_NE(store, nullptr);
    servers[1].signal(SIGSTOP);
    servers[2].signal(SIGSTOP);
    EXPECT_EQ(write(*store, 99), -EIO);
  }
  /// On the first server, which stands still then, and the others go on.
  void leave_a_failed_write_behind(const std::string& url) {
    fail_to_write(url);
    servers[0].signal(SIGSTOP);
    go_on(1);
    go_on(2);
  }
  void go_on(std::size_t server) const { servers[server].signal(SIGCONT); }

  ServerProcess servers[3];
};

TEST_F(NewestCopyTest, WhatWasWrittenIsNewerThanWhereAWriterFailed) {
  const std::string all = url("replicated");
  fill(all, OpenMode::create, 1);
  leave_a_failed_write_behind(all);
  fill(all, OpenMode::read_write, 2);
  go_on(0);
  expect_content(all, 2);
}

TEST_F(NewestCopyTest, WhatWasWrittenIsNewerHoweverOftenAWriterFailed) {
  const std::string all = url("replicated");
  fill(all, OpenMode::create, 1);
  leave_a_failed_write_behind(all);
  for (std::uint64_t seed = 2; seed < 8; ++seed) {
    fill(all, OpenMode::read_write, seed);
    go_on(0);
    expect_content(all, seed);
    servers[0].signal(SIGSTOP);
  }
  go_on(0);
}

TEST_F(NewestCopyTest, AWriterThatReachesTooFewMakesNothingUnreadable) {
  const std::string all = url("striped");
  fill(all, OpenMode::create, 1);
  fail_to_write(all);
  go_on(1);
  go_on(2);
  expect_content(all, 1);
  fill(all, OpenMode::read_write, 2);
  expect_content(all, 2);
}

}  // namespace
}  // namespace tiermap
