// A k-d tree of points that lie on a store: its leaves are the micro-clusters of µDBSCAN (Sarma and others, IEEE
// Cluster 2019), groups of points so near to each other that they need not be told apart, as far as there are enough.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "command_line/memory_system.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

inline constexpr std::uint32_t most_tree_dimensions = 64;

/// A part of the box that the points lie in, and the rows of the points in it, which are side by side. Behind it lie
/// the lowest coordinate of its points in each dimension, and the highest.
struct TreeNode {
  std::uint32_t first;
  std::uint32_t count;
  std::uint32_t children[2];  ///< 0: a leaf.
};

/// What a tree is made for: to find what is no farther than `reach` from a point.
struct TreePlan {
  std::uint32_t points = 0;
  std::uint32_t dimensions = 0;
  double reach = 0;
  /// Fewer points are a leaf, however far apart.
  std::uint32_t least_to_split = 0;
};

/// Rows are the points' coordinates, and which point it is. Building moves rows about until those of each node are side
/// by side; from then on the tree is only read, by any number of threads.
///
/// All distances are computed in double, of a dimension after the other: what a box says of its points holds for each
/// of them to the last bit.
class PointTree {
 public:
  static std::uint64_t row_bytes(std::uint32_t dimensions) { return (dimensions + 1) * sizeof(float); }
  static std::uint64_t rows_bytes(const TreePlan& plan) { return plan.points * row_bytes(plan.dimensions); }
  static std::uint64_t nodes_bytes(const TreePlan& plan) { return node_capacity(plan) * node_bytes(plan.dimensions); }

  /// `rows` and `nodes` have room for rows_bytes() and nodes_bytes().
  PointTree(const TreePlan& plan, MappedBytes& rows, MappedBytes& nodes, bool hints);

  /// Puts a point into a row; all of them, before build().
  void set_row(std::uint32_t row, const float* coordinates, std::uint32_t point);
  void build(ThreadTeam& team, ProgressDisplay& progress);

  const TreePlan& plan() const noexcept { return plan_; }
  const float* coordinates(std::uint32_t row) const noexcept { return reinterpret_cast<const float*>(row_at(row)); }
  std::uint32_t point(std::uint32_t row) const noexcept {
    std::uint32_t number = 0;
    std::memcpy(&number, row_at(row) + plan_.dimensions * sizeof(float), sizeof(number));
    return number;
  }

  /// Calls use(leaf) with every leaf, by all threads; neighbours mostly by one.
  template <typename Use>
  void for_each_leaf(ThreadTeam& team, const Use& use) const {
    team.for_each(parts_.size(), [&](std::uint64_t part) { visit_leaves(parts_[part], use); });
  }
  std::uint64_t leaves() const noexcept { return (used_nodes_ + 1) / 2; }

  /// Whether all its points are within reach of each other.
  bool compact(const TreeNode& node) const noexcept;
  /// Whether two points are within reach of each other, or some point of the node may be within reach of `point`.
  bool within_reach(const float* one, const float* other) const noexcept;
  bool may_reach(const float* point, const TreeNode& node) const noexcept;

  /// Calls use(first row, count, all) with rows that lie around a point: with `all` each of them is within reach,
  /// without it some may be. Ends as soon as use() returns true.
  template <typename Use>
  bool visit_near(const float* point, const Use& use, std::uint32_t from = 0) const {
    const TreeNode& here = node(from);
    const Span span = span_of(point, here);
    if (span.nearest > squared_reach_) {
      return false;
    }
    if (span.farthest <= squared_reach_) {
      return use(here.first, here.count, true);
    }
    if (here.children[0] == 0) {
      return use(here.first, here.count, false);
    }
    return visit_near(point, use, here.children[0]) || visit_near(point, use, here.children[1]);
  }
  /// Calls use(leaf) with the leaves behind `of`, in the order of rows, that may have points within reach of its own.
  template <typename Use>
  void visit_leaves_near(const TreeNode& of, const Use& use) const {
    visit_leaves_beyond(of.first + of.count, of, use, 0);
  }
  /// The same with all leaves, where `of` is one of another tree.
  template <typename Use>
  void visit_all_leaves_near(const TreeNode& of, const Use& use) const {
    visit_leaves_beyond(0, of, use, 0);
  }

 private:
  /// Squares of how far the nearest and the farthest corner of a box are from a point.
  struct Span {
    double nearest;
    double farthest;
  };

  static std::uint64_t node_bytes(std::uint32_t dimensions) {
    return sizeof(TreeNode) + 2 * dimensions * sizeof(float);
  }
  /// Halves of what is split are seldom less than a quarter of it.
  static std::uint64_t node_capacity(const TreePlan& plan) {
    return 64 + 8 * (std::uint64_t{plan.points} / plan.least_to_split);
  }

  const std::byte* row_at(std::uint32_t row) const noexcept { return rows_.data() + row * row_bytes_; }
  std::byte* row_at(std::uint32_t row) noexcept { return rows_.data() + row * row_bytes_; }
  const TreeNode& node(std::uint32_t index) const noexcept {
    return *reinterpret_cast<const TreeNode*>(nodes_.data() + index * node_bytes_);
  }
  TreeNode& node(std::uint32_t index) noexcept { return const_cast<TreeNode&>(std::as_const(*this).node(index)); }
  static const float* lowest(const TreeNode& node) noexcept { return reinterpret_cast<const float*>(&node + 1); }
  static float* lowest(TreeNode& node) noexcept { return reinterpret_cast<float*>(&node + 1); }
  const float* highest(const TreeNode& node) const noexcept { return lowest(node) + plan_.dimensions; }

  Span span_of(const float* point, const TreeNode& node) const noexcept;
  double nearest_squared(const TreeNode& one, const TreeNode& other) const noexcept;
  void clear_box(TreeNode& node) const noexcept;
  void widen_box(TreeNode& node, const float* point) const noexcept;
  bool split(std::uint32_t index);
  void grow(std::uint32_t index, ProgressDisplay& progress);
  std::uint32_t longest_axis(const TreeNode& node) const noexcept;
  float pivot_of(const TreeNode& node, std::uint32_t axis) const;
  std::uint32_t partition(const TreeNode& node, std::uint32_t axis, float pivot, TreeNode& left, TreeNode& right);
  void find_root_box(ThreadTeam& team);

  /// Those whose rows do not all come before `row`.
  template <typename Use>
  void visit_leaves_beyond(std::uint32_t row, const TreeNode& of, const Use& use, std::uint32_t from) const {
    const TreeNode& here = node(from);
    if (here.first + here.count <= row || nearest_squared(of, here) > squared_reach_) {
      return;
    }
    if (here.children[0] == 0) {
      use(here);
      return;
    }
    visit_leaves_beyond(row, of, use, here.children[0]);
    visit_leaves_beyond(row, of, use, here.children[1]);
  }

  template <typename Use>
  void visit_leaves(std::uint32_t from, const Use& use) const {
    const TreeNode& here = node(from);
    if (here.children[0] == 0) {
      use(here);
      return;
    }
    visit_leaves(here.children[0], use);
    visit_leaves(here.children[1], use);
  }

  const TreePlan plan_;
  MappedBytes& rows_;
  MappedBytes& nodes_;
  const bool hints_;
  const double squared_reach_;
  const std::uint64_t row_bytes_;
  const std::uint64_t node_bytes_;
  std::atomic<std::uint32_t> used_nodes_{1};
  std::vector<std::uint32_t>
      parts_;  ///< Nodes that have all rows together, in their order: the work is shared by them.
};

}  // namespace tiermap
