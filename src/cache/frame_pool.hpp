// All the DRAM of a cache: frames of every size under one budget in bytes.
//
// A frame is a slot of an arena. An arena is address space for slots of one size, registered with one userfaultfd; it
// is as large as the budget can ever be, and costs memory only where a slot holds some. The budget counts frames that
// are held (by a page, wherever its memory is at the moment: in the slot, or moved to the program's address range) and
// frames that are free but still hold memory. Taking a frame in one arena can therefore need memory given up in
// another.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/eviction_policy.hpp"
#include "platform/address_range.hpp"
#include "platform/futex.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

struct PagedRegion;

/// A strong checksum of one 4 KiB block.
struct BlockHash {
  std::uint64_t low;
  std::uint64_t high;
  bool operator==(const BlockHash&) const = default;
};
inline constexpr std::uint64_t block_bytes = 4096;

/// What is known of a frame. Written by whoever holds the frame, before the page's word names it.
struct FrameRecord {
  PagedRegion* region;
  std::uint64_t page;
  FrameId next_free;
  std::uint32_t unmapped_at;  ///< SecondChances::turns() when it was unmapped.
  bool populated;             ///< The slot holds memory (free frames only).
  bool hashed;                ///< hashes() are those of what the store holds, or of nothing.
  bool suspect;  ///< Cleaned in place or moved in: see Pager::finish_cleaning(). Written by the page's owner.
  bool copied;   ///< The page's memory came by copy, not out of the slot. Written by the page's owner.
  bool judged;   ///< A page that may be copied and that a fault brought: what becomes of it is counted (SecondChances).
  bool named;    ///< The policy named it, and has not been told what became of it. Guarded by the policy lock.
  bool assumed;  ///< Taken for changed although nobody is known to have written to it. Written by the page's owner.
};

/// Slots of one size. Belongs to one userfaultfd, so that pages can be moved between it and that one's regions.
struct FrameArena {
  AddressRange memory;
  std::uint64_t frame_bytes = 0;
  unsigned frame_shift = 0;
  FrameId first_frame = 0;
  FrameId slots = 0;
  unsigned shard = 0;
  // Guarded by the pool's lock:
  FrameId chunk_slots = 1;  ///< Fresh slots get their memory so many at a time, in one piece; 1: each when it is used.
  FrameId fresh_slots = 0;  ///< Slots below this have been used before,
  FrameId top_slots = 0;    ///< and as many at the other end: first taken as holes, they do not break chunks.
  FrameId free_list = no_frame;  ///< Free frames with memory.
  FrameId hole_list = no_frame;  ///< Free frames without.
  LazyArray<BlockHash> hashes;   ///< Of each 4 KiB block of each slot.
};

/// Thread-safe; take, give_back and release are safe in signal handlers.
class FramePool {
 public:
  /// With `contiguous`, small frames get their memory in chunks of 2 MiB that are one piece of physical memory, as long
  /// as the budget has room for a whole chunk: a device reads into one piece at two to three times the rate at which it
  /// reads into pages that lie apart (docs/benchmarks.md).
  FramePool(std::uint64_t budget_bytes, std::uint64_t most_budget_bytes, unsigned shards, bool contiguous = false);

  /// The arena for a size and shard, made on first use by `register_arena(memory, bytes)`. Not for signal handlers.
  template <typename Register>
  FrameArena& arena(std::uint64_t frame_bytes, unsigned shard, Register&& register_arena);

  /// Names of frames have 32 bits. Each shard needs some for all sizes of a budget that may become as large as this: so
  /// many shards can have them, 0 if not even one can.
  static constexpr std::uint64_t most_shards(std::uint64_t most_budget_bytes) noexcept {
    return no_frame / names_a_shard(most_budget_bytes);
  }
  /// The largest budget that one shard has names for.
  static constexpr std::uint64_t largest_budget_bytes = (no_frame / 2 - 16) * block_bytes;

  /// What one frame of this size costs of the budget: its memory and its bookkeeping.
  static constexpr std::uint64_t cost(std::uint64_t frame_bytes) noexcept {
    return frame_bytes + 64 + frame_bytes / block_bytes * sizeof(BlockHash);
  }

  /// A frame, if the budget has one without evicting anything: free with memory, or fresh.
  FrameId try_take(FrameArena& arena) noexcept;
  /// Two frames at once, or none (both no_frame then), for copying: one with memory or to be given some, to read into,
  /// and one to charge the copy to, whose slot holds nothing if that can be had.
  bool try_take_two(FrameArena& arena, FrameId& data, FrameId& token) noexcept;
  /// A held frame becomes free; `populated` says whether its slot holds memory (all or part). Over budget, or
  /// shrinking, that memory goes at once.
  void give_back(FrameId frame, bool populated) noexcept;
  /// A held frame becomes free and its slot's memory goes, so that another arena can have it.
  void release(FrameId frame) noexcept;
  /// The memory of so many free frames of the arena, if there are as many, goes to the system.
  void release_free(FrameArena& arena, std::uint64_t frames) noexcept;

  FrameArena& arena_of(FrameId frame) noexcept;
  std::byte* address(FrameId frame) noexcept;
  BlockHash* hashes(FrameId frame) noexcept;
  FrameRecord& record(FrameId frame) noexcept { return records_[frame]; }
  FrameId max_frames() const noexcept { return static_cast<FrameId>(records_.size()); }

  std::uint64_t budget_bytes() const noexcept { return budget_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t most_budget_bytes() const noexcept { return most_budget_bytes_; }
  void set_budget_bytes(std::uint64_t bytes) noexcept;
  /// Held and free-with-memory frames, at their cost; never above the budget but for the moments of a shrinking one.
  std::uint64_t committed_bytes() const noexcept { return committed_bytes_.load(std::memory_order_relaxed); }
  /// What could be taken without evicting anything.
  std::uint64_t available_bytes() const noexcept;

 private:
  /// The sum over sizes 4 KiB, 8 KiB, ... of the slots each arena has is under twice that of the smallest.
  static constexpr std::uint64_t names_a_shard(std::uint64_t most_budget_bytes) noexcept {
    return (most_budget_bytes / block_bytes + 16) * 2;
  }

  /// What taking a frame came to; at most one is set.
  struct Taken {
    FrameId frame = no_frame;
    FrameId first_of_chunk = no_frame;  ///< Fresh, committed, still without memory.
    FrameId to_drop = no_frame;         ///< A free frame of another arena whose memory has to go first.
  };
  Taken take_locked(FrameArena& arena) noexcept;
  FrameId take_hole_locked(FrameArena& arena) noexcept;
  FrameId commit_hole(const FrameArena& arena, FrameId frame) noexcept;
  bool take_chunk(FrameArena& arena, FrameId& first) noexcept;
  void fill_chunk(FrameArena& arena, FrameId first) noexcept;
  FrameId pop_hole(FrameArena& arena) noexcept;
  FrameId pop_free_of_other(const FrameArena& arena) noexcept;
  static constexpr std::size_t most_dropped_at_once = 8;
  void drop_memory(std::span<const FrameId> frames) noexcept;
  bool empty_free(FrameArena& arena) noexcept;
  std::size_t drop_free(FrameArena& arena, std::size_t least, std::size_t most) noexcept;
  void push(FrameId& list, FrameId frame) noexcept;
  FrameId pop(FrameId& list) noexcept;
  FrameArena& add_arena(std::uint64_t frame_bytes, unsigned shard);

  std::atomic<std::uint64_t> budget_bytes_;
  std::atomic<std::uint64_t> committed_bytes_{0};
  std::atomic<std::uint64_t> free_bytes_{0};  ///< Of the committed ones, free.
  std::uint64_t most_budget_bytes_;
  bool contiguous_;
  LazyArray<FrameRecord> records_;
  FrameId next_first_frame_ = 0;
  // Arenas are added, never removed: at most 15 sizes a shard. The count is published after the arena.
  static constexpr std::size_t most_arenas = std::size_t{15} * 64;
  std::vector<std::unique_ptr<FrameArena>> arenas_;
  std::atomic<std::size_t> arena_count_{0};
  mutable FutexLock lock_;  ///< Guards the lists and the committing of bytes.
  FutexLock arena_lock_;    ///< Guards the making of arenas; taken before lock_.
};

template <typename Register>
FrameArena& FramePool::arena(std::uint64_t frame_bytes, unsigned shard, Register&& register_arena) {
  arena_lock_.lock();
  try {
    for (std::size_t index = 0; index < arena_count_.load(std::memory_order_relaxed); ++index) {
      if (arenas_[index]->frame_bytes == frame_bytes && arenas_[index]->shard == shard) {
        arena_lock_.unlock();
        return *arenas_[index];
      }
    }
    FrameArena& made = add_arena(frame_bytes, shard);
    try {
      register_arena(made.memory.data(), made.memory.size());
    } catch (...) {
      next_first_frame_ = made.first_frame;
      throw;
    }
    arena_count_.fetch_add(1, std::memory_order_release);
    arena_lock_.unlock();
    return made;
  } catch (...) {
    arenas_.resize(arena_count_.load(std::memory_order_relaxed));
    arena_lock_.unlock();
    throw;
  }
}

}  // namespace tiermap
