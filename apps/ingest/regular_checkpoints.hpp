// Checkpoints of a graph's heap while it grows.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "graph_heap/graph_containers.hpp"

namespace tiermap {

/// Puts edges into a graph, and takes a checkpoint each time so many more are in. Who inserts waits for that: nobody
/// may change a heap meanwhile. Thread-safe.
class RegularCheckpoints {
 public:
  /// `every`: 0 for never.
  RegularCheckpoints(GraphContainers& graph, std::uint64_t every) : graph_(graph), every_(every) {}

  void insert(std::span<const Edge> edges);

  std::uint64_t count() const noexcept { return count_; }
  double seconds() const noexcept { return seconds_; }

 private:
  GraphContainers& graph_;
  const std::uint64_t every_;
  std::atomic<std::uint64_t> inserted_{0};
  std::mutex gate_;  ///< Passed by who inserts, so that who takes a checkpoint is not overtaken for ever.
  std::shared_mutex inserting_;
  std::uint64_t count_ = 0;  ///< Guarded by inserting_, held alone, as the next.
  double seconds_ = 0;
};

}  // namespace tiermap
