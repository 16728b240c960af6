#include "bfs/csr_file.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void refuse_file(const Store& store, const std::string& why) {
  throw StoreError(EINVAL, fmt::format("{} {}", store.name(), why));
}

}  // namespace

CsrHeader CsrHeader::for_graph(std::uint64_t vertices, std::uint64_t arcs, bool undirected_edges) {
  CsrHeader header;
  header.flags = undirected_edges ? undirected : 0;
  header.vertices = vertices;
  header.arcs = arcs;
  header.offsets_at = bytes;
  header.targets_at = round_up(bytes + (vertices + 1) * sizeof(std::uint64_t));
  header.file_bytes = header.targets_at + arcs * sizeof(Vertex);
  return header;
}

std::uint64_t CsrHeader::computed_checksum() const noexcept {
  std::uint64_t sum = 0;
  constexpr std::size_t words = offsetof(CsrHeader, checksum) / sizeof(std::uint64_t);
  static_assert(words * sizeof(std::uint64_t) == offsetof(CsrHeader, checksum));
  for (std::size_t index = 0; index < words; ++index) {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(this) + index * sizeof(word), sizeof(word));
    sum = mix_word(sum ^ word) + 0x9e3779b97f4a7c15U;
  }
  return sum;
}

CsrHeader read_csr_header(Store& store) {
  AlignedBuffer buffer(CsrHeader::bytes);
  if (store.size_bytes() < CsrHeader::bytes) {
    refuse_file(store, "is too short to be a graph made by tiermap-bfs: build one with --input or --scale");
  }
  read_fully(store, buffer.data(), CsrHeader::bytes, 0);
  CsrHeader header;
  const CsrHeader expected;
  std::memcpy(&header, buffer.data(), sizeof(header));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    refuse_file(store, "is not a graph made by tiermap-bfs: build one with --input or --scale");
  }
  if (header.version != CsrHeader::current_version) {
    refuse_file(store, fmt::format("is a graph of version {}, and this program knows version {}: build it again",
                                   header.version, CsrHeader::current_version));
  }
  const CsrHeader fitting = CsrHeader::for_graph(header.vertices, header.arcs, header.is_undirected());
  if (header.checksum != header.computed_checksum() || header.target_bytes != sizeof(Vertex) ||
      header.vertices >= no_vertex || header.offsets_at != fitting.offsets_at ||
      header.targets_at != fitting.targets_at || header.file_bytes != fitting.file_bytes ||
      // So many that their bytes, counted in 64 bits, begin again at 0.
      header.arcs > header.file_bytes / sizeof(Vertex)) {
    refuse_file(store, "has a damaged header: build the graph again");
  }
  if (store.size_bytes() < header.file_bytes) {
    refuse_file(store, fmt::format("is cut off: it has {} of {} bytes; build the graph again", store.size_bytes(),
                                   header.file_bytes));
  }
  return header;
}

void write_csr_header(Store& store, CsrHeader header) {
  header.checksum = header.computed_checksum();
  AlignedBuffer buffer(CsrHeader::bytes);
  std::memset(buffer.data(), 0, CsrHeader::bytes);
  std::memcpy(buffer.data(), &header, sizeof(header));
  write_fully(store, buffer.data(), CsrHeader::bytes, 0);
}

void refuse_damaged_graph(const std::string& name, std::uint64_t vertex) {
  throw StoreError(EINVAL, fmt::format("{} is damaged at vertex {}: build the graph again", name, vertex));
}

}  // namespace tiermap
