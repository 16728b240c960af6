// A graph in a file: for every vertex where its neighbours begin, then all neighbours. docs/applications.md has the
// layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "command_line/memory_system.hpp"
#include "edges/edge_source.hpp"

namespace tiermap {

/// What the file's first page says. All numbers little-endian.
struct CsrHeader {
  static constexpr std::uint32_t current_version = 1;
  static constexpr std::uint64_t bytes = 4096;
  static constexpr std::uint32_t undirected = 1;  ///< In flags: every edge is there both ways.

  char magic[8] = {'T', 'I', 'E', 'R', 'C', 'S', 'R', '\n'};
  std::uint32_t version = current_version;
  std::uint32_t flags = 0;
  std::uint64_t vertices = 0;
  std::uint64_t arcs = 0;        ///< Neighbours in all: an edge both ways counts twice.
  std::uint64_t offsets_at = 0;  ///< vertices + 1 numbers of 8 bytes: where each vertex's neighbours begin, in arcs.
  std::uint64_t targets_at = 0;  ///< arcs numbers of target_bytes bytes: the neighbours, ascending for each vertex.
  std::uint64_t file_bytes = 0;
  std::uint64_t input_edges = 0;  ///< Edges it was made from, loops and duplicates included.
  std::uint32_t target_bytes = sizeof(Vertex);
  std::uint32_t reserved = 0;
  std::uint64_t checksum = 0;  ///< Of all that is above.

  /// A header for so many vertices, with every position in place, for up to so many arcs.
  static CsrHeader for_graph(std::uint64_t vertices, std::uint64_t arcs, bool undirected);
  std::uint64_t computed_checksum() const noexcept;
  bool is_undirected() const noexcept { return (flags & undirected) != 0; }
};

/// Reads and checks the header. Throws StoreError that says what is wrong: not such a file, of a later version,
/// damaged, cut off.
CsrHeader read_csr_header(Store& store);
void write_csr_header(Store& store, CsrHeader header);

/// Throws StoreError that names the file, and the vertex where what it holds cannot be.
[[noreturn]] void refuse_damaged_graph(const std::string& name, std::uint64_t vertex);

/// The graph where it is mapped. Every number that comes from the file is checked before it is used.
class CsrGraph {
 public:
  /// `name` is what messages call the file.
  CsrGraph(const CsrHeader& header, MappedBytes& mapped, std::string name)
      : header_(header),
        mapped_(mapped),
        name_(std::move(name)),
        offsets_(reinterpret_cast<const std::uint64_t*>(mapped.data() + header.offsets_at)),
        targets_(reinterpret_cast<const Vertex*>(mapped.data() + header.targets_at)) {}

  std::uint64_t vertices() const noexcept { return header_.vertices; }
  std::uint64_t arcs() const noexcept { return header_.arcs; }
  bool is_undirected() const noexcept { return header_.is_undirected(); }

  /// Where the neighbours of a vertex begin and end. Throws StoreError if the file is damaged there.
  std::pair<std::uint64_t, std::uint64_t> arcs_of(std::uint64_t vertex) const {
    const std::uint64_t begin = offsets_[vertex];
    const std::uint64_t end = offsets_[vertex + 1];
    if (begin > end || end > header_.arcs) {
      refuse(vertex);
    }
    return {begin, end};
  }
  std::span<const Vertex> neighbours(std::uint64_t vertex) const {
    const auto [begin, end] = arcs_of(vertex);
    return {targets_ + begin, static_cast<std::size_t>(end - begin)};
  }
  /// Where in the file the arcs [begin, end) are.
  ByteRange range_of_arcs(std::uint64_t begin, std::uint64_t end) const noexcept {
    return {header_.targets_at + begin * sizeof(Vertex), (end - begin) * sizeof(Vertex)};
  }
  ByteRange range_of_offsets() const noexcept { return range_of_offsets(0, header_.vertices); }
  /// Where what arcs_of() reads for the vertices [begin, end) is.
  ByteRange range_of_offsets(std::uint64_t begin, std::uint64_t end) const noexcept {
    return {header_.offsets_at + begin * sizeof(std::uint64_t), (end - begin + 1) * sizeof(std::uint64_t)};
  }
  MappedBytes& mapped() const noexcept { return mapped_; }

  /// Throws StoreError: the file names a neighbour that does not exist, or positions out of order.
  [[noreturn]] void refuse(std::uint64_t vertex) const { refuse_damaged_graph(name_, vertex); }

 private:
  CsrHeader header_;
  MappedBytes& mapped_;
  std::string name_;
  const std::uint64_t* offsets_;
  const Vertex* targets_;
};

}  // namespace tiermap
