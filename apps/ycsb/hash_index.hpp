// The hash index of a partition: open addressing, each key in the first free entry from its own on.
#pragma once

#include <cstdint>
#include <optional>

#include "ycsb/pool_layout.hpp"
#include "ycsb/pool_transaction.hpp"

namespace tiermap {

/// Throws StoreError if what the pool holds cannot be.
class HashIndex {
 public:
  HashIndex(const PoolLayout& layout, std::uint32_t partition) noexcept : layout_(layout), partition_(partition) {}

  /// The number of the key's record.
  std::optional<std::uint64_t> find(const PoolTransaction& transaction, std::uint64_t key) const;
  /// The key is not there yet.
  void insert(PoolTransaction& transaction, std::uint64_t key, std::uint64_t record) const;

 private:
  /// Where the key is, or belongs.
  std::uint64_t entry_of(const PoolTransaction& transaction, std::uint64_t key) const;

  const PoolLayout& layout_;
  std::uint32_t partition_;
};

}  // namespace tiermap
