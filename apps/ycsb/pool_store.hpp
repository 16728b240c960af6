// The database in a mapped pool: records, found by either index, changed through the redo log.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command_line/memory_system.hpp"
#include "ycsb/key_value_store.hpp"
#include "ycsb/pool_layout.hpp"
#include "ycsb/pool_transaction.hpp"
#include "ycsb/redo_log.hpp"

namespace tiermap {

/// What finds a record by its key.
enum class IndexKind : std::uint8_t { hash, ordered };

/// A pool whose log is empty. Throws StoreError for what is damaged.
class PoolStore final : public KeyValueStore {
 public:
  struct Options {
    IndexKind index = IndexKind::hash;
    std::uint64_t log_limit_bytes = 0;  ///< wants_checkpoint() from there on.
  };

  /// `log` is nothing for a pool that is only read.
  PoolStore(MappedBytes& mapped, const PoolLayout& layout, RedoLog* log, Options options);

  std::uint64_t records(std::uint32_t partition) const noexcept { return states_[partition].records; }

  bool read(std::uint32_t partition, std::uint64_t key, std::span<std::byte> record) override;
  void insert(std::uint32_t partition, std::span<const std::byte> records) override;
  void update(std::uint32_t partition, std::span<const std::byte> record) override;
  std::uint64_t scan(std::uint32_t partition, std::uint64_t key, std::uint64_t count, std::span<std::byte> record,
                     const std::function<void()>& visit) override;
  bool wants_checkpoint() const override;
  void checkpoint() override;
  std::string check(ThreadTeam& team) override;

 private:
  std::span<std::byte> pool() const noexcept { return {mapped_.data(), static_cast<std::size_t>(mapped_.size())}; }
  std::uint64_t record_bytes() const noexcept { return layout_.format().record_bytes(); }
  /// The bytes of a record whose number an index gave.
  std::span<std::byte> record_at(std::uint32_t partition, std::uint64_t number, std::uint64_t key) const;
  std::optional<std::uint64_t> find(std::uint32_t partition, std::uint64_t key);
  /// To the log, then to the pool.
  void commit(std::uint32_t partition, const PartitionState& state, PoolTransaction& transaction);
  std::string check_partition(std::uint32_t partition);

  MappedBytes& mapped_;
  const PoolLayout& layout_;
  RedoLog* log_;
  const Options options_;
  std::vector<PartitionState> states_;  ///< As in the pool: read at each access.
};

}  // namespace tiermap
