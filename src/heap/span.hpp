// A span: slabs in a row, cut into slots of one size class, and which of these are in use.
//
// A slot is live (the program has it), cached (free, in a cache of free slots), or available (free, in its span). Two
// bits tell them apart: `live`, and `available`. Only live ones are in the saved state.
//
//              available   live
//   available      1         0      to cached: Bins::take(), under the bin's lock
//   cached         0         0      to live: Allocator::allocate(); to available: Bins::put(), under the bin's lock
//   live           0         1      to cached: Allocator::deallocate()
//
// Who clears a live bit was the one who freed the block: a second one sees that it is clear, wherever the slot is by
// then.
//
// Spans and their slot maps are never given back to the system while the allocator lives, only used again: a free with
// a wrong offset may look at one that is just being given up.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "heap/size_classes.hpp"
#include "platform/futex.hpp"

namespace tiermap {

/// A bit for each page of a span.
using PageMask = std::array<std::uint64_t, most_span_slabs * pages_per_slab / 64>;

inline void set_pages(PageMask& mask, std::uint64_t first, std::uint64_t last) noexcept {
  for (std::uint64_t page = first; page <= last; ++page) {
    mask[page / 64] |= 1ULL << (page % 64);
  }
}
inline void clear_pages(PageMask& mask, std::uint64_t first, std::uint64_t last) noexcept {
  for (std::uint64_t page = first; page <= last; ++page) {
    mask[page / 64] &= ~(1ULL << (page % 64));
  }
}
inline bool has_page(const PageMask& mask, std::uint64_t page) noexcept {
  return (mask[page / 64] >> (page % 64) & 1) != 0;
}

struct SlotWord {
  std::atomic<std::uint64_t> live;
  std::uint64_t available;  ///< Guarded by the bin's lock.
};

/// Followed by its words.
struct SlotMap {
  PageMask touched;  ///< Pages that may hold data: of slots that left their span, less what was given back. Bin's lock.
  PageMask saved_live;  ///< Pages of blocks that the saved state has. Written under the map's lock and either the bin's
                        ///< or the saving lock, or before anybody knows of it; read under one of these pairs' locks.

  SlotWord* words() noexcept { return reinterpret_cast<SlotWord*>(this + 1); }
};

/// One cache line.
struct alignas(64) Span {
  std::atomic<std::uint32_t> first_slab{0};
  std::atomic<std::uint8_t> size_class{0};
  std::atomic<bool> changed{
      false};  ///< A live bit changed since it was saved. Set after the bit, cleared before a look.
  // Guarded by the bin's lock:
  bool freed_into = false;       ///< Slots came back since its pages were looked at.
  bool listed = false;           ///< In the bin's list.
  std::uint32_t available = 0;   ///< How many slots are.
  std::uint32_t first_word = 0;  ///< No word before it has an available slot.
  Span* previous = nullptr;
  Span* next = nullptr;
  std::atomic<SlotMap*> slots{nullptr};  ///< Null until the saved bits are needed.
  // As the saved state has it. Guarded by the map's lock.
  std::uint32_t saved_live = 0;
  std::uint64_t saved_value = 0;  ///< The bits themselves, or their checksum: see heap/metadata_records.hpp.

  const SizeClass& size() const noexcept { return size_classes[size_class.load(std::memory_order_relaxed)]; }
  std::uint64_t begin() const noexcept {
    return std::uint64_t{first_slab.load(std::memory_order_relaxed)} << slab_shift;
  }
  unsigned pages() const noexcept { return size().slabs * pages_per_slab; }
};

/// Which bits of a word stand for slots.
inline std::uint64_t slots_of_word(const SizeClass& size, unsigned word) noexcept {
  const unsigned from = word * 64;
  return size.slots - from >= 64 ? ~std::uint64_t{0} : (1ULL << (size.slots - from)) - 1;
}

/// The pages that a slot reaches into, counted from the span's beginning.
struct SlotPages {
  std::uint64_t first;
  std::uint64_t last;
};
inline SlotPages pages_of_slot(const SizeClass& size, std::uint64_t slot) noexcept {
  const std::uint64_t begin = slot * size.bytes;
  return {begin / heap_page_bytes, (begin + size.bytes - 1) / heap_page_bytes};
}

/// Where spans and slot maps come from, and go for the next to take. Thread-safe; its lock is the last in every order.
class SpanStorage {
 public:
  SpanStorage() = default;
  SpanStorage(const SpanStorage&) = delete;
  SpanStorage& operator=(const SpanStorage&) = delete;

  /// As new. Throws std::bad_alloc.
  Span& take_span();
  void give_span(Span& span) noexcept;
  /// With all slots of a span of that size available, and no page marked.
  SlotMap& take_slots(const SizeClass& size);
  void give_slots(SlotMap& slots, const SizeClass& size) noexcept;

 private:
  static unsigned pool_of(const SizeClass& size) noexcept {
    return static_cast<unsigned>(std::bit_width(size.words() - 1));
  }
  std::byte* carve(std::size_t bytes);

  FutexLock lock_;
  std::deque<Span> spans_;
  std::vector<Span*> free_spans_;
  // Of each power of two of words: 1 to 128.
  std::array<std::vector<SlotMap*>, 8> free_slots_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t chunk_left_ = 0;
  std::size_t slot_maps_ = 0;
};

}  // namespace tiermap
