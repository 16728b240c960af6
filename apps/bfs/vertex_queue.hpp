// Vertices that wait to be visited, lowest level first, in blocks that lie in memory or in a mapped file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "edges/edge_source.hpp"

namespace tiermap {

/// Blocks for the queues of all threads. Thread-safe.
class BlockPool {
 public:
  static constexpr std::uint64_t block_bytes = 4096;
  static constexpr std::uint64_t block_vertices = block_bytes / sizeof(Vertex);

  /// Blocks are cut from `room`, and from memory if that is empty.
  explicit BlockPool(std::span<Vertex> room = {}) : room_(room) {}

  /// Throws StoreError if the room is full. What was given back last is given out first: it is in memory still.
  Vertex* take();
  void give_back(Vertex* block);

 private:
  const std::span<Vertex> room_;
  std::mutex mutex_;  ///< Guards what is below.
  std::vector<Vertex*> free_;
  std::vector<std::unique_ptr<Vertex[]>> in_memory_;
  std::uint64_t taken_from_room_ = 0;
};

/// One thread's queue: a heap of vertices by level, none ordered within a level.
class VertexQueue {
 public:
  explicit VertexQueue(BlockPool& pool) : pool_(pool) {}
  bool empty() const noexcept { return levels_.empty(); }
  /// Of a queue that is not empty.
  std::uint32_t lowest_level() const noexcept { return levels_.begin()->first; }
  /// Throws what BlockPool::take() throws.
  void push(Vertex vertex, std::uint32_t level);
  /// Takes up to `most` vertices of the lowest level into `vertices`, whose content goes, and returns that level. The
  /// queue must not be empty.
  std::uint32_t pop(std::vector<Vertex>& vertices, std::size_t most);

 private:
  /// A path of a million vertices has a million levels: only what fills a block takes one.
  struct Level {
    std::vector<Vertex*> full;
    std::vector<Vertex> begun;  ///< In memory: less than a block.
  };

  BlockPool& pool_;
  std::map<std::uint32_t, Level> levels_;  ///< None is empty.
};

}  // namespace tiermap
