// The data of a heap, byte by byte: what is where, and the two blocks that say so.
//
// A heap is a directory with two entries: `journal`, a file (heap/journal_layout.hpp has its bytes; it stays empty in a
// heap that never had checkpoints, and is what is locked), and `data`, a plain file or a sparse store's directory. The
// bytes of `data`, of a heap of `capacity` bytes:
//
//   0               the superblock, 4096 bytes: never written after the heap was made
//   4096            the state block, 4096 bytes: written by every checkpoint
//   8192            the allocator's metadata area (heap/metadata_records.hpp), Allocator::metadata_bytes(capacity)
//   then            the names area: a sixteenth of the capacity, at least 1 MiB, a multiple of 4096
//   then, from the next multiple of 2 MiB on, the data area, `capacity` bytes: what a program sees. Its first 64 KiB
//                   are never used.
//
// Only what was written takes room. All numbers of this header are in the byte order of the machine that made the heap,
// as what programs put into it is; the metadata and names areas are little-endian.
//
// Superblock:
//    0   8  "TIERHEAP"
//    8   4  0x01020304
//   12   4  layout version: 1
//   16   4  bytes of a pointer: 8
//   20   4  zero
//   24   8  identity: a random number, which the journal has too
//   32   8  capacity in bytes, a multiple of 64 KiB
//   40   8  page size in bytes that the heap was made with, which it is opened with unless another is asked for
//   48   8  of a copy, the identity of the heap that it is a copy of, else zero
//   56   8  of a copy, how many checkpoints its state block said when it was made
//   64      zero
//   4088 8  checksum: XXH3, 64 bits, of the 4088 bytes before
//
// State block:
//    0   8  "TIERSTAT"
//    8   4  1: left by close() or snapshot(); 2: by a checkpoint() of a program that went on; 3: open, without
//           checkpoints, and of no use unless it is closed
//   12   4  zero
//   16   8  how many checkpoints there were, closings included
//   24   8  bytes of the names area in use
//   32   8  their checksum: XXH3, 64 bits
//   40   4  1: the heap has a journal, and is refused without it; else zero
//   44   4  zero
//   48 256  data in a sparse store's directory: a bit for each segment that was there by then, the lowest of a byte
//           first. Else zero
//  304      zero
//   4088 8  checksum: XXH3, 64 bits, of the 4088 bytes before
//
// Names area (heap/object_names.cpp): records one behind the other, each
//    0   8  offset of the object in the data area
//    8   8  how many there are side by side
//   16   8  size of one
//   24   4  its alignment
//   28   4  1 for the unique object of a type, else 0
//   32   4  length of the name, in bytes
//   36   4  length of the type's name, as the compiler mangles it
//   40   4  length of the compiler's name
//   44   4  length of the description
//   48      these four, without anything between them
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tiermap {

inline constexpr std::string_view heap_magic = "TIERHEAP";
inline constexpr std::uint32_t heap_layout_version = 1;
inline constexpr std::size_t heap_block_bytes = 4096;
using HeapBlock = std::array<std::byte, heap_block_bytes>;

struct HeapSuperblock {
  std::uint64_t identity = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t page_size_bytes = 0;
  std::uint64_t origin = 0;
  std::uint64_t origin_generation = 0;
};

/// Segments of a sparse store's directory, by number. Each is a file that stays open: so many are below what most
/// systems let a process have.
inline constexpr std::size_t most_heap_segments = 2048;
using HeapSegments = std::bitset<most_heap_segments>;

enum class HeapState : std::uint32_t { closed = 1, checkpoint = 2, written_directly = 3 };

struct HeapStateBlock {
  HeapState state = HeapState::closed;
  std::uint64_t generation = 0;
  std::uint64_t names_bytes = 0;
  std::uint64_t names_checksum = 0;
  bool has_journal = false;
  HeapSegments segments = {};

  /// Whether an empty journal is not the one that belongs to this.
  bool needs_journal() const noexcept { return has_journal || state == HeapState::checkpoint; }
};

/// Where the parts of a heap of one capacity are.
struct HeapLayout {
  explicit HeapLayout(std::uint64_t capacity_bytes) noexcept;

  static constexpr std::uint64_t superblock_offset = 0;
  static constexpr std::uint64_t state_offset = heap_block_bytes;
  static constexpr std::uint64_t metadata_offset = 2 * heap_block_bytes;
  std::uint64_t names_offset;
  std::uint64_t names_capacity_bytes;
  std::uint64_t data_offset;
  std::uint64_t end;  ///< How long `data` is.
};

/// The capacity that a heap has of whom so many bytes are asked. Throws OptionError that names the heap for too few or
/// too many.
std::uint64_t heap_capacity(std::uint64_t wanted_bytes, const std::string& heap);

/// XXH3.
std::uint64_t heap_checksum(std::span<const std::byte> bytes) noexcept;

/// Whether a superblock or state block is what its checksum says.
bool is_whole_block(const HeapBlock& block) noexcept;
/// Whether a superblock was made on a machine of the other endianness.
bool is_of_other_endianness(const HeapBlock& block) noexcept;

void encode_superblock(const HeapSuperblock& superblock, HeapBlock& block) noexcept;
/// Throws StoreError that says in one line why the heap at this path cannot be opened, and what to do.
HeapSuperblock decode_superblock(const HeapBlock& block, const std::string& heap);

void encode_state(const HeapStateBlock& state, HeapBlock& block) noexcept;
/// None of a block that is no state block.
HeapSegments segments_of_state(const HeapBlock& block) noexcept;
/// Throws StoreError for a damaged one.
HeapStateBlock decode_state(const HeapBlock& block, const HeapLayout& layout, const std::string& heap);

}  // namespace tiermap
