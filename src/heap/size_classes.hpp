// How large blocks are: 112 sizes of slots, eight to each doubling, up to 512 KiB; and how the data area is cut.
//
// The data area is cut into slabs of 64 KiB. A span is one slab, or a few in a row, cut into slots of one size: a block
// of up to 512 KiB is a slot. Larger ones are runs of whole slabs. A block is at most 1/9 smaller than its slot (from
// 64 bytes on; below, slots are multiples of 8), or than its run; what is left at a span's end is at most 1/32 of it,
// and costs address space but no storage. Where fewer slabs are free in a row than a span has, a block is a run that
// may be mostly empty, rather than refused. 64 KiB keep the tables small (8 bytes of memory and 16 of metadata a slab:
// 0.04 %) and are still small against memory where a program uses every size a little: 112 spans are 20 MiB of address
// space.
//
// The sizes are part of the saved layout (heap/metadata_records.hpp): to change one is a new version.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tiermap {

inline constexpr unsigned slab_shift = 16;
inline constexpr std::uint64_t slab_bytes = 1ULL << slab_shift;
/// The unit of what is given back.
inline constexpr std::uint64_t heap_page_bytes = 4096;
inline constexpr unsigned pages_per_slab = slab_bytes / heap_page_bytes;

inline constexpr unsigned size_class_count = 112;
inline constexpr unsigned no_size_class = size_class_count;
inline constexpr std::uint64_t largest_slot_bytes = 512 << 10;
inline constexpr unsigned most_span_slabs = 16;
inline constexpr unsigned most_span_slots = slab_bytes / 8;

struct SizeClass {
  std::uint32_t bytes;       ///< Of a slot.
  std::uint32_t slots;       ///< Of a span.
  std::uint32_t slabs;       ///< Of a span.
  std::uint32_t reciprocal;  ///< 2^32 / bytes, rounded up.

  constexpr unsigned words() const noexcept { return (slots + 63) / 64; }
  /// The slot at a distance from the span's beginning. Exact where a slot begins; elsewhere any, and the product with
  /// `bytes` is not the distance: an error below 2^20 / 2^32 cannot reach the next whole number.
  constexpr std::uint32_t slot_at(std::uint64_t distance) const noexcept {
    return static_cast<std::uint32_t>(distance * reciprocal >> 32);
  }
};

constexpr std::uint64_t size_class_bytes(unsigned index) noexcept {
  return index < 8 ? (index + 1) * 8ULL : (9ULL + index % 8) << ((index - 8) / 8 + 3);
}

constexpr std::array<SizeClass, size_class_count> make_size_classes() noexcept {
  std::array<SizeClass, size_class_count> classes{};
  for (unsigned index = 0; index < size_class_count; ++index) {
    const std::uint64_t bytes = size_class_bytes(index);
    std::uint64_t slabs = 1;
    while (bytes > slabs * slab_bytes || slabs * slab_bytes % bytes * 32 > slabs * slab_bytes) {
      ++slabs;
    }
    classes[index] = {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(slabs * slab_bytes / bytes),
                      static_cast<std::uint32_t>(slabs),
                      static_cast<std::uint32_t>(((1ULL << 32) + bytes - 1) / bytes)};
  }
  return classes;
}

inline constexpr std::array<SizeClass, size_class_count> size_classes = make_size_classes();

/// The smallest class whose slots hold `bytes` and lie at multiples of `alignment`, a power of two; no_size_class if
/// that has to be a run.
constexpr unsigned size_class_for(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  if (bytes > largest_slot_bytes || alignment > slab_bytes) {
    return no_size_class;
  }
  unsigned index = 0;
  if (bytes > 64) {
    const std::uint64_t last = bytes - 1;
    const unsigned shift = static_cast<unsigned>(std::bit_width(last)) - 4;
    index = (shift - 3) * 8 + static_cast<unsigned>(last >> shift);
  } else if (bytes > 0) {
    index = static_cast<unsigned>((bytes - 1) / 8);
  }
  while ((size_classes[index].bytes & (alignment - 1)) != 0) {
    ++index;  // Ends at a power of two at the latest.
  }
  return index;
}

}  // namespace tiermap
