// Where the newest content of each block of a heap is: in the base, in a slot of the journal, or nowhere since it is
// zeros.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "heap/journal_layout.hpp"
#include "heap/slot_space.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

/// Where a block is.
class BlockPlace {
 public:
  constexpr BlockPlace() = default;
  static constexpr BlockPlace base() { return BlockPlace(0); }
  static constexpr BlockPlace zeros() { return BlockPlace(1); }
  static constexpr BlockPlace in_slot(std::uint32_t slot) { return BlockPlace(slot + 2); }
  /// As a word of the table.
  static constexpr BlockPlace from_word(std::uint32_t word) { return BlockPlace(word); }
  constexpr std::uint32_t word() const { return word_; }

  constexpr bool is_base() const { return word_ == 0; }
  constexpr bool is_zeros() const { return word_ == 1; }
  constexpr bool is_slot() const { return word_ > 1; }
  constexpr std::uint32_t slot() const { return word_ - 2; }  ///< Requires is_slot().
  /// Where the next block is if it follows this one in the same file.
  constexpr BlockPlace next() const { return is_slot() ? BlockPlace(word_ + 1) : *this; }
  constexpr bool operator==(const BlockPlace&) const = default;

 private:
  constexpr explicit BlockPlace(std::uint32_t word) : word_(word) {}
  std::uint32_t word_ = 0;
};

/// Thread-safe. The places are a table of atomics: a word is stored with release order once the block is where it says,
/// and read with acquire order. mutex_ guards everything else: the slots, who is in them, the generation. A content
/// always goes to a slot that nobody reads, so that a write that fails changes nothing; the slot it had before is
/// retired, and free once nobody can be reading it any more.
///
/// That is told by epochs: a reader counts itself in the epoch in which it began, and looks at the table only then. An
/// epoch ends when the readers of the one before are gone; what was retired in it or earlier can be seen only by
/// readers that began by then.
class ChangedBlocks {
 public:
  /// Keeps the slots that the table names from being used for anything else while it lives.
  class Reading {
   public:
    explicit Reading(const ChangedBlocks& blocks) noexcept : blocks_(blocks), parity_(blocks.begin_reading()) {}
    ~Reading() { blocks_.end_reading(parity_); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    const ChangedBlocks& blocks_;
    const unsigned parity_;
  };

  /// `blocks`: how many the table can hold. `generation`: the first one.
  ChangedBlocks(std::uint64_t blocks, std::uint64_t generation);

  std::uint64_t reach() const noexcept { return places_.size(); }
  BlockPlace place(std::uint64_t block) const noexcept {
    return BlockPlace::from_word(places_[static_cast<std::size_t>(block)].load(std::memory_order_acquire));
  }
  /// How many blocks from `block` on, which is at `place`, at most up to `end`, are in the base, zeros, or in
  /// neighbouring slots like it.
  std::uint64_t run_length(BlockPlace place, std::uint64_t block, std::uint64_t end) const noexcept;

  /// What Reading does, for readers that end elsewhere than they began. For signal handlers too.
  unsigned begin_reading() const noexcept;
  void end_reading(unsigned parity) const noexcept;

  /// Slots to write to; count 0 if there are none. They are the caller's until publish() or give_back().
  SlotRun take_slots(std::uint32_t most);
  void give_back(SlotRun slots);

  /// Blocks [first, first + slots.count) are in these slots now, with these checksums, as a change of the present
  /// generation.
  void publish(std::uint64_t first, SlotRun slots, std::span<const std::uint64_t> checksums);
  /// Blocks [first, end) are zeros now.
  void publish_zeros(std::uint64_t first, std::uint64_t end);

  /// Ends the present generation. Returns what was changed in it, in order of blocks, and its number. What it returns
  /// stays in its slots until retire().
  std::pair<std::vector<JournalEntry>, std::uint64_t> seal();
  bool has_changes() const;

  /// The base has these entries now: blocks not changed since are there.
  void settle(std::span<const JournalEntry> entries) noexcept;
  /// Slots that no index will name any more.
  void retire(std::span<const std::uint32_t> slots);
  /// Frees what was retired and is read by nobody, and calls `cut` with where the slots in use end: none behind that is
  /// given out until it returns.
  void recycle(const std::function<void(std::uint32_t)>& cut);

  /// Takes over what a journal found on disk says. False if two of its slots are one.
  bool adopt(std::span<const JournalEntry> entries, std::span<const std::uint32_t> index_slots);

  /// How many slots there are content, indexes and retired ones in.
  std::uint64_t slots_in_use() const;

 private:
  struct SlotUse {
    std::uint64_t block = 0;
    std::uint64_t checksum = 0;
    std::uint64_t generation = 0;  ///< 0: no block's.
  };

  void put_place(std::uint64_t block, BlockPlace place);
  void free_retired();

  LazyArray<std::atomic<std::uint32_t>> places_;
  mutable std::atomic<std::uint64_t> epoch_{0};
  mutable std::atomic<std::uint64_t> readers_[2] = {0, 0};  ///< Of even and of odd epochs.

  mutable std::mutex mutex_;
  SlotSpace space_;
  std::vector<SlotUse> uses_;
  std::uint64_t generation_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> zeroed_;  ///< First block and end, in this generation.
  std::vector<std::uint32_t> retired_;                           ///< In this epoch.
  std::vector<std::uint32_t> retired_before_;                    ///< In epochs that ended.
};

}  // namespace tiermap
