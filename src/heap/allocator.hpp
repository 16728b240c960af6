// The allocator of a persistent heap: which bytes of a data area are in use.
//
// It deals in offsets, and never touches the data area: all it knows is in memory of its own, so that to allocate or
// free one block never faults in the page of another. What it knows is saved to a metadata area, where a save costs
// what changed since the last one (heap/metadata_records.hpp has the bytes), and loaded again: the slab records at
// once, the bits of a span's slots when the span is first used.
//
//   Allocator     what is asked: sizes, live bits, errors
//   SlotCaches    free slots at hand, for each processor
//   Bins          for each size class, spans with available slots
//   SlabMap       which slab is what; large blocks; pages to give back; saving and loading
//
// heap/slab_map.hpp has the order of the locks, heap/span.hpp the life of a slot.
#pragma once

#include <cstdint>

#include "heap/allocator_statistics.hpp"
#include "heap/bins.hpp"
#include "heap/slab_map.hpp"
#include "heap/slot_caches.hpp"

namespace tiermap {

/// Thread-safe. A block that one thread allocated may be freed by any other.
class Allocator {
 public:
  /// What allocate() returns when there is no room. The 64 KiB from offset 0 on are never handed out: the owner may
  /// keep there what he likes.
  static constexpr std::uint64_t no_block = 0;
  static constexpr std::uint64_t first_offset = slab_bytes;

  enum class Content {
    nothing,  ///< A new heap. The area is all zeros.
    saved,    ///< What the last save() left in the area.
  };

  /// The area has to live as long as this. The capacity is rounded down to a multiple of 64 KiB: 128 KiB to 64 TiB.
  /// Throws OptionError for a capacity that cannot be, and StoreError for a damaged area or one of another capacity.
  Allocator(MetadataArea& area, std::uint64_t capacity_bytes, Content content);

  /// How large an area has to be. Of this, only what is needed is ever written.
  static std::uint64_t metadata_bytes(std::uint64_t capacity_bytes) noexcept;

  /// A block of `bytes`, at a multiple of `alignment`, a power of two; no_block if there is no room. Throws OptionError
  /// for another alignment; StoreError if saved metadata that it came upon is damaged: the next call goes on elsewhere.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment = 16);
  /// Throws OptionError, and changes nothing, if no live block begins there: it was freed already, was never handed
  /// out, or the offset leads into the middle of a block.
  void deallocate(std::uint64_t offset);
  /// How many bytes may be used of the block there, as many as were asked for at least. Throws as deallocate().
  std::uint64_t block_bytes(std::uint64_t offset);

  /// Makes free slots that are in caches available to all, and empty spans free space. Nothing is lost without it:
  /// slots in caches are free in whatever is saved. But only after it is every free page given back.
  void flush_caches();

  /// Writes what changed since the last save to the area. Others may allocate and free meanwhile: each block is saved
  /// as before or as after. While another thread is about to mark a span as changed, a block that is in it already may
  /// wait for the next save; so what is to be saved whole is saved while nobody allocates, as Heap::checkpoint() asks.
  /// If writing throws, the area has some of the changes; the next save writes all of them.
  void save();

  /// After loading it is not known what was given back before. `first_data` is asked of free ranges; what it calls a
  /// hole is not given back again. It must not call this allocator. To be called before the first give_back().
  void sort_out_holes(const FirstData& first_data);

  /// Tells `given` of ranges, in whole pages of 4 KiB, that hold no part of a block, and may have since the last call
  /// that told of them. After loading that may be any free page below used_end_bytes, but for what is
  /// known to be a hole. A range is not handed out before
  /// `given` returns, which must not call this allocator. If it throws, the range is told again next time.
  void give_back(GiveBack which, const RangeCallback& given);

  /// Each live block, in order: its offset and block_bytes(). `block` must not call this allocator. Others that need
  /// space wait meanwhile.
  void for_each_block(const RangeCallback& block) { slabs_.for_each_block(block); }
  AllocatorStatistics statistics();
  std::uint64_t capacity_bytes() const noexcept { return slabs_.capacity_bytes(); }
  /// Nothing was ever allocated at or above this offset.
  std::uint64_t used_end_bytes() { return slabs_.used_end_bytes(); }

 private:
  /// Where a block is, if `offset` is where one may begin.
  struct Place {
    Span* span = nullptr;
    SlotWord* word = nullptr;
    std::uint64_t bit = 0;
  };
  Place place_of(std::uint64_t offset);
  std::uint64_t take_slot(unsigned size_class);
  void put_slot(unsigned size_class, std::uint64_t offset);
  void make_live(std::uint64_t offset);
  template <typename Take>
  std::uint64_t take_or_reclaim(Take&& take);
  [[noreturn]] void refuse(std::uint64_t offset);

  SlabMap slabs_;
  Bins bins_;
  SlotCaches caches_;
};

}  // namespace tiermap
