// A graph in containers, wherever these live: in a persistent heap, or in the memory that malloc gives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "command_line/memory_system.hpp"
#include "graph_heap/adjacency_banks.hpp"
#include "tiermap/heap.hpp"

namespace tiermap {

/// What the stream was, for who compares it with another.
struct GraphCounts {
  std::uint64_t vertices = 0;
  std::uint64_t edges = 0;
};

class GraphContainers {
 public:
  virtual ~GraphContainers() = default;
  GraphContainers(const GraphContainers&) = delete;
  GraphContainers& operator=(const GraphContainers&) = delete;

  /// Thread-safe.
  virtual void insert(std::span<const Edge> edges) = 0;
  /// Not while others insert; otherwise thread-safe.
  virtual std::span<const Vertex> neighbours(Vertex vertex) const = 0;
  virtual AskedBytes asked() const = 0;
  /// Of a heap; all zero in plain memory.
  virtual HeapStatistics statistics() const { return {}; }
  /// Of a heap, as Heap::checkpoint(). Not while others insert.
  virtual void checkpoint() {}
  /// Makes all of it durable, and a heap that can be opened again, which `counts` belong to.
  virtual void close(const GraphCounts& counts) = 0;

 protected:
  GraphContainers() = default;
};

struct GraphHeapOptions {
  std::uint64_t capacity_bytes = 0;
  bool checkpoints = true;
};

/// In a new heap at `path`, by the pages of `system`: its own, or the kernel's. Throws as Heap::create().
std::unique_ptr<GraphContainers> make_graph_heap(const std::string& path, MemorySystem& system,
                                                 const WorkloadOptions& options, const GraphHeapOptions& heap);
/// One that is there, for reading. Throws StoreError also for a heap that holds no graph.
std::unique_ptr<GraphContainers> open_graph_heap(const std::string& path, MemorySystem& system,
                                                 const WorkloadOptions& options, GraphCounts& counts);
/// In plain memory.
std::unique_ptr<GraphContainers> make_graph_in_memory();

}  // namespace tiermap
