// Adjacency lists in one file: a table of the vertices, and for each a chain of blocks that hold its neighbours, in the
// order in which they came. docs/applications/ingest.md has the layout.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "edges/edge_source.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What the table says of a vertex. Offsets are in bytes from the start of the file; 0 is none. The last block's
/// capacity stands here too: so an insertion looks at nothing in the block, and stores to it at once.
struct VertexRecord {
  std::uint64_t degree = 0;
  std::uint64_t first = 0;     ///< Where the first block is.
  std::uint64_t last = 0;      ///< Where the last block is: the only one with room.
  std::uint32_t room = 0;      ///< Neighbours that still fit into the last block.
  std::uint32_t capacity = 0;  ///< Neighbours that fit into the last block in all.
};
static_assert(sizeof(VertexRecord) == 32);

/// What a block begins with. Its neighbours follow.
struct BlockHead {
  std::uint64_t next = 0;  ///< Where the list goes on; 0 in the last block.
  Vertex vertex = 0;       ///< Whose neighbours these are.
  std::uint32_t capacity = 0;
};
static_assert(sizeof(BlockHead) == 16);

/// Blocks are 32 bytes, twice that, and so on to 4 KiB. They come from chunks of one size each, so that none lies in
/// two pages.
inline constexpr std::uint32_t block_classes = 8;
inline constexpr std::uint64_t least_block_bytes = 32;
inline constexpr std::uint64_t chunk_bytes = std::uint64_t{64} << 10U;

constexpr std::uint64_t block_bytes(std::uint32_t size_class) noexcept {
  return least_block_bytes << size_class;
}
constexpr std::uint32_t block_capacity(std::uint32_t size_class) noexcept {
  return static_cast<std::uint32_t>((block_bytes(size_class) - sizeof(BlockHead)) / sizeof(Vertex));
}
/// The block that a list gets when all its blocks are full: at most as large as its neighbours are together, so that
/// long lists have few blocks and short ones little that is empty.
constexpr std::uint32_t next_block_class(std::uint64_t degree) noexcept {
  const std::uint64_t bytes =
      std::clamp(std::bit_floor(degree * sizeof(Vertex)), least_block_bytes, block_bytes(block_classes - 1));
  return static_cast<std::uint32_t>(std::countr_zero(bytes) - std::countr_zero(least_block_bytes));
}

/// How many blocks there are of each class.
using BlockCounts = std::array<std::uint64_t, block_classes>;
/// Adds those of a list of `degree` neighbours.
void add_blocks(std::uint64_t degree, BlockCounts& counts) noexcept;

/// What the allocator has given away. Offsets from the start of the file.
struct AllocatorState {
  std::uint64_t top = 0;                      ///< Where the next chunk begins.
  std::uint64_t cursors[block_classes] = {};  ///< By class: the next block; at the end of a chunk there is none.
};

/// What the file's first page says. All numbers little-endian. While edges are inserted only the allocator's part is
/// there: a file whose making was cut short has no magic.
struct AdjacencyHeader {
  static constexpr std::uint32_t current_version = 1;
  static constexpr std::uint64_t bytes = 4096;

  char magic[8] = {'T', 'I', 'E', 'R', 'A', 'D', 'J', '\n'};
  std::uint32_t version = current_version;
  std::uint32_t flags = 0;
  std::uint64_t vertices = 0;
  std::uint64_t edges = 0;
  std::uint64_t blocks = 0;
  std::uint64_t records_at = 0;  ///< A VertexRecord for each vertex.
  std::uint64_t blocks_at = 0;   ///< Chunks of blocks, from here to the end.
  std::uint64_t file_bytes = 0;
  AllocatorState allocator;
  std::uint64_t checksum = 0;  ///< Of all that is above.

  /// A header for these, with every position in place and the allocator's state as it is at the end.
  static AdjacencyHeader for_graph(std::uint64_t vertices, std::uint64_t edges, const BlockCounts& counts);
  /// The most bytes that a file can have for so many, however the edges are distributed.
  static std::uint64_t most_bytes(std::uint64_t vertices, std::uint64_t edges) noexcept;
  std::uint64_t computed_checksum() const noexcept;
};

/// Reads and checks the header. Throws StoreError that says what is wrong: not such a file, of another version,
/// damaged, cut off.
AdjacencyHeader read_adjacency_header(Store& store);

}  // namespace tiermap
