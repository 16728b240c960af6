// The ordered index of a partition: a B+tree whose nodes are pages of 4 KiB.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ycsb/pool_layout.hpp"
#include "ycsb/pool_transaction.hpp"

namespace tiermap {

/// Throws StoreError if what the pool holds cannot be: every number that comes from a node is checked before it is
/// used.
class OrderedIndex {
 public:
  OrderedIndex(const PoolLayout& layout, std::uint32_t partition, PartitionState& state) noexcept
      : layout_(layout), partition_(partition), state_(state) {}

  /// The number of the key's record.
  std::optional<std::uint64_t> find(const PoolTransaction& transaction, std::uint64_t key) const;
  /// The key is not there yet. Splits nodes that are full; `state` then has the new nodes, and a new root.
  void insert(PoolTransaction& transaction, std::uint64_t key, std::uint64_t record) const;
  /// Calls `visit` with the keys from `key` on, ascending, and their records' numbers, until it returns false.
  void for_each_from(const PoolTransaction& transaction, std::uint64_t key,
                     const std::function<bool(std::uint64_t key, std::uint64_t record)>& visit) const;

 private:
  static constexpr std::uint32_t most_levels = 8;
  struct Path {
    std::uint64_t nodes[most_levels] = {};
    std::uint32_t length = 0;
  };

  std::uint64_t node_at(std::uint64_t node) const;
  const TreeNode& node(const PoolTransaction& transaction, std::uint64_t number) const;
  std::uint64_t allocate() const;
  /// From the root to the leaf where the key is, or belongs.
  Path path_to(const PoolTransaction& transaction, std::uint64_t key) const;
  /// Moves the upper half of a full node to a new one. Returns its number.
  std::uint64_t split(PoolTransaction& transaction, TreeNode& full) const;
  [[noreturn]] void refuse(std::uint64_t node, const std::string& why) const;

  const PoolLayout& layout_;
  std::uint32_t partition_;
  PartitionState& state_;
};

}  // namespace tiermap
