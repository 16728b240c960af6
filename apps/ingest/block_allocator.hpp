// Gives away the blocks of a mapped file, to any number of threads. Nothing is ever given back.
#pragma once

#include <cstdint>
#include <mutex>

#include "ingest/adjacency_file.hpp"

namespace tiermap {

/// Its state lies in the file's header. A block costs one compare-and-swap on its class's cursor, and a lock once in a
/// chunk.
class BlockAllocator {
 public:
  /// Begins at `begin`, a multiple of a chunk, and goes no further than `end`.
  BlockAllocator(AllocatorState& state, std::uint64_t begin, std::uint64_t end) noexcept;

  /// Where the new block is. Thread-safe. Throws StoreError when the file is full.
  std::uint64_t allocate(std::uint32_t size_class);

  /// How far the file is in use. Not while others allocate.
  std::uint64_t top() const noexcept { return state_.top; }

 private:
  AllocatorState& state_;
  const std::uint64_t end_;
  std::mutex mutex_;  ///< Held by whoever begins a chunk.
};

}  // namespace tiermap
