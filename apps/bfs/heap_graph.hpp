// The graph that `tiermap-ingest --heap` has made, searched where it lies. Its edges go one way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "graph_heap/graph_containers.hpp"

namespace tiermap {

/// As CsrGraph, as far as a search needs it. Thread-safe.
class HeapGraph {
 public:
  /// `name` is what messages call the heap.
  HeapGraph(const GraphContainers& containers, const GraphCounts& counts, std::string name)
      : containers_(containers), counts_(counts), name_(std::move(name)) {}

  std::uint64_t vertices() const noexcept { return counts_.vertices; }
  std::uint64_t arcs() const noexcept { return counts_.edges; }
  /// Counted from the list's own beginning.
  std::pair<std::uint64_t, std::uint64_t> arcs_of(std::uint64_t vertex) const { return {0, neighbours(vertex).size()}; }
  std::span<const Vertex> neighbours(std::uint64_t vertex) const {
    return containers_.neighbours(static_cast<Vertex>(vertex));
  }

  /// Throws StoreError: the heap names a neighbour that does not exist.
  [[noreturn]] void refuse(std::uint64_t vertex) const;

 private:
  const GraphContainers& containers_;
  GraphCounts counts_;
  std::string name_;
};

}  // namespace tiermap
