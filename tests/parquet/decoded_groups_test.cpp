// Row groups in a bounded memory: decoded once for all who want them, within the limit, and ahead of who goes in order.
#include "store/parquet/decoded_groups.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

namespace tiermap {
namespace {

/// Row groups of which each byte tells where it is; counts what is decoded, and what of that at once.
class Groups {
 public:
  Groups(std::size_t count, std::uint64_t group_bytes, std::uint64_t most_bytes)
      : bytes_(group_bytes),
        decoded_(std::vector<std::uint64_t>(count, group_bytes), most_bytes,
                 [this](std::size_t group, char* records, bool) { return decode(group, records); }) {}

  /// Reads a piece and compares it.
  void expect(std::size_t group, std::uint64_t offset, std::size_t bytes) {
    std::vector<char> buffer(bytes);
    ASSERT_EQ(decoded_.read(group, offset, buffer.data(), bytes), 0);
    for (std::size_t index = 0; index < bytes; ++index) {
      ASSERT_EQ(buffer[index], byte_at(group, offset + index));
    }
  }

  DecodedGroups& decoded() { return decoded_; }
  std::atomic<int> calls{0}, most_at_once{0};
  std::atomic<std::size_t> damaged{SIZE_MAX};

 private:
  static char byte_at(std::size_t group, std::uint64_t offset) {
    return static_cast<char>(group * 37 + offset * 11 + (offset >> 8));
  }
  int decode(std::size_t group, char* records) {
    const int now = ++at_once_;
    for (int most = most_at_once.load(); most < now && !most_at_once.compare_exchange_weak(most, now);) {
    }
    ++calls;
    std::this_thread::yield();
    for (std::uint64_t offset = 0; offset < bytes_; ++offset) {
      records[offset] = byte_at(group, offset);
    }
    --at_once_;
    return group == damaged.load() ? -EIO : 0;
  }

  const std::uint64_t bytes_;
  std::atomic<int> at_once_{0};
  DecodedGroups decoded_;
};

TEST(DecodedGroupsTest, APassInOrderDecodesEachOnceAndAhead) {
  Groups groups(20, 10'000, 60'000);
  for (std::size_t group = 0; group < 20; ++group) {
    for (std::uint64_t offset = 0; offset < 10'000; offset += 1000) {
      groups.expect(group, offset, 1000);
    }
    if (group == 0) {  // Somebody has to begin; then the next are on their way before they are asked for.
      while (groups.decoded().decoded() < 2) {
        std::this_thread::yield();
      }
    }
  }
  EXPECT_EQ(groups.calls, 20);
}

TEST(DecodedGroupsTest, ThreadsAtRandomInRoomForOneOrTwo) {
  for (const std::uint64_t most : {1ULL, 10'000ULL, 25'000ULL}) {
    Groups groups(9, 10'000, most);
    std::vector<std::thread> workers;
    for (unsigned seed = 0; seed < 6; ++seed) {
      workers.emplace_back([&, seed] {
        std::mt19937 random(seed);
        for (int step = 0; step < 60; ++step) {
          const std::uint64_t offset = random() % 9000;
          groups.expect(random() % 9, offset, 1 + random() % 1000);
        }
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
    EXPECT_LE(groups.most_at_once, std::max<int>(1, static_cast<int>(most / 10'000)));
  }
}

TEST(DecodedGroupsTest, ManyWhoWantOneDecodeItOnce) {
  Groups groups(3, 100'000, 1 << 20);
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 8; ++worker) {
    workers.emplace_back([&] { groups.expect(2, 0, 100'000); });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(groups.calls, 1);
}

TEST(DecodedGroupsTest, WhatFailsIsTriedAgain) {
  Groups groups(5, 1000, 5000);
  groups.damaged = 1;
  char byte = 0;
  groups.expect(0, 0, 1000);
  EXPECT_EQ(groups.decoded().read(1, 0, &byte, 1), -EIO);
  EXPECT_EQ(groups.decoded().read(1, 0, &byte, 1), -EIO);
  groups.expect(2, 0, 1000);
  groups.damaged = SIZE_MAX;
  groups.expect(1, 0, 1000);
}

TEST(DecodedGroupsTest, AForkedChildIsRefusedAndEnds) {
  auto groups = std::make_unique<Groups>(5, 1000, 5000);
  groups->expect(0, 0, 1000);  // Threads are at work ahead.
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool refused = groups->decoded().read(1, 0, &byte, 1) == -EBUSY;
    groups.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tiermap
