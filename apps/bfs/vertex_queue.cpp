#include "bfs/vertex_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "tiermap/error.hpp"

namespace tiermap {

Vertex* BlockPool::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    Vertex* block = free_.back();
    free_.pop_back();
    return block;
  }
  if (room_.empty()) {
    in_memory_.push_back(std::make_unique<Vertex[]>(block_vertices));
    return in_memory_.back().get();
  }
  if (room_.size() - taken_from_room_ < block_vertices) {
    throw StoreError(ENOSPC, fmt::format("the mapped queues are full at {} bytes: use fewer --threads, or --state "
                                         "memory",
                                         room_.size_bytes()));
  }
  Vertex* block = room_.data() + taken_from_room_;
  taken_from_room_ += block_vertices;
  return block;
}

void BlockPool::give_back(Vertex* block) {
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
}

void VertexQueue::push(Vertex vertex, std::uint32_t level) {
  Level& waiting = levels_[level];
  if (waiting.blocks.empty() || waiting.used_of_last == BlockPool::block_vertices) {
    waiting.blocks.push_back(pool_.take());
    waiting.used_of_last = 0;
  }
  waiting.blocks.back()[waiting.used_of_last++] = vertex;
}

std::uint32_t VertexQueue::pop(std::vector<Vertex>& vertices, std::size_t most) {
  const auto lowest = levels_.begin();
  const std::uint32_t level = lowest->first;
  Level& waiting = lowest->second;
  vertices.clear();
  while (vertices.size() < most && !waiting.blocks.empty()) {
    const std::uint64_t count = std::min<std::uint64_t>(most - vertices.size(), waiting.used_of_last);
    Vertex* block = waiting.blocks.back();
    vertices.insert(vertices.end(), block + (waiting.used_of_last - count), block + waiting.used_of_last);
    waiting.used_of_last -= count;
    if (waiting.used_of_last == 0) {
      pool_.give_back(block);
      waiting.blocks.pop_back();
      waiting.used_of_last = BlockPool::block_vertices;
    }
  }
  if (waiting.blocks.empty()) {
    levels_.erase(lowest);
  }
  return level;
}

}  // namespace tiermap
