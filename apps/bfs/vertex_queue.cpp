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
  waiting.begun.push_back(vertex);
  if (waiting.begun.size() == BlockPool::block_vertices) {
    Vertex* block = pool_.take();
    std::ranges::copy(waiting.begun, block);
    waiting.full.push_back(block);
    waiting.begun.clear();
  }
}

std::uint32_t VertexQueue::pop(std::vector<Vertex>& vertices, std::size_t most) {
  const auto lowest = levels_.begin();
  const std::uint32_t level = lowest->first;
  Level& waiting = lowest->second;
  vertices.clear();
  while (vertices.size() < most && !(waiting.begun.empty() && waiting.full.empty())) {
    if (waiting.begun.empty()) {
      Vertex* block = waiting.full.back();
      waiting.begun.assign(block, block + BlockPool::block_vertices);
      pool_.give_back(block);
      waiting.full.pop_back();
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(most - vertices.size(), waiting.begun.size()));
    vertices.insert(vertices.end(), waiting.begun.end() - count, waiting.begun.end());
    waiting.begun.erase(waiting.begun.end() - count, waiting.begun.end());
  }
  if (waiting.begun.empty() && waiting.full.empty()) {
    levels_.erase(lowest);
  }
  return level;
}

}  // namespace tiermap
