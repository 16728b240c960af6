// A page that a device holds, because the program gave it to io_uring as a fixed buffer, stays where it is.
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "system_calls/region_fixture.hpp"

namespace tiermap {
namespace {

/// Holds a range of memory for a device, until it is destroyed.
class FixedBuffer {
 public:
  FixedBuffer(void* start, std::size_t bytes) {
    io_uring_params parameters{};
    ring_ = static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters));
    const iovec buffer{start, bytes};
    held_ = ring_ >= 0 && ::syscall(SYS_io_uring_register, ring_, IORING_REGISTER_BUFFERS, &buffer, 1) == 0;
  }
  ~FixedBuffer() {
    if (ring_ >= 0) {
      ::syscall(SYS_io_uring_register, ring_, IORING_UNREGISTER_BUFFERS, nullptr, 0);
      ::close(ring_);
    }
  }
  FixedBuffer(const FixedBuffer&) = delete;
  FixedBuffer& operator=(const FixedBuffer&) = delete;
  bool held() const { return held_; }

 private:
  int ring_ = -1;
  bool held_ = false;
};

class PinnedPages : public RegionFixture {};
INSTANTIATE_TEST_SUITE_P(Engines, PinnedPages, testing::ValuesIn(all_engine_settings), engine_setting_name);

TEST_P(PinnedPages, WhatADeviceHoldsIsNotMovedAwayHoweverOftenItIsTried) {
  open(Access::read_write);
  constexpr std::uint64_t held_word = 5 * page_bytes / 8;
  words_[held_word] = 42;
  const FixedBuffer buffer(region_.data() + 5 * page_bytes, page_bytes);
  if (!buffer.held()) {
    GTEST_SKIP() << "io_uring holds no memory for this process: " << strerror(errno);
  }
  for (int round = 0; round < 2; ++round) {
    expect_content(6 * page_bytes / 8, (store_bytes - 6 * page_bytes) / 8);
  }
  const Statistics before = region_.statistics();
  EXPECT_EQ(words_[held_word], 42U);
  EXPECT_EQ(words_[held_word + 1], first_content(held_word + 1));
  EXPECT_GT(before[Counter::evictions], pages);
  if (GetParam().placement == Placement::copy) {
    EXPECT_EQ(before[Counter::move_retries], 0U);  // The kernel does not tell: the page went, and came back.
    return;
  }
  EXPECT_GT(before[Counter::move_retries], 0U);
  EXPECT_EQ(region_.statistics()[Counter::fills], before[Counter::fills]) << "it was in memory all the time";
}

// The kernel holds what it has of a buffer and waits for the rest, for which there is no memory before it lets go.
TEST_P(PinnedPages, ATransferOfMoreThanMemoryFailsSomeTime) {
  if (GetParam().mode != FaultMode::notify || GetParam().placement != Placement::move) {
    GTEST_SKIP() << "takes half a minute, and only here system calls wait for pages whose being held is told";
  }
  open(Access::read_write);
  words_[7] = 42;
  {
    const FixedBuffer buffer(region_.data(), store_bytes);
    if (errno == EPERM || errno == ENOSYS || errno == ENOMEM) {
      GTEST_SKIP() << "io_uring holds no memory for this process: " << strerror(errno);
    }
    EXPECT_FALSE(buffer.held());
    EXPECT_EQ(errno, EFAULT);
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));  // What failed is tried again after a while.
  EXPECT_EQ(words_[7], 42U);
  expect_content(page_bytes / 8, (store_bytes - page_bytes) / 8);
}

}  // namespace
}  // namespace tiermap
