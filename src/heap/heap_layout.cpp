#include "heap/heap_layout.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "config/size.hpp"
#include "heap/allocator.hpp"
#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char state_magic[] = "TIERSTAT";
constexpr std::size_t heap_magic_bytes = 8;
constexpr std::uint32_t byte_order_mark = 0x01020304;
constexpr std::uint32_t swapped_byte_order_mark = 0x04030201;
constexpr std::size_t segments_at = 48;
constexpr std::size_t block_checksum_at = heap_block_bytes - 8;
constexpr std::uint64_t least_names_bytes = 1 << 20;
constexpr std::uint64_t data_alignment = 2 << 20;
constexpr std::uint64_t least_capacity_bytes = 128 << 10;
constexpr std::uint64_t most_capacity_bytes = 32ULL << 40;
constexpr std::uint64_t least_page_bytes_of_heaps = 4 << 10;
constexpr std::uint64_t most_page_bytes_of_heaps = 64 << 20;

template <typename Number>
void put_native(HeapBlock& block, std::size_t at, Number number) noexcept {
  std::memcpy(block.data() + at, &number, sizeof(number));
}

template <typename Number>
Number native_at(const HeapBlock& block, std::size_t at) noexcept {
  Number number;
  std::memcpy(&number, block.data() + at, sizeof(number));
  return number;
}

void seal_block(HeapBlock& block) noexcept {
  put_native(block, block_checksum_at, heap_checksum(std::span(block).first(block_checksum_at)));
}

[[noreturn]] void refuse_heap(const std::string& heap, const std::string& why) {
  throw StoreError(EINVAL, "heap " + heap + " " + why);
}

}  // namespace

HeapLayout::HeapLayout(std::uint64_t capacity_bytes) noexcept
    : names_offset(metadata_offset + Allocator::metadata_bytes(capacity_bytes)),
      names_capacity_bytes(round_up(std::max(capacity_bytes / 16, least_names_bytes), heap_block_bytes)),
      data_offset(round_up(names_offset + names_capacity_bytes, data_alignment)),
      end(data_offset + capacity_bytes) {}

std::uint64_t heap_capacity(std::uint64_t wanted_bytes, const std::string& heap) {
  if (wanted_bytes < least_capacity_bytes) {
    throw OptionError("heap " + heap + ": a capacity of " + format_size(wanted_bytes) +
                      " is too small: choose 128KiB or more; only what is used takes room");
  }
  if (wanted_bytes > most_capacity_bytes) {
    throw OptionError("heap " + heap + ": a capacity of " + format_size(wanted_bytes) +
                      " is more than there are addresses for: choose 32TiB or less");
  }
  return round_up(wanted_bytes, slab_bytes);
}

std::uint64_t heap_checksum(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

bool is_whole_block(const HeapBlock& block) noexcept {
  return native_at<std::uint64_t>(block, block_checksum_at) == heap_checksum(std::span(block).first(block_checksum_at));
}

bool is_of_other_endianness(const HeapBlock& block) noexcept {
  return native_at<std::uint32_t>(block, 8) == swapped_byte_order_mark;
}

void encode_superblock(const HeapSuperblock& superblock, HeapBlock& block) noexcept {
  block = {};
  std::memcpy(block.data(), heap_magic.data(), heap_magic_bytes);
  put_native(block, 8, byte_order_mark);
  put_native(block, 12, heap_layout_version);
  put_native(block, 16, static_cast<std::uint32_t>(sizeof(void*)));
  put_native(block, 24, superblock.identity);
  put_native(block, 32, superblock.capacity_bytes);
  put_native(block, 40, superblock.page_size_bytes);
  put_native(block, 48, superblock.origin);
  put_native(block, 56, superblock.origin_generation);
  seal_block(block);
}

HeapSuperblock decode_superblock(const HeapBlock& block, const std::string& heap) {
  if (std::memcmp(block.data(), heap_magic.data(), heap_magic_bytes) != 0) {
    refuse_heap(heap,
                "is not one: its data does not begin as a heap's does; it may have been made only in part: name "
                "another, or create it anew, which replaces only what nothing is in");
  }
  const auto mark = native_at<std::uint32_t>(block, 8);
  if (is_of_other_endianness(block)) {
    refuse_heap(heap, "was made on a machine of the other endianness: open it on one like that");
  }
  const auto version = native_at<std::uint32_t>(block, 12);
  if (mark == byte_order_mark && version != heap_layout_version) {
    refuse_heap(heap, "has layout version " + std::to_string(version) + ", and this program reads version " +
                          std::to_string(heap_layout_version) + ": open it with the Tiermap that made it");
  }
  const auto pointer_bytes = native_at<std::uint32_t>(block, 16);
  if (mark == byte_order_mark && pointer_bytes != sizeof(void*) && (pointer_bytes == 4 || pointer_bytes == 16)) {
    refuse_heap(heap, "was made by a program whose pointers have " + std::to_string(pointer_bytes) +
                          " bytes, and this one's have " + std::to_string(sizeof(void*)) +
                          ": open it with one compiled like that");
  }
  const HeapSuperblock superblock{native_at<std::uint64_t>(block, 24), native_at<std::uint64_t>(block, 32),
                                  native_at<std::uint64_t>(block, 40), native_at<std::uint64_t>(block, 48),
                                  native_at<std::uint64_t>(block, 56)};
  if (!is_whole_block(block) || mark != byte_order_mark || pointer_bytes != sizeof(void*) ||
      superblock.capacity_bytes < least_capacity_bytes || superblock.capacity_bytes > most_capacity_bytes ||
      superblock.capacity_bytes % slab_bytes != 0) {
    refuse_heap(heap,
                "is damaged: the superblock, at byte 0 of its data, is not what its checksum says: restore it "
                "from a snapshot");
  }
  if (!std::has_single_bit(superblock.page_size_bytes) || superblock.page_size_bytes < least_page_bytes_of_heaps ||
      superblock.page_size_bytes > most_page_bytes_of_heaps) {
    refuse_heap(heap, "is damaged: the superblock, at byte 0 of its data, speaks of pages of " +
                          std::to_string(superblock.page_size_bytes) +
                          " bytes, which cannot be: restore it from a snapshot");
  }
  return superblock;
}

void encode_state(const HeapStateBlock& state, HeapBlock& block) noexcept {
  block = {};
  std::memcpy(block.data(), state_magic, heap_magic_bytes);
  put_native(block, 8, static_cast<std::uint32_t>(state.state));
  put_native(block, 16, state.generation);
  put_native(block, 24, state.names_bytes);
  put_native(block, 32, state.names_checksum);
  put_native(block, 40, std::uint32_t{state.has_journal});
  for (std::size_t segment = 0; segment < most_heap_segments; ++segment) {
    if (state.segments.test(segment)) {
      block[segments_at + segment / 8] |= std::byte{1} << (segment % 8);
    }
  }
  seal_block(block);
}

HeapSegments segments_of_state(const HeapBlock& block) noexcept {
  HeapSegments segments;
  if (std::memcmp(block.data(), state_magic, heap_magic_bytes) == 0 && is_whole_block(block)) {
    for (std::size_t segment = 0; segment < most_heap_segments; ++segment) {
      segments.set(segment,
                   std::to_integer<unsigned>(block[segments_at + segment / 8] >> (segment % 8) & std::byte{1}) != 0);
    }
  }
  return segments;
}

HeapStateBlock decode_state(const HeapBlock& block, const HeapLayout& layout, const std::string& heap) {
  const auto state = native_at<std::uint32_t>(block, 8);
  const HeapStateBlock decoded{static_cast<HeapState>(state),
                               native_at<std::uint64_t>(block, 16),
                               native_at<std::uint64_t>(block, 24),
                               native_at<std::uint64_t>(block, 32),
                               native_at<std::uint32_t>(block, 40) != 0,
                               segments_of_state(block)};
  if (std::memcmp(block.data(), state_magic, heap_magic_bytes) != 0 || !is_whole_block(block) || state < 1 ||
      state > 3 || decoded.names_bytes > layout.names_capacity_bytes) {
    refuse_heap(heap,
                "is damaged: the state block, at byte 4096 of its data, is not what its checksum says: restore it "
                "from a snapshot");
  }
  return decoded;
}

}  // namespace tiermap
