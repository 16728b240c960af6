// What the workloads need of a database, whoever it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "parallel/thread_team.hpp"

namespace tiermap {

/// When a transaction counts as committed.
enum class Durability : std::uint8_t {
  sync,  ///< When the disk has it: it survives that the machine stops.
  none,  ///< When the kernel has it: it survives that the program is killed.
};

/// Records by key, in partitions. A record's first 8 bytes are its key; all have the same size. Who calls holds the
/// partition's lock: one call at a time for each partition, several at once for different ones. Throws StoreError for
/// what is damaged or cannot be written.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;

  /// Copies the record; false if there is none.
  virtual bool read(std::uint32_t partition, std::uint64_t key, std::span<std::byte> record) = 0;
  /// Adds new records, one after the other, in one transaction. It is committed when this returns.
  virtual void insert(std::uint32_t partition, std::span<const std::byte> records) = 0;
  /// Replaces a record that is there, in one transaction. It is committed when this returns.
  virtual void update(std::uint32_t partition, std::span<const std::byte> record) = 0;
  /// Copies records to `record`, one at a time and in the order of their keys, from `key` on, `count` at most and until
  /// the partition ends at least; `visit` is called for each. Returns how many.
  virtual std::uint64_t scan(std::uint32_t partition, std::uint64_t key, std::uint64_t count,
                             std::span<std::byte> record, const std::function<void()>& visit) = 0;

  /// Whether checkpoint() should be called soon.
  virtual bool wants_checkpoint() const { return false; }
  /// Makes what is logged needless. Who calls holds the locks of all partitions.
  virtual void checkpoint() {}

  /// Whether its parts agree with each other; what does not, or nothing.
  virtual std::string check(ThreadTeam&) { return {}; }

 protected:
  KeyValueStore() = default;
};

}  // namespace tiermap
