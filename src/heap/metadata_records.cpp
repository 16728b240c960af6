#include "heap/metadata_records.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char slab_magic[] = "TIERSLAB";
constexpr std::size_t slab_magic_bytes = 8;
constexpr std::size_t slab_entry_bytes = 16;
constexpr std::size_t entries_place = 16;
constexpr std::size_t header_checksum_place = 56;

template <typename Number>
void put_number(std::byte* place, Number value) noexcept {
  for (std::size_t index = 0; index < sizeof(Number); ++index) {
    place[index] = static_cast<std::byte>(value >> (8 * index) & 0xff);
  }
}

template <typename Number>
Number get_number(const std::byte* place) noexcept {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < sizeof(Number); ++index) {
    value |= std::to_integer<std::uint64_t>(place[index]) << (8 * index);
  }
  return static_cast<Number>(value);
}

bool all_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::string record_name(std::uint64_t record) {
  return "slab record " + std::to_string(record) + " at byte " + std::to_string(slab_record_place(record)) +
         " of the metadata";
}

bool possible(const SavedSlab& saved) noexcept {
  switch (saved.content) {
    case SlabContent::nothing:
      return saved.size_class == 0 && saved.live == 0 && saved.value == 0;
    case SlabContent::large_block:
      return saved.size_class == 0 && saved.live == 0 && saved.value > 0 && saved.value <= most_heap_slabs * slab_bytes;
    case SlabContent::span:
      break;
    default:
      return false;
  }
  if (saved.size_class >= size_class_count) {
    return false;
  }
  const SizeClass& size = size_classes[saved.size_class];
  if (saved.live == 0 || saved.live > size.slots) {
    return false;
  }
  return !has_inline_bits(size) || (std::popcount(saved.value) == static_cast<int>(saved.live) &&
                                    (size.slots == 64 || saved.value >> size.slots == 0));
}

}  // namespace

HeapMetadataError::HeapMetadataError(const std::string& what)
    : StoreError(EINVAL, "heap metadata: " + what + ": restore the heap from a snapshot"), finding_(what) {}

void refuse_heap_metadata(const std::string& what) {
  throw HeapMetadataError(what);
}

std::uint64_t SavedSlab::length() const noexcept {
  switch (content) {
    case SlabContent::span:
      return size_classes[size_class].slabs;
    case SlabContent::large_block:
      return (value + slab_bytes - 1) / slab_bytes;
    default:
      return 1;
  }
}

std::array<std::byte, metadata_header_bytes> encode_metadata_header(const MetadataHeader& header) {
  std::array<std::byte, metadata_header_bytes> bytes = {};
  std::memcpy(bytes.data(), slab_magic, slab_magic_bytes);
  put_number(&bytes[8], heap_metadata_version);
  put_number(&bytes[16], header.slabs);
  put_number(&bytes[24], header.used_slabs);
  put_number(&bytes[32], header.record_sum);
  put_number(&bytes[header_checksum_place], std::uint64_t{XXH3_64bits(bytes.data(), header_checksum_place)});
  return bytes;
}

MetadataHeader decode_metadata_header(std::span<const std::byte> bytes) {
  if (bytes.size() < metadata_header_bytes || std::memcmp(bytes.data(), slab_magic, slab_magic_bytes) != 0) {
    refuse_heap_metadata("the header at byte 0 of the metadata is not one");
  }
  const auto version = get_number<std::uint32_t>(&bytes[8]);
  if (version != heap_metadata_version) {
    throw StoreError(EINVAL, "heap metadata: the header at byte 0 of the metadata is of version " +
                                 std::to_string(version) + " and this program reads version " +
                                 std::to_string(heap_metadata_version) +
                                 ": use the version of Tiermap that made the heap");
  }
  if (get_number<std::uint64_t>(&bytes[header_checksum_place]) != XXH3_64bits(bytes.data(), header_checksum_place)) {
    refuse_heap_metadata("the header at byte 0 of the metadata is damaged: its checksum is wrong");
  }
  const MetadataHeader header{get_number<std::uint64_t>(&bytes[16]), get_number<std::uint64_t>(&bytes[24]),
                              get_number<std::uint64_t>(&bytes[32])};
  if (!all_zero(bytes.subspan(12, 4)) || !all_zero(bytes.subspan(40, 16)) || header.slabs > most_heap_slabs ||
      header.used_slabs > header.slabs) {
    refuse_heap_metadata("the header at byte 0 of the metadata is damaged: its values are impossible");
  }
  return header;
}

std::uint64_t encode_slab_record(std::uint64_t record, const SavedSlabs& slabs, std::span<std::byte> bytes) {
  if (std::all_of(slabs.begin(), slabs.end(),
                  [](const SavedSlab& saved) { return saved.content == SlabContent::nothing; })) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    return 0;
  }
  put_number(&bytes[8], record + 1);
  for (std::size_t index = 0; index < slabs_per_record; ++index) {
    std::byte* const entry = &bytes[entries_place + index * slab_entry_bytes];
    const SavedSlab& saved = slabs[index];
    entry[0] = static_cast<std::byte>(saved.content);
    entry[1] = static_cast<std::byte>(saved.size_class);
    entry[2] = entry[3] = std::byte{0};
    put_number(entry + 4, saved.live);
    put_number(entry + 8, saved.value);
  }
  const std::uint64_t checksum = XXH3_64bits_withSeed(&bytes[8], slab_record_bytes - 8, record);
  put_number(&bytes[0], checksum);
  return checksum;
}

std::uint64_t decode_slab_record(std::uint64_t record, std::span<const std::byte> bytes, SavedSlabs& slabs) {
  const auto checksum = get_number<std::uint64_t>(&bytes[0]);
  if (checksum == 0 && all_zero(bytes)) {
    slabs = {};
    return 0;
  }
  if (checksum != XXH3_64bits_withSeed(&bytes[8], slab_record_bytes - 8, record)) {
    refuse_heap_metadata(record_name(record) + " is damaged: its checksum is wrong");
  }
  if (get_number<std::uint64_t>(&bytes[8]) != record + 1) {
    refuse_heap_metadata(record_name(record) + " is damaged: it belongs elsewhere");
  }
  for (std::size_t index = 0; index < slabs_per_record; ++index) {
    const std::byte* const entry = &bytes[entries_place + index * slab_entry_bytes];
    SavedSlab& saved = slabs[index];
    saved.content = static_cast<SlabContent>(entry[0]);
    saved.size_class = std::to_integer<std::uint8_t>(entry[1]);
    saved.live = get_number<std::uint32_t>(entry + 4);
    saved.value = get_number<std::uint64_t>(entry + 8);
    if (!possible(saved) || entry[2] != std::byte{0} || entry[3] != std::byte{0}) {
      refuse_heap_metadata(record_name(record) + " is damaged: what it has for slab " +
                           std::to_string(record * slabs_per_record + index) + " is impossible");
    }
  }
  return checksum;
}

std::uint64_t encode_bitmap(std::uint64_t slab, std::span<const std::uint64_t> words, std::span<std::byte> bytes) {
  for (std::size_t word = 0; word < words.size(); ++word) {
    put_number(&bytes[word * 8], words[word]);
  }
  return XXH3_64bits_withSeed(bytes.data(), words.size() * 8, slab);
}

void decode_bitmap(std::uint64_t slab, const SavedSlab& saved, std::span<const std::byte> bytes,
                   std::span<std::uint64_t> words) {
  const SizeClass& size = size_classes[saved.size_class];
  if (XXH3_64bits_withSeed(bytes.data(), bytes.size(), slab) != saved.value) {
    refuse_heap_metadata("the bitmap of the span at slab " + std::to_string(slab) +
                         " is damaged: its checksum is wrong");
  }
  unsigned live = 0;
  for (std::size_t word = 0; word < words.size(); ++word) {
    words[word] = get_number<std::uint64_t>(&bytes[word * 8]);
    live += static_cast<unsigned>(std::popcount(words[word]));
  }
  const unsigned beyond = size.slots % 64;
  if (live != saved.live || (beyond != 0 && words.back() >> beyond != 0)) {
    refuse_heap_metadata("the bitmap of the span at slab " + std::to_string(slab) + " has " + std::to_string(live) +
                         " live blocks, and its slab record " + std::to_string(saved.live));
  }
}

}  // namespace tiermap
