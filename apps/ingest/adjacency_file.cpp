#include "ingest/adjacency_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>

#include "command_line/backing.hpp"
#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* remedy = "make one with tiermap-ingest --file, --keep and a new name";

std::uint64_t round_up_to_chunk(std::uint64_t bytes) {
  return (bytes + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
}

std::uint64_t end_of_records(std::uint64_t vertices) {
  return AdjacencyHeader::bytes + vertices * sizeof(VertexRecord);
}

[[noreturn]] void refuse_file(const Store& store, const std::string& why) {
  throw StoreError(EINVAL, fmt::format("{} {}", store.name(), why));
}

/// Whether the numbers fit each other, so that no other part of the program has to ask.
bool is_sound(const AdjacencyHeader& header) {
  return header.checksum == header.computed_checksum() && header.flags == 0 && header.vertices > 0 &&
         header.vertices < no_vertex && header.records_at == AdjacencyHeader::bytes &&
         header.blocks_at == round_up_to_chunk(end_of_records(header.vertices)) &&
         header.file_bytes >= header.blocks_at && header.file_bytes % chunk_bytes == 0 &&
         header.allocator.top == header.file_bytes;
}

}  // namespace

void add_blocks(std::uint64_t degree, BlockCounts& counts) noexcept {
  for (std::uint64_t held = 0; held < degree;) {
    const std::uint32_t size_class = next_block_class(held);
    ++counts[size_class];
    held += block_capacity(size_class);
  }
}

AdjacencyHeader AdjacencyHeader::for_graph(std::uint64_t vertices, std::uint64_t edges, const BlockCounts& counts) {
  AdjacencyHeader header;
  header.vertices = vertices;
  header.edges = edges;
  header.blocks = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  header.records_at = bytes;
  header.blocks_at = round_up_to_chunk(end_of_records(vertices));
  header.file_bytes = header.blocks_at;
  for (std::uint32_t size_class = 0; size_class < block_classes; ++size_class) {
    header.file_bytes += round_up_to_chunk(counts[size_class] * block_bytes(size_class));
  }
  header.allocator.top = header.file_bytes;
  return header;
}

std::uint64_t AdjacencyHeader::most_bytes(std::uint64_t vertices, std::uint64_t edges) noexcept {
  // The blocks of a list of d neighbours have at most 22 + 10 d bytes: a test goes through the lengths.
  const std::uint64_t blocks = 22 * std::min(vertices, edges) + 10 * edges;
  return round_up_to_chunk(end_of_records(vertices)) + round_up_to_chunk(blocks) + block_classes * chunk_bytes;
}

std::uint64_t AdjacencyHeader::computed_checksum() const noexcept {
  std::uint64_t sum = 0;
  constexpr std::size_t words = offsetof(AdjacencyHeader, checksum) / sizeof(std::uint64_t);
  static_assert(words * sizeof(std::uint64_t) == offsetof(AdjacencyHeader, checksum));
  for (std::size_t index = 0; index < words; ++index) {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(this) + index * sizeof(word), sizeof(word));
    sum = mix_word(sum ^ word) + 0x9e3779b97f4a7c15U;
  }
  return sum;
}

AdjacencyHeader read_adjacency_header(Store& store) {
  if (store.size_bytes() < AdjacencyHeader::bytes) {
    refuse_file(store, fmt::format("is too short to hold adjacency lists: {}", remedy));
  }
  AlignedBuffer buffer(AdjacencyHeader::bytes);
  read_fully(store, buffer.data(), AdjacencyHeader::bytes, 0);
  AdjacencyHeader header;
  const AdjacencyHeader expected;
  std::memcpy(&header, buffer.data(), sizeof(header));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    refuse_file(store, fmt::format("holds no adjacency lists, or its making was cut short: {}", remedy));
  }
  if (header.version != AdjacencyHeader::current_version) {
    refuse_file(store, fmt::format("has adjacency lists of version {}, and this program knows version {}: {}",
                                   header.version, AdjacencyHeader::current_version, remedy));
  }
  if (!is_sound(header)) {
    refuse_file(store, fmt::format("has a damaged header: {}", remedy));
  }
  if (store.size_bytes() < header.file_bytes) {
    refuse_file(store,
                fmt::format("is cut off: it has {} of {} bytes; {}", store.size_bytes(), header.file_bytes, remedy));
  }
  return header;
}

}  // namespace tiermap
