// What an allocator leaves behind when it is saved, byte by byte. All numbers are little-endian.
//
// The metadata area is a range of bytes beside the data area, zero where nothing was written. It holds three parts,
// each of records that are written and checked by themselves, so that a save writes what changed and no more:
//
//   0                     the header, 64 bytes
//   4096 + 4096 r         slab record r, 4096 bytes: slabs 255 r to 255 r + 254
//   bitmaps + 1024 s      the live bits of the span that begins at slab s: up to 1024 bytes
//
// with `bitmaps` behind the last slab record that the capacity needs (metadata_bitmap_place()).
//
// Header:
//    0   8  "TIERSLAB"
//    8   4  version: 1. The sizes of slabs, slots and spans (heap/size_classes.hpp) are part of it.
//   12   4  zero
//   16   8  capacity of the data area in slabs of 64 KiB
//   24   8  slabs that were ever in use: none at or above this number is
//   32   8  the sum of the checksums of all slab records, modulo 2^64: one that is lost or of an earlier save shows
//   40  16  zero
//   56   8  checksum: XXH3, 64 bits, of the 56 bytes before
//
// Slab record. One in which nothing begins, written or not, is zero throughout, and counts 0 in the sum: what lies
// inside a large block need not be read.
//    0   8  checksum: XXH3, 64 bits, seed r, of the 4088 bytes behind it
//    8   8  r + 1
//   16  16  for each of 255 slabs, what begins there:
//       0   1  0: nothing (it is free, or inside what began before); 1: a span; 2: a large block
//       1   1  span: its size class. Large block: zero
//       2   2  zero
//       4   4  span: live blocks, 1 at least. Large block: zero
//       8   8  span of up to 64 slots: a bit for each live one. Larger span: the checksum of its bitmap.
//              Large block: the bytes that were asked for; it reaches to the end of the last slab that these need.
//
// Bitmap: a bit for each slot, the lowest of a byte first, in whole words of 8 bytes; bits beyond the last slot are
// zero. Its checksum is XXH3, 64 bits, with the number of the span's first slab for a seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "heap/size_classes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

inline constexpr std::uint32_t heap_metadata_version = 1;
inline constexpr std::size_t metadata_header_bytes = 64;
inline constexpr std::size_t slab_record_bytes = 4096;
inline constexpr unsigned slabs_per_record = 255;
inline constexpr std::size_t most_bitmap_bytes = most_span_slots / 8;
/// Spans of so many slots have their bits in the slab record.
inline constexpr unsigned most_inline_slots = 64;
/// 2^30 slabs are 64 TiB: what 47 bits of addresses have room for, beside all else.
inline constexpr std::uint64_t most_heap_slabs = 1ULL << 30;

/// Where the allocator keeps its metadata. Reads and writes may come from several threads at once, to different places.
/// Both throw an Error if they fail, and that goes on to whoever called the allocator.
class MetadataArea {
 public:
  virtual ~MetadataArea() = default;
  virtual void read_record(std::uint64_t place, std::span<std::byte> bytes) = 0;
  virtual void write_record(std::uint64_t place, std::span<const std::byte> bytes) = 0;
};

/// Places in the area, of a heap of so many slabs.
constexpr std::uint64_t slab_record_count(std::uint64_t slabs) noexcept {
  return (slabs + slabs_per_record - 1) / slabs_per_record;
}
constexpr std::uint64_t slab_record_place(std::uint64_t record) noexcept {
  return (record + 1) * slab_record_bytes;
}
constexpr std::uint64_t metadata_bitmap_place(std::uint64_t slabs, std::uint64_t slab) noexcept {
  return slab_record_place(slab_record_count(slabs)) + slab * most_bitmap_bytes;
}

struct MetadataHeader {
  std::uint64_t slabs = 0;
  std::uint64_t used_slabs = 0;
  std::uint64_t record_sum = 0;
};

enum class SlabContent : std::uint8_t { nothing = 0, span = 1, large_block = 2 };

struct SavedSlab {
  SlabContent content = SlabContent::nothing;
  std::uint8_t size_class = 0;
  std::uint32_t live = 0;
  std::uint64_t value = 0;

  /// How many slabs it takes up.
  std::uint64_t length() const noexcept;
};
using SavedSlabs = std::array<SavedSlab, slabs_per_record>;

/// Whether a span's bits are in its slab record.
constexpr bool has_inline_bits(const SizeClass& size) noexcept {
  return size.slots <= most_inline_slots;
}
constexpr std::size_t bitmap_bytes(const SizeClass& size) noexcept {
  return size.words() * std::size_t{8};
}

std::array<std::byte, metadata_header_bytes> encode_metadata_header(const MetadataHeader& header);
/// Throws StoreError that says what is wrong, as do all that follow.
MetadataHeader decode_metadata_header(std::span<const std::byte> bytes);

/// Returns the record's checksum, 0 if nothing begins there.
std::uint64_t encode_slab_record(std::uint64_t record, const SavedSlabs& slabs, std::span<std::byte> bytes);
/// Each entry is possible in itself; whether they go together is for the caller to see. Returns the checksum, 0 if
/// nothing begins there.
std::uint64_t decode_slab_record(std::uint64_t record, std::span<const std::byte> bytes, SavedSlabs& slabs);

/// The checksum.
std::uint64_t encode_bitmap(std::uint64_t slab, std::span<const std::uint64_t> words, std::span<std::byte> bytes);
void decode_bitmap(std::uint64_t slab, const SavedSlab& saved, std::span<const std::byte> bytes,
                   std::span<std::uint64_t> words);

/// What is wrong with metadata: "heap metadata: `what`: restore ...".
class HeapMetadataError : public StoreError {
 public:
  explicit HeapMetadataError(const std::string& what);
  const std::string& finding() const noexcept { return finding_; }

 private:
  std::string finding_;
};
/// For what else is found.
[[noreturn]] void refuse_heap_metadata(const std::string& what);

/// Does `call`, and throws what it finds wrong with metadata as a StoreError that names the heap.
template <typename Call>
auto naming_heap(const std::string& heap, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const HeapMetadataError& error) {
    throw StoreError(EINVAL, "heap " + heap + " is damaged: " + error.finding() +
                                 ": restore it from a snapshot, or save what can be by 'tiermap heap copy --salvage'");
  }
}

}  // namespace tiermap
