#include "ycsb/ordered_index.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tiermap {
namespace {

/// The first key of the node that is not below `key`.
std::uint32_t position_of(const TreeNode& node, std::uint64_t key) {
  return static_cast<std::uint32_t>(std::lower_bound(node.keys, node.keys + node.count, key) - node.keys);
}

/// The child of an inner node to whose keys `key` belongs.
std::uint64_t child_for(const TreeNode& node, std::uint64_t key) {
  return node.values[std::upper_bound(node.keys + 1, node.keys + node.count, key) - node.keys - 1];
}

void insert_into(TreeNode& node, std::uint64_t key, std::uint64_t value) {
  // Never before an inner node's first child, whose keys may be below the key that stands beside it.
  const std::uint32_t position =
      node.level > 0 && node.count > 0 ? std::max(position_of(node, key), 1U) : position_of(node, key);
  std::copy_backward(node.keys + position, node.keys + node.count, node.keys + node.count + 1);
  std::copy_backward(node.values + position, node.values + node.count, node.values + node.count + 1);
  node.keys[position] = key;
  node.values[position] = static_cast<std::uint32_t>(value);
  ++node.count;
}

}  // namespace

void OrderedIndex::refuse(std::uint64_t node, const std::string& why) const {
  layout_.refuse_damage(fmt::format("node {} of partition {}'s ordered index {}", node, partition_, why));
}

std::uint64_t OrderedIndex::node_at(std::uint64_t node) const {
  if (node > state_.added_nodes || node >= layout_.nodes()) {
    refuse(node, "does not exist");
  }
  return layout_.node_at(partition_, node);
}

const TreeNode& OrderedIndex::node(const PoolTransaction& transaction, std::uint64_t number) const {
  const auto& found = transaction.view<TreeNode>(node_at(number));
  if (found.count > TreeNode::capacity || (found.level > 0 && found.count < 2)) {
    refuse(number, "has an impossible number of keys");
  }
  return found;
}

std::uint64_t OrderedIndex::allocate() const {
  ++state_.added_nodes;
  return state_.added_nodes;
}

OrderedIndex::Path OrderedIndex::path_to(const PoolTransaction& transaction, std::uint64_t key) const {
  Path path;
  std::uint64_t number = state_.root;
  const TreeNode* found = &node(transaction, number);
  if (found->level >= most_levels) {
    refuse(number, "has an impossible level");
  }
  path.nodes[path.length++] = number;
  while (found->level > 0) {
    const std::uint32_t level = found->level;
    number = child_for(*found, key);
    found = &node(transaction, number);
    if (found->level != level - 1) {
      refuse(number, "has an impossible level");
    }
    path.nodes[path.length++] = number;
  }
  return path;
}

std::optional<std::uint64_t> OrderedIndex::find(const PoolTransaction& transaction, std::uint64_t key) const {
  const Path path = path_to(transaction, key);
  const TreeNode& leaf = node(transaction, path.nodes[path.length - 1]);
  const std::uint32_t position = position_of(leaf, key);
  if (position == leaf.count || leaf.keys[position] != key) {
    return std::nullopt;
  }
  return leaf.values[position];
}

std::uint64_t OrderedIndex::split(PoolTransaction& transaction, TreeNode& full) const {
  const std::uint64_t number = allocate();
  auto& upper = transaction.edit<TreeNode>(node_at(number));
  constexpr std::uint32_t half = TreeNode::capacity / 2;
  std::copy(full.keys + half, full.keys + full.count, upper.keys);
  std::copy(full.values + half, full.values + full.count, upper.values);
  upper.count = full.count - half;
  upper.level = full.level;
  upper.next = full.next;
  full.count = half;
  if (full.level == 0) {
    full.next = static_cast<std::uint32_t>(number);
  }
  return number;
}

void OrderedIndex::insert(PoolTransaction& transaction, std::uint64_t key, std::uint64_t record) const {
  const Path path = path_to(transaction, key);
  std::uint64_t value = record;
  for (std::uint32_t depth = path.length; depth-- > 0;) {
    auto& lower = transaction.edit<TreeNode>(node_at(path.nodes[depth]));
    if (lower.count < TreeNode::capacity) {
      insert_into(lower, key, value);
      return;
    }
    const std::uint64_t number = split(transaction, lower);
    auto& upper = transaction.edit<TreeNode>(node_at(number));
    insert_into(key < upper.keys[0] ? lower : upper, key, value);
    // What goes to the level above.
    key = upper.keys[0];
    value = number;
  }
  const std::uint64_t number = allocate();
  auto& root = transaction.edit<TreeNode>(node_at(number));
  root.level = path.length;
  insert_into(root, transaction.view<TreeNode>(node_at(state_.root)).keys[0], state_.root);
  insert_into(root, key, value);
  state_.root = number;
}

void OrderedIndex::for_each_from(const PoolTransaction& transaction, std::uint64_t key,
                                 const std::function<bool(std::uint64_t key, std::uint64_t record)>& visit) const {
  const Path path = path_to(transaction, key);
  std::uint64_t number = path.nodes[path.length - 1];
  std::uint32_t position = position_of(node(transaction, number), key);
  // No more leaves than there are nodes: a damaged chain may be a circle.
  for (std::uint64_t leaves = 0; leaves <= state_.added_nodes; ++leaves) {
    const TreeNode& leaf = node(transaction, number);
    for (; position < leaf.count; ++position) {
      if (!visit(leaf.keys[position], leaf.values[position])) {
        return;
      }
    }
    if (leaf.next == 0) {
      return;
    }
    number = leaf.next;
    position = 0;
  }
  refuse(number, "is in a circle");
}

}  // namespace tiermap
