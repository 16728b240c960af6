// Each of Graph500's five rules is broken once, and is named. And the generator: the probabilities and the permutation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bfs/memory_need.hpp"
#include "bfs/tree_check.hpp"
#include "edges/edge_source.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap::test {
namespace {

using Neighbours = std::vector<std::vector<Vertex>>;

/// 0 - 1 - 2 - 3 - 4, 0 - 5 - 2, and 6 - 7 apart.
Neighbours small_graph() {
  return {{1, 5}, {0, 2}, {1, 3, 5}, {2, 4}, {3}, {0, 2}, {7}, {6}};
}

ArcWalk walk(const Neighbours& neighbours) {
  return [&neighbours](const ArcSink& sink) {
    for (Vertex vertex = 0; vertex < neighbours.size(); ++vertex) {
      sink(vertex, neighbours[vertex]);
    }
  };
}

/// A search's result that owns its parents.
struct Tree {
  std::vector<Vertex> parents;
  std::vector<std::uint64_t> level_counts;

  Traversal traversal() const { return {.parents = parents, .level_counts = level_counts, .level_seconds = {}}; }
};

Tree right_tree() {
  Tree tree;
  tree.parents = {0, 0, 1, 2, 3, 0, no_vertex, no_vertex};
  tree.level_counts = {1, 2, 1, 1, 1};
  return tree;
}

std::string failure_of(const Tree& tree, const Neighbours& neighbours = small_graph(), bool undirected = true) {
  return check_tree(tree.traversal(), 0, undirected, walk(neighbours)).failure;
}

TEST(TreeCheck, AcceptsARightTree) {
  const Neighbours neighbours = small_graph();
  const Tree tree = right_tree();
  const TreeCheck check = check_tree(tree.traversal(), 0, true, walk(neighbours));
  EXPECT_EQ(check.failure, "");
  EXPECT_EQ(check.arcs_reached, 12U);
  Tree other = right_tree();
  other.parents[2] = 5;  // Another parent of the same level is as right.
  EXPECT_EQ(failure_of(other), "");
}

TEST(TreeCheck, Rule1SeesCyclesAndLooseEnds) {
  Tree cycle = right_tree();
  cycle.parents[3] = 4;
  EXPECT_NE(failure_of(cycle).find("rule 1"), std::string::npos);
  Tree loose = right_tree();
  loose.parents[1] = 6;
  EXPECT_NE(failure_of(loose).find("rule 1"), std::string::npos);
  Tree own_parent = right_tree();
  own_parent.parents[4] = 4;
  EXPECT_NE(failure_of(own_parent).find("rule 1"), std::string::npos);
  Tree outside = right_tree();
  outside.parents[4] = 99;
  EXPECT_NE(failure_of(outside).find("does not exist"), std::string::npos);
  Tree no_root = right_tree();
  no_root.parents[0] = no_vertex;
  EXPECT_NE(failure_of(no_root).find("rule 1"), std::string::npos);
}

TEST(TreeCheck, Rule2SeesLevelsThatTheSearchDidNotHave) {
  Tree tree = right_tree();
  tree.level_counts = {1, 3, 1, 1};
  EXPECT_NE(failure_of(tree).find("rule 2"), std::string::npos);
  tree.level_counts = {1, 2, 2, 0, 1};
  EXPECT_NE(failure_of(tree).find("rule 2"), std::string::npos);
}

TEST(TreeCheck, Rule3SeesAWayThatIsTooLong) {
  // 0 - 1 - 2 - 3, and 3 next to the root although the tree has it at level 3.
  const Neighbours neighbours = {{1, 3}, {0, 2}, {1, 3}, {2, 0}};
  Tree tree;
  tree.parents = {0, 0, 1, 2};
  tree.level_counts = {1, 1, 1, 1};
  EXPECT_NE(failure_of(tree, neighbours).find("rule 3"), std::string::npos);
  // One way only, an edge may lead any way back up.
  EXPECT_EQ(failure_of(tree, {{1}, {2}, {3}, {0}}, false), "");
  EXPECT_NE(failure_of(tree, {{1, 3}, {2}, {3}, {0}}, false).find("rule 3"), std::string::npos);
}

TEST(TreeCheck, Rule4SeesWhatWasLeftOut) {
  Tree tree = right_tree();
  tree.parents[4] = no_vertex;
  tree.level_counts = {1, 2, 1, 1};
  EXPECT_NE(failure_of(tree).find("rule 4"), std::string::npos);
}

TEST(TreeCheck, Rule5SeesAnInventedEdge) {
  Tree tree = right_tree();
  tree.parents[6] = 4;
  tree.parents[7] = 6;
  tree.level_counts = {1, 2, 1, 1, 1, 1, 1};
  EXPECT_EQ(failure_of(tree), "rule 5: no edge joins vertex 6 and its parent 4");
}

TEST(TreeCheck, SeesAGraphThatNamesWhatIsNotThere) {
  Neighbours neighbours = small_graph();
  neighbours[4].push_back(99);
  EXPECT_NE(failure_of(right_tree(), neighbours).find("does not exist"), std::string::npos);
}

TEST(ReferenceSearch, FindsTheLevels) {
  EXPECT_EQ(reference_levels(small_graph(), 0), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 1, unreached, unreached}));
  EXPECT_EQ(reference_levels(small_graph(), 6),
            (std::vector<std::uint32_t>{unreached, unreached, unreached, unreached, unreached, unreached, 0, 1}));
}

TEST(MemoryNeed, CountsTheSearchOrTheCheckWhicheverIsMore) {
  EXPECT_EQ(bytes_beside_pages({.vertices = 6400, .search = {.vertices = 6400}}, false), 6400U * 17 / 4);
  EXPECT_EQ(bytes_beside_pages({.vertices = 6400, .search = {.vertices = 6400}}, true), 6400U * 65 / 8);
  const MemoryNeed reference = {.vertices = 6400, .arcs = 100, .check_in_memory = true, .search = {.vertices = 6400}};
  EXPECT_EQ(bytes_beside_pages(reference, true), 6400U * (65 + 36 * 8) / 8 + 100 * 40);
}

TEST(LevelsOfTree, AreThoseOfItsParents) {
  EXPECT_EQ(levels_of_tree(right_tree().parents, 0).levels, reference_levels(small_graph(), 0));
}

/// The graph's edges in the order of their numbers.
std::vector<Edge> edges_of(const EdgeSource& source, std::uint32_t threads) {
  std::vector<Edge> edges(source.edges());
  ThreadTeam team(threads);
  source.for_each_piece(team, [&](std::uint64_t first, std::span<const Edge> piece) {
    for (std::size_t index = 0; index < piece.size(); ++index) {
      edges[first + index] = piece[index];
    }
  });
  return edges;
}

TEST(Rmat, DependsOnNothingButItsSeed) {
  const auto source = make_rmat_source(15, 16, 3);
  const std::vector<Edge> once = edges_of(*source, 1);
  const std::vector<Edge> again = edges_of(*source, 6);
  const std::vector<Edge> other = edges_of(*make_rmat_source(15, 16, 4), 1);
  std::size_t differing = 0;
  for (std::size_t index = 0; index < once.size(); ++index) {
    ASSERT_EQ(once[index].source, again[index].source);
    ASSERT_EQ(once[index].target, again[index].target);
    differing += static_cast<std::size_t>(once[index].source != other[index].source);
  }
  EXPECT_GT(differing, once.size() / 2);
}

TEST(Rmat, HasGraph500sDegrees) {
  // The most likely vertex is the source of an edge with probability (A + B)^scale, and any vertex with k ones among
  // its bits with (A + B)^(scale - k) (C + D)^k: the permutation renames vertices and keeps the sizes.
  constexpr std::uint32_t scale = 10;
  constexpr std::uint64_t factor = 512;
  const auto source = make_rmat_source(scale, factor, 1);
  std::vector<std::uint64_t> out(source->vertices());
  std::vector<std::uint64_t> in(source->vertices());
  for (const Edge& edge : edges_of(*source, 2)) {
    ++out[edge.source];
    ++in[edge.target];
  }
  for (const std::vector<std::uint64_t>& degrees : {out, in}) {
    std::vector<std::uint64_t> sorted = degrees;
    std::sort(sorted.rbegin(), sorted.rend());
    const double edges = static_cast<double>(source->edges());
    const double largest = edges * std::pow(0.76, scale);
    const double second = edges * std::pow(0.76, scale - 1) * 0.24;
    EXPECT_NEAR(static_cast<double>(sorted[0]), largest, largest * 0.05);
    for (std::size_t rank = 1; rank <= scale; ++rank) {
      EXPECT_NEAR(static_cast<double>(sorted[rank]), second, second * 0.1);
    }
  }
}

TEST(Rmat, RenamesEveryVertexToAnother) {
  // With enough edges every vertex of a small graph appears, so names are neither lost nor shared.
  for (const std::uint32_t scale : {1U, 2U, 3U, 5U}) {
    const auto source = make_rmat_source(scale, 4096, 9);
    std::vector<bool> seen(source->vertices());
    for (const Edge& edge : edges_of(*source, 1)) {
      ASSERT_LT(edge.source, source->vertices());
      ASSERT_LT(edge.target, source->vertices());
      seen[edge.source] = true;
      seen[edge.target] = true;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<std::ptrdiff_t>(source->vertices()));
  }
}

}  // namespace
}  // namespace tiermap::test
