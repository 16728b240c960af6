// One tier: room for so many blocks in one place.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "platform/memory_promise.hpp"
#include "tier/throttle.hpp"
#include "tiermap/store.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {

/// A block's place in a tier.
using TierSlot = std::uint32_t;

/// What a transfer takes, by the figures that the tier was given.
double transfer_microseconds(const TierOptions& tier, std::uint64_t bytes) noexcept;

/// What the engine asked for and got from a place: a TierReport's numbers.
struct ServedCounts {
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> read_bytes{0};
  std::atomic<std::uint64_t> written_bytes{0};

  void count_read(std::uint64_t bytes) noexcept {
    reads.fetch_add(1, std::memory_order_relaxed);
    read_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void count_write(std::uint64_t bytes) noexcept {
    writes.fetch_add(1, std::memory_order_relaxed);
    written_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void report(TierReport& report) const noexcept {
    report.reads = reads.load(std::memory_order_relaxed);
    report.writes = writes.load(std::memory_order_relaxed);
    report.read_bytes = read_bytes.load(std::memory_order_relaxed);
    report.written_bytes = written_bytes.load(std::memory_order_relaxed);
  }
};

/// read() and write() may be called by any threads, for slots that are theirs. Everything about slots is guarded by the
/// mutex of the TieredStore.
class Tier {
 public:
  static constexpr std::uint64_t nobody = ~std::uint64_t{0};

  /// Throws StoreError.
  Tier(const TierOptions& options, std::uint64_t block_bytes);
  /// In a place that takes what is written.
  Tier(const TierOptions& options, std::uint64_t block_bytes, std::unique_ptr<Store> place);

  const TierOptions& options() const noexcept { return options_; }
  /// Keeps what it is promised, of which it has taken the slots that were used.
  void hold(MemoryPromise promise);
  /// May have what is nowhere else. What is on another machine is lost when that dies.
  bool holds_changes() const noexcept { return options_.kind != TierKind::remote; }
  /// 0 or a negative errno value; never a part.
  int read(TierSlot slot, std::uint64_t from, void* buffer, std::size_t bytes) noexcept;
  int write(TierSlot slot, std::uint64_t from, const void* buffer, std::size_t bytes) noexcept;

  /// As many as its capacity says, or, once its place was full, as many as fitted.
  std::uint64_t slots() const noexcept { return full ? fresh_ - unfit_.size() : slots_; }
  std::uint64_t free_slots() const noexcept { return failed ? 0 : free_.size() + slots() - (fresh_ - unfit_.size()); }
  /// Slots from here on were never used; of those before, so many are free again.
  std::uint64_t used_slots() const noexcept { return fresh_; }
  std::uint64_t given_back_slots() const noexcept { return free_.size() + unfit_.size(); }
  /// There is a free one.
  TierSlot take(std::uint64_t block);
  void give_back(TierSlot slot);
  /// Given back, and taken no more while it is full: its place had no room for it.
  void give_back_unfit(TierSlot slot);
  /// To be written to, as a try; false if there is none. Of one that is full, and did not fail, one that did not fit.
  bool take_to_try(TierSlot& slot);
  void give_back_tried(TierSlot slot) { full ? give_back_unfit(slot) : give_back(slot); }
  /// There is room again, for as many slots as its capacity says.
  void reopen();
  /// Which block is in the slot, or nobody.
  std::uint64_t holder(TierSlot slot) const noexcept { return slot < fresh_ ? holders_[slot] : nobody; }

  /// Takes nothing now: something could not be written.
  bool failed = false;
  /// Its place has no room for more slots than were used so far.
  bool full = false;
  bool told_full = false;       ///< Said once, however often it is full.
  std::uint32_t failed_at = 0;  ///< Or was full or tried last, in milliseconds as TierBlocks counts them.
  std::uint32_t tries = 0;      ///< How often it was tried again.
  /// What TierReport says; dirty blocks are guarded by the mutex as well.
  std::uint64_t dirty_blocks = 0;
  std::uint64_t promoted_in = 0;
  std::uint64_t demoted_in = 0;
  ServedCounts served;

 private:
  const TierOptions options_;
  const std::uint64_t block_bytes_;
  const std::uint64_t slots_;
  std::unique_ptr<Store> place_;
  Throttle throttle_;
  /// Slots from here on were never used. Read without the mutex by who counts memory.
  std::atomic<std::uint64_t> fresh_{0};
  std::vector<TierSlot> free_;          ///< Used before.
  std::vector<TierSlot> unfit_;         ///< Tried, and its place had no room for them.
  std::vector<std::uint64_t> holders_;  ///< Of the slots below fresh_.
  MemoryPromise memory_;                ///< Of nothing where it lies elsewhere.
};

}  // namespace tiermap
