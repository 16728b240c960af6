// Whether a search tree is right: the five rules of Graph500, and a plain search in memory to compare with.
//
// 1. The tree has no cycle and every vertex of it leads to the root.
// 2. Every edge of the tree joins two levels that follow each other.
// 3. Every edge of the graph joins levels that differ by at most one (from the source at most one down, if directed).
// 4. The tree spans the whole component of the root: no edge leads out of it.
// 5. Every edge of the tree is an edge of the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bfs/csr_file.hpp"
#include "bfs/traversal.hpp"
#include "edges/edge_source.hpp"

namespace tiermap {

inline constexpr std::uint32_t unreached = ~std::uint32_t{0};

/// The level of every vertex, from its parents alone; `unreached` where there is none. Nothing in `levels`, and one
/// line in `failure`, if rule 1 is broken.
struct TreeLevels {
  std::vector<std::uint32_t> levels;
  std::string failure;
};
TreeLevels levels_of_tree(std::span<const Vertex> parents, Vertex root);

/// Hands the whole graph over as pieces of one vertex's neighbours, (source, targets), from several threads.
using ArcSink = std::function<void(Vertex, std::span<const Vertex>)>;
using ArcWalk = std::function<void(const ArcSink&)>;

/// Walks a graph file by reading its store in large pieces, past the mapping that was used to search it.
ArcWalk walk_store(Store& store, const CsrHeader& header, ThreadTeam& team);

/// What the walk over all arcs tells of a tree.
struct TreeCheck {
  std::string failure;             ///< Empty if all five rules hold, else one line.
  std::uint64_t arcs_reached = 0;  ///< Arcs whose source was reached.
};
/// Takes tree_check_bytes() of memory beside the tree.
TreeCheck check_tree(const Traversal& traversal, Vertex root, bool undirected, const ArcWalk& walk);
std::uint64_t tree_check_bytes(std::uint64_t vertices) noexcept;

/// The levels that a queue finds, over plain vectors of neighbours, one thread: nothing shared with traverse().
std::vector<std::uint32_t> reference_levels(const std::vector<std::vector<Vertex>>& neighbours, Vertex root);
/// The vectors it goes over, from the edges the graph was made of, or from the graph.
std::vector<std::vector<Vertex>> neighbours_of(const EdgeSource& source, bool undirected);
std::vector<std::vector<Vertex>> neighbours_of(std::uint64_t vertices, const ArcWalk& walk);
/// The most memory that those vectors take, and levels_of_tree() and reference_levels() beside them.
std::uint64_t reference_bytes(std::uint64_t vertices, std::uint64_t arcs) noexcept;

}  // namespace tiermap
