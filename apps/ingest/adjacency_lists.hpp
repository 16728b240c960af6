// The adjacency lists where they are mapped: edges are put into them, and lists are followed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "graph_heap/list_sums.hpp"
#include "ingest/adjacency_file.hpp"
#include "ingest/block_allocator.hpp"

namespace tiermap {

/// Puts edges into the lists of a mapped file that holds zeros. Everything but the locks lies in the file.
class AdjacencyBuilder {
 public:
  /// `header` says how large each part of the file is; the file has its `file_bytes` at least.
  AdjacencyBuilder(std::span<std::byte> file, const AdjacencyHeader& header);

  /// Appends each target to its source's list. Thread-safe. Throws StoreError when the file is full.
  void insert(std::span<const Edge> edges);

  /// Writes the header, after which the file is one. Not while others insert; what they wrote should be durable by
  /// then. Throws StoreError if these are not all the edges that the header speaks of.
  void finish();

 private:
  /// Vertices share locks: as many that threads seldom wait for each other, few enough to cost no memory to speak of.
  /// They are not in the file, because who waits for one must not touch the page that its holder waits for.
  static constexpr std::size_t lock_count = 4096;
  struct alignas(64) Lock {
    std::mutex mutex;
  };

  void insert(Edge edge);
  void append_block(VertexRecord& record, Vertex vertex);
  BlockHead& block_at(std::uint64_t offset) const noexcept {
    return *reinterpret_cast<BlockHead*>(file_.data() + offset);
  }

  std::span<std::byte> file_;
  AdjacencyHeader header_;
  VertexRecord* records_;
  BlockAllocator allocator_;
  std::array<Lock, lock_count> locks_;
};

/// Follows the lists of a mapped file. Every number that comes from the file is checked before it is used. Thread-safe.
class AdjacencyReader {
 public:
  AdjacencyReader(std::span<const std::byte> file, const AdjacencyHeader& header)
      : file_(file),
        header_(header),
        records_(reinterpret_cast<const VertexRecord*>(file.data() + header.records_at)) {}

  /// Follows one list to its end; nothing if the file is damaged there.
  std::optional<ListSum> follow(Vertex vertex) const;

 private:
  /// The block of a vertex at an offset, or nullptr if there is none.
  const BlockHead* block_of(Vertex vertex, std::uint64_t offset) const noexcept;

  std::span<const std::byte> file_;
  AdjacencyHeader header_;
  const VertexRecord* records_;
};

}  // namespace tiermap
