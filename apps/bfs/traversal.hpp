// Breadth-first search of a graph that may be larger than memory: what belongs to a vertex is in memory (parent, and a
// bit in each frontier), what belongs to an edge is where the memory system keeps it.
//
// Frontiers are bitmaps and are gone through in vertex order, so that every level reads the file in address order; and
// because the next vertices are known, the program can say well ahead which ranges it will read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bfs/csr_file.hpp"
#include "bfs/heap_graph.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

enum class Direction : std::uint8_t {
  top_down,   ///< Every vertex of the frontier looks at all its neighbours.
  bottom_up,  ///< Every vertex not yet reached looks for a neighbour in the frontier. Undirected graphs only.
  automatic,  ///< Bottom-up while the frontier has many neighbours (Beamer's rule), else top-down.
};

struct TraversalOptions {
  Direction direction = Direction::top_down;
  bool alternate =
      true;  ///< Go through every other level from the end: what was read last is in memory, and is read first.
  std::uint64_t lookahead_bytes = 0;            ///< How much is asked for ahead of the reading; 0 for nothing.
  std::uint64_t page_size_bytes = 4096;         ///< In what unit it comes, so that it can be counted.
  std::function<void(std::uint64_t)> progress;  ///< Told how many arcs have been looked at; may be empty.
};

struct Traversal {
  std::span<const Vertex> parents;          ///< The root is its own parent; no_vertex for what was not reached.
  std::vector<std::uint64_t> level_counts;  ///< How many vertices were reached at each level; the root alone at 0.
  /// How long each level took to be looked at, the last and empty step included. Empty if levels are not in step.
  std::vector<double> level_seconds;
  std::uint64_t arcs_looked_at = 0;
};

/// Searches from `root` and puts the tree into `parents`, one for each vertex. Throws StoreError if the graph is
/// damaged.
Traversal traverse(const CsrGraph& graph, Vertex root, ThreadTeam& team, const TraversalOptions& options,
                   std::span<Vertex> parents);
/// The same where the graph lies in a heap: nothing is asked for ahead of the reading.
Traversal traverse(const HeapGraph& graph, Vertex root, ThreadTeam& team, const TraversalOptions& options,
                   std::span<Vertex> parents);

/// How many arcs leave the vertices that a search reached: of an undirected graph, twice the edges.
template <typename Graph>
std::uint64_t arcs_reached_by(const Graph& graph, const Traversal& traversal, ThreadTeam& team) {
  constexpr std::uint64_t group = 1U << 16U;
  std::atomic<std::uint64_t> arcs{0};
  team.for_each((graph.vertices() + group - 1) / group, [&](std::uint64_t index) {
    std::uint64_t sum = 0;
    const std::uint64_t end = std::min(graph.vertices(), (index + 1) * group);
    for (std::uint64_t vertex = index * group; vertex < end; ++vertex) {
      if (traversal.parents[vertex] != no_vertex) {
        const auto [begin_arc, end_arc] = graph.arcs_of(vertex);
        sum += end_arc - begin_arc;
      }
    }
    arcs += sum;
  });
  return arcs;
}

/// Memory that traverse() takes beside the graph.
std::uint64_t traversal_state_bytes(std::uint64_t vertices) noexcept;

}  // namespace tiermap
