// Breadth-first search of a graph that may be larger than memory: what belongs to a vertex is in memory (parent, and a
// bit in each frontier), what belongs to an edge is where the memory system keeps it.
//
// Frontiers are bitmaps and are gone through in vertex order, so that every level reads the file in address order; and
// because the next vertices are known, the program can say well ahead which ranges it will read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bfs/csr_file.hpp"
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

/// Memory that traverse() takes beside the graph.
std::uint64_t traversal_state_bytes(std::uint64_t vertices) noexcept;

}  // namespace tiermap
