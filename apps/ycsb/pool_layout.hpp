// Where everything is in a pool: one file that holds records, a hash index and an ordered index.
//
//   header | a state for each partition | partition 0: hash entries, records, nodes | partition 1: ...
//
// A partition has room for a number of records that was chosen when the pool was made; what is unused is a hole in the
// file. All bytes zero is a partition without records. docs/applications/ycsb.md describes the format.
#pragma once

#include <cstdint>
#include <string>

#include "tiermap/store.hpp"
#include "ycsb/record.hpp"

namespace tiermap {

/// The first bytes of the file. It never changes.
struct PoolHeader {
  static constexpr std::uint64_t bytes = 4096;
  static constexpr std::uint32_t current_version = 1;

  char magic[8] = {'T', 'I', 'E', 'R', 'P', 'O', 'O', 'L'};
  std::uint32_t version = current_version;
  std::uint32_t partitions = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t records = 0;            ///< How many are to be loaded.
  std::uint64_t partition_records = 0;  ///< How many fit into each partition.
  std::uint64_t identity = 0;           ///< A random word: the log has the same.
  std::uint64_t file_bytes = 0;
  std::uint64_t checksum = 0;  ///< Of the bytes before.

  std::uint64_t computed_checksum() const noexcept;
};

/// What changes of a partition as a whole, with each of its transactions.
struct PartitionState {
  std::uint64_t records = 0;
  std::uint64_t versions = 0;  ///< The sum of all its records' versions.
  std::uint64_t added_nodes = 0;
  std::uint64_t root = 0;  ///< The number of the node; there is always a node 0, a leaf at first.
  std::uint64_t reserved[4] = {};
};
static_assert(sizeof(PartitionState) == 64);

/// An entry of the hash index.
struct HashEntry {
  std::uint64_t key = 0;
  std::uint64_t record = 0;  ///< The record's number plus 1; 0 if the entry is free.
};

/// A node of the ordered index, a B+tree. In a leaf each key has its record's number. In an inner node each key has the
/// node that holds the keys from this one on; what is below all keys belongs to the first.
struct TreeNode {
  static constexpr std::uint64_t bytes = 4096;
  static constexpr std::uint32_t capacity = (bytes - 16) / 12;

  std::uint32_t count = 0;
  std::uint32_t level = 0;  ///< 0 in leaves.
  std::uint32_t next = 0;   ///< Of a leaf: the one with the next higher keys; 0 if it is the last.
  std::uint32_t reserved = 0;
  std::uint64_t keys[capacity] = {};
  std::uint32_t values[capacity] = {};
};
static_assert(sizeof(TreeNode) == TreeNode::bytes);

/// Offsets from the start of the file.
class PoolLayout {
 public:
  static constexpr std::uint32_t most_partitions = 4096;
  static constexpr std::uint64_t most_value_bytes = std::uint64_t{1} << 20U;
  static constexpr std::uint64_t most_partition_records = std::uint64_t{1} << 28U;

  /// Uses the numbers of the header that it was made with, not `file_bytes`. They are within the limits above. Messages
  /// call the pool `name`.
  explicit PoolLayout(const PoolHeader& header, std::string name = "the pool");

  /// Throws StoreError that names the pool, and says what in it cannot be.
  [[noreturn]] void refuse_damage(const std::string& why) const;

  const std::string& name() const noexcept { return name_; }
  const RecordFormat& format() const noexcept { return format_; }
  std::uint64_t partition_records() const noexcept { return partition_records_; }
  std::uint64_t hash_entries() const noexcept { return hash_entries_; }
  std::uint64_t nodes() const noexcept { return nodes_; }
  std::uint64_t file_bytes() const noexcept { return partition_at(format_.partitions()); }

  static std::uint64_t state_at(std::uint32_t partition) noexcept {
    return PoolHeader::bytes + partition * sizeof(PartitionState);
  }
  std::uint64_t hash_entry_at(std::uint32_t partition, std::uint64_t entry) const noexcept {
    return partition_at(partition) + entry * sizeof(HashEntry);
  }
  std::uint64_t record_at(std::uint32_t partition, std::uint64_t number) const noexcept {
    return partition_at(partition) + records_at_ + number * format_.record_bytes();
  }
  std::uint64_t node_at(std::uint32_t partition, std::uint64_t node) const noexcept {
    return partition_at(partition) + nodes_at_ + node * TreeNode::bytes;
  }

 private:
  std::uint64_t partition_at(std::uint32_t partition) const noexcept {
    return first_partition_at_ + partition * partition_bytes_;
  }

  std::string name_;
  RecordFormat format_;
  std::uint64_t partition_records_;
  std::uint64_t hash_entries_;
  std::uint64_t nodes_;
  std::uint64_t first_partition_at_;
  std::uint64_t records_at_;  ///< In its partition, as the next.
  std::uint64_t nodes_at_;
  std::uint64_t partition_bytes_;
};

/// Reads and checks the header. Throws StoreError that says what is wrong with the file.
PoolHeader read_pool_header(Store& store);

}  // namespace tiermap
