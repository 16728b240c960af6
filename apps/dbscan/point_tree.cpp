#include "dbscan/point_tree.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "points/row_partition.hpp"

namespace tiermap {
namespace {

constexpr std::uint32_t most_sampled = 255;
/// So many nodes for each thread, so that none waits long for another.
constexpr std::uint64_t parts_a_thread = 16;

double difference(float one, float other) noexcept {
  return static_cast<double>(one) - static_cast<double>(other);
}

}  // namespace

PointTree::PointTree(const TreePlan& plan, MappedBytes& rows, MappedBytes& nodes, bool hints)
    : plan_(plan),
      rows_(rows),
      nodes_(nodes),
      hints_(hints),
      squared_reach_(plan.reach * plan.reach),
      row_bytes_(row_bytes(plan.dimensions)),
      node_bytes_(node_bytes(plan.dimensions)) {}

void PointTree::set_row(std::uint32_t row, const float* coordinates, std::uint32_t point) {
  std::memcpy(row_at(row), coordinates, plan_.dimensions * sizeof(float));
  std::memcpy(row_at(row) + plan_.dimensions * sizeof(float), &point, sizeof(point));
}

void PointTree::build(ThreadTeam& team, ProgressDisplay& progress) {
  progress.restart("splitting", plan_.points);
  find_root_box(team);
  parts_ = {0};
  bool more = true;
  while (more && parts_.size() < parts_a_thread * team.size()) {
    std::vector<std::uint8_t> was_split(parts_.size());
    team.for_each(parts_.size(), [&](std::uint64_t part) { was_split[part] = split(parts_[part]) ? 1 : 0; });
    std::vector<std::uint32_t> next;
    more = false;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (was_split[part] == 0) {
        next.push_back(parts_[part]);
        continue;
      }
      more = true;
      next.insert(next.end(), node(parts_[part]).children, node(parts_[part]).children + 2);
    }
    parts_ = std::move(next);
  }
  team.for_each(parts_.size(), [&](std::uint64_t part) { grow(parts_[part], progress); });
}

void PointTree::find_root_box(ThreadTeam& team) {
  TreeNode& root = node(0);
  root = {0, plan_.points, {0, 0}};
  clear_box(root);
  std::mutex mutex;
  team.run([&](std::uint32_t thread) {
    std::vector<std::byte> memory(node_bytes_);
    TreeNode& mine = *new (memory.data()) TreeNode{};
    clear_box(mine);
    const std::uint64_t begin = std::uint64_t{plan_.points} * thread / team.size();
    const std::uint64_t end = std::uint64_t{plan_.points} * (thread + 1) / team.size();
    for (std::uint64_t row = begin; row < end; ++row) {
      widen_box(mine, coordinates(static_cast<std::uint32_t>(row)));
    }
    const std::lock_guard lock(mutex);
    for (std::uint32_t axis = 0; axis < plan_.dimensions; ++axis) {
      float* const box = lowest(root);
      box[axis] = std::min(box[axis], lowest(mine)[axis]);
      box[plan_.dimensions + axis] = std::max(box[plan_.dimensions + axis], highest(mine)[axis]);
    }
  });
}

void PointTree::grow(std::uint32_t index, ProgressDisplay& progress) {
  if (!split(index)) {
    progress.add(node(index).count);
    return;
  }
  grow(node(index).children[0], progress);
  grow(node(index).children[1], progress);
}

// Each node is split by one thread, and read by others only when the tree is whole.
bool PointTree::split(std::uint32_t index) {
  TreeNode& whole = node(index);
  if (whole.count < plan_.least_to_split || compact(whole)) {
    return false;
  }
  const std::uint32_t left = used_nodes_.fetch_add(2);
  if (left + 2 > node_capacity(plan_)) {
    used_nodes_.fetch_sub(2);
    return false;  // A leaf of more points takes longer, and is as right.
  }
  const std::uint32_t axis = longest_axis(whole);
  TreeNode& below = node(left);
  TreeNode& above = node(left + 1);
  const std::uint32_t end = whole.first + whole.count;
  const std::uint32_t middle = partition(whole, axis, pivot_of(whole, axis), below, above);
  below.first = whole.first;
  below.count = middle - whole.first;
  above.first = middle;
  above.count = end - middle;
  whole.children[0] = left;
  whole.children[1] = left + 1;
  return true;
}

// As µDBSCAN does: the median of a sample. Where that is the lowest of all coordinates, which nothing is below, half
// way to the highest: a piece at a time of what is above would never end. There are points on both sides in any case.
float PointTree::pivot_of(const TreeNode& node, std::uint32_t axis) const {
  std::array<float, most_sampled> sample{};
  const std::uint32_t count = std::min(node.count, most_sampled);
  for (std::uint32_t index = 0; index < count; ++index) {
    sample[index] =
        coordinates(node.first + static_cast<std::uint32_t>(std::uint64_t{node.count} * index / count))[axis];
  }
  const auto middle = sample.begin() + count / 2;
  std::nth_element(sample.begin(), middle, sample.begin() + count);
  const float low = lowest(node)[axis];
  const float high = highest(node)[axis];
  const float half_way = low / 2 + high / 2;
  return *middle > low ? *middle : half_way > low && half_way < high ? half_way : high;
}

std::uint32_t PointTree::partition(const TreeNode& node, std::uint32_t axis, float pivot, TreeNode& left,
                                   TreeNode& right) {
  left.children[0] = left.children[1] = right.children[0] = right.children[1] = 0;
  clear_box(left);
  clear_box(right);
  const auto place = [](const std::byte* row) { return reinterpret_cast<const float*>(row); };
  const std::uint64_t below = partition_rows(
      {rows_, row_bytes_, hints_}, node.first, node.count,
      [&](const std::byte* row) { return place(row)[axis] < pivot; },
      [&](const std::byte* row) { widen_box(left, place(row)); },
      [&](const std::byte* row) { widen_box(right, place(row)); });
  return node.first + static_cast<std::uint32_t>(below);
}

std::uint32_t PointTree::longest_axis(const TreeNode& node) const noexcept {
  std::uint32_t longest = 0;
  double length = -1;
  for (std::uint32_t axis = 0; axis < plan_.dimensions; ++axis) {
    const double side = difference(highest(node)[axis], lowest(node)[axis]);
    if (side > length) {
      length = side;
      longest = axis;
    }
  }
  return longest;
}

void PointTree::clear_box(TreeNode& node) const noexcept {
  std::fill_n(lowest(node), plan_.dimensions, std::numeric_limits<float>::infinity());
  std::fill_n(lowest(node) + plan_.dimensions, plan_.dimensions, -std::numeric_limits<float>::infinity());
}

void PointTree::widen_box(TreeNode& node, const float* point) const noexcept {
  float* const low = lowest(node);
  float* const high = low + plan_.dimensions;
  for (std::uint32_t axis = 0; axis < plan_.dimensions; ++axis) {
    low[axis] = std::min(low[axis], point[axis]);
    high[axis] = std::max(high[axis], point[axis]);
  }
}

bool PointTree::compact(const TreeNode& node) const noexcept {
  double squared = 0;
  for (std::uint32_t axis = 0; axis < plan_.dimensions; ++axis) {
    const double side = difference(highest(node)[axis], lowest(node)[axis]);
    squared += side * side;
  }
  return squared <= squared_reach_;
}

bool PointTree::within_reach(const float* one, const float* other) const noexcept {
  double squared = 0;
  for (std::uint32_t axis = 0; axis < plan_.dimensions; ++axis) {
    const double away = difference(one[axis], other[axis]);
    squared += away * away;
  }
  return squared <= squared_reach_;
}

bool PointTree::may_reach(const float* point, const TreeNode& node) const noexcept {
  return span_of(point, node).nearest <= squared_reach_;
}

PointTree::Span PointTree::span_of(const float* point, const TreeNode& node) const noexcept {
  const float* const low = lowest(node);
  const float* const high = highest(node);
  Span span{0, 0};
  for (std::uint32_t axis = 0; axis < plan_.dimensions; ++axis) {
    const double below = difference(low[axis], point[axis]);
    const double above = difference(point[axis], high[axis]);
    const double near = std::max({below, above, 0.0});
    const double far = std::max(-below, -above);
    span.nearest += near * near;
    span.farthest += far * far;
  }
  return span;
}

double PointTree::nearest_squared(const TreeNode& one, const TreeNode& other) const noexcept {
  double squared = 0;
  for (std::uint32_t axis = 0; axis < plan_.dimensions; ++axis) {
    const double gap = std::max({difference(lowest(one)[axis], highest(other)[axis]),
                                 difference(lowest(other)[axis], highest(one)[axis]), 0.0});
    squared += gap * gap;
  }
  return squared;
}

}  // namespace tiermap
