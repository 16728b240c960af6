// A region as the engine sees it: where it is mapped, the words of its pages, the store below.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cache/frame_pool.hpp"
#include "cache/page_word.hpp"
#include "fault/stream_detector.hpp"
#include "fault/write_habit.hpp"
#include "observe/counters.hpp"
#include "platform/page_sizes.hpp"
#include "platform/userfaultfd.hpp"
#include "tiermap/options.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

class PageSizeChoice;
class Pager;
class SelfServingEngine;

/// Keeps the requests to one store under the numbers it likes. Safe in signal handlers.
class TrafficLimit {
 public:
  void set_most(std::uint32_t most) noexcept { most_ = most; }
  bool try_enter() noexcept {
    std::uint32_t now = in_flight_.load(std::memory_order_relaxed);
    while (most_ == 0 || now < most_) {
      if (in_flight_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }
  void enter() noexcept {
    while (!try_enter()) {
      futex_wait(&in_flight_, most_);
    }
  }
  void leave() noexcept {
    in_flight_.fetch_sub(1, std::memory_order_release);
    if (most_ != 0) {
      futex_wake_one(&in_flight_);
    }
  }

 private:
  std::atomic<std::uint32_t> in_flight_{0};
  std::uint32_t most_ = 0;  ///< 0: no limit.
};

struct StoreTraffic {
  TrafficLimit reads;
  TrafficLimit writes;
};

struct PagedRegion {
  std::uint32_t id = 0;
  Pager* pager = nullptr;
  SelfServingEngine* self_serving = nullptr;  ///< Its engine, if that is one.
  std::shared_ptr<Store> store;
  std::uint64_t store_offset = 0;
  std::byte* memory = nullptr;
  std::atomic<std::uint64_t> length{0};  ///< Bytes mapped; changed by resize() only.
  std::uint64_t page_bytes = 0;
  unsigned page_shift = 0;
  bool writable = false;
  bool manual_flush = false;
  bool store_is_direct = false;  ///< The store gives extents: io_uring can read it.
  bool reads_in_signal_handler = false;
  unsigned shard = 0;
  const Userfaultfd* userfaultfd = nullptr;
  FrameArena* arena = nullptr;
  PageTable table;
  StreamDetector own_streams;
  StreamDetector* streams = &own_streams;  ///< One for all page sizes of the same bytes.
  WriteHabit write_habit;
  CounterBlock* counters = nullptr;
  PageSizeChoice* choice = nullptr;  ///< Null where the program chose the page size.

  /// Somebody tried to write to this read-only region: it is PROT_READ now, and pages come by copy (see Pager).
  std::atomic<bool> sealed{false};
  /// Unmapping has begun: no new work is to be started for it.
  std::atomic<bool> closing{false};
  /// Pages from here on are being cut off: faults on them wait until their addresses raise SIGSEGV.
  std::atomic<std::uint64_t> going_from{~std::uint64_t{0}};
  /// Pages that are absent, of those from `update_from` to before `update_end`, stay so for an update() under way.
  std::atomic<std::uint64_t> update_from{0};
  std::atomic<std::uint64_t> update_end{0};
  bool under_update(std::uint64_t page) const noexcept {
    return page < update_end.load() && page >= update_from.load();
  }
  /// Threads that have looked at `closing` and may be about to claim an absent page for a prefetch.
  std::atomic<std::uint32_t> claiming{0};
  /// Threads at work on the region; it is not freed before they leave. With `awaited_bit` the last one to leave wakes
  /// who waits for that: by the value it finds in here, since it must not look at the region any more once it has left.
  std::atomic<std::uint32_t> users{0};
  static constexpr std::uint32_t awaited_bit = 1U << 31;

  /// Waits until no thread is at work on the region. New ones may come unless the caller has seen to that.
  void wait_for_users() noexcept {
    users.fetch_or(awaited_bit, std::memory_order_acq_rel);
    for (std::uint32_t now = users.load(std::memory_order_acquire); now != awaited_bit;
         now = users.load(std::memory_order_acquire)) {
      futex_wait(&users, now);
    }
    users.fetch_and(~awaited_bit, std::memory_order_acq_rel);
  }
  std::shared_ptr<StoreTraffic> traffic;  ///< Shared by the regions of one store.
  std::atomic<std::uint64_t> pinned_bytes{0};

  std::uint64_t page_count() const noexcept {
    return (length.load(std::memory_order_acquire) + page_bytes - 1) >> page_shift;
  }
  std::uint64_t page_of(const void* address) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - memory) >> page_shift;
  }
  /// Where the block of 4 KiB begins that an address of the region lies in.
  std::byte* block_address(const std::byte* address) const noexcept {
    return memory + static_cast<std::uint64_t>(address - memory) / block_bytes * block_bytes;
  }
  std::byte* page_address(std::uint64_t page) const noexcept { return memory + (page << page_shift); }
  std::uint64_t page_offset(std::uint64_t page) const noexcept { return store_offset + (page << page_shift); }
  /// Bytes of the page that are part of the region: fewer than page_bytes for the last one.
  std::uint64_t page_length(std::uint64_t page) const noexcept {
    const std::uint64_t left = length.load(std::memory_order_acquire) - (page << page_shift);
    return left < page_bytes ? left : page_bytes;
  }
  /// Bytes of the page that are mapped: whole blocks of 4 KiB.
  std::uint64_t page_mapped(std::uint64_t page) const noexcept { return round_up(page_length(page), block_bytes); }
  /// Neither io_uring nor a signal handler can read the store: a thread reads it, and waits as long as the store likes.
  bool reads_may_block() const noexcept { return !store_is_direct && !reads_in_signal_handler; }
  /// Dirtiness below the page is worth tracking only where a page is more than a few blocks.
  bool tracks_blocks() const noexcept { return page_bytes >= 4 * block_bytes; }
};

/// What a store's read() or write() of `bytes` gave, if it can be: no store can have done more than it was asked for,
/// and no errno value is that large. Anything else is -EIO.
constexpr std::int64_t checked_result(std::int64_t result, std::uint64_t bytes) noexcept {
  constexpr std::int64_t largest_errno = 4095;
  const bool possible = result < 0 ? result >= -largest_errno : static_cast<std::uint64_t>(result) <= bytes;
  return possible ? result : -EIO;
}

/// Keeps a region from being freed.
class RegionUse {
 public:
  explicit RegionUse(PagedRegion& region) noexcept : region_(&region) {
    region.users.fetch_add(1, std::memory_order_acq_rel);
  }
  /// Takes over a use that was counted already.
  static RegionUse adopt(PagedRegion* region) noexcept { return RegionUse(region, 0); }
  RegionUse(RegionUse&& other) noexcept : region_(other.region_) { other.region_ = nullptr; }
  RegionUse& operator=(RegionUse&&) = delete;
  ~RegionUse() {
    if (region_ == nullptr) {
      return;
    }
    std::atomic<std::uint32_t>& users = region_->users;
    if (users.fetch_sub(1, std::memory_order_acq_rel) == (PagedRegion::awaited_bit | 1U)) {
      futex_wake_all(&users);  // An address; if the region is gone, nobody sleeps on it.
    }
  }
  PagedRegion* get() const noexcept { return region_; }
  PagedRegion& operator*() const noexcept { return *region_; }
  PagedRegion* operator->() const noexcept { return region_; }
  explicit operator bool() const noexcept { return region_ != nullptr; }

 private:
  RegionUse(PagedRegion* region, int) noexcept : region_(region) {}
  PagedRegion* region_;
};

}  // namespace tiermap
