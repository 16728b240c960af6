#include "ycsb/pool_store.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "tiermap/error.hpp"
#include "ycsb/hash_index.hpp"
#include "ycsb/ordered_index.hpp"

namespace tiermap {

PoolStore::PoolStore(MappedBytes& mapped, const PoolLayout& layout, RedoLog* log, Options options)
    : mapped_(mapped), layout_(layout), log_(log), options_(options), states_(layout.format().partitions()) {
  for (std::uint32_t partition = 0; partition < states_.size(); ++partition) {
    PartitionState& state = states_[partition];
    std::memcpy(&state, mapped.data() + PoolLayout::state_at(partition), sizeof(state));
    if (state.records > layout.partition_records() || state.added_nodes >= layout.nodes()) {
      layout.refuse_damage(fmt::format("partition {} has {} records and {} nodes, and room for {} and {}", partition,
                                       state.records, state.added_nodes + 1, layout.partition_records(),
                                       layout.nodes()));
    }
  }
}

std::span<std::byte> PoolStore::record_at(std::uint32_t partition, std::uint64_t number, std::uint64_t key) const {
  if (number >= states_[partition].records) {
    layout_.refuse_damage(
        fmt::format("an index of partition {} names record {} of {}", partition, number, states_[partition].records));
  }
  const std::span<std::byte> record = pool().subspan(layout_.record_at(partition, number), record_bytes());
  if (head_of(record).key != key) {
    layout_.refuse_damage(fmt::format("record {} of partition {} has key {}, and its index says {}", number, partition,
                                      head_of(record).key, key));
  }
  return record;
}

std::optional<std::uint64_t> PoolStore::find(std::uint32_t partition, std::uint64_t key) {
  const PoolTransaction reading(pool());
  return options_.index == IndexKind::hash ? HashIndex(layout_, partition).find(reading, key)
                                           : OrderedIndex(layout_, partition, states_[partition]).find(reading, key);
}

bool PoolStore::read(std::uint32_t partition, std::uint64_t key, std::span<std::byte> record) {
  const std::optional<std::uint64_t> number = find(partition, key);
  if (number.has_value()) {
    std::memcpy(record.data(), record_at(partition, *number, key).data(), record_bytes());
  }
  return number.has_value();
}

std::uint64_t PoolStore::scan(std::uint32_t partition, std::uint64_t key, std::uint64_t count,
                              std::span<std::byte> record, const std::function<void()>& visit) {
  const PoolTransaction reading(pool());
  std::uint64_t visited = 0;
  OrderedIndex(layout_, partition, states_[partition])
      .for_each_from(reading, key, [&](std::uint64_t found, std::uint64_t number) {
        std::memcpy(record.data(), record_at(partition, number, found).data(), record_bytes());
        visit();
        return ++visited < count;
      });
  return visited;
}

void PoolStore::insert(std::uint32_t partition, std::span<const std::byte> records) {
  PoolTransaction transaction(pool());
  PartitionState state = states_[partition];
  const OrderedIndex ordered(layout_, partition, state);
  const HashIndex hash(layout_, partition);
  const std::uint64_t count = records.size() / record_bytes();
  if (state.records + count > layout_.partition_records()) {
    throw StoreError(ENOSPC,
                     fmt::format("{} is full: each of its partitions has room for {} records: make one with more "
                                 "--capacity",
                                 layout_.name(), layout_.partition_records()));
  }
  transaction.replace(layout_.record_at(partition, state.records), records);
  for (; !records.empty(); records = records.subspan(static_cast<std::size_t>(record_bytes()))) {
    const RecordHead head = head_of(records);
    hash.insert(transaction, head.key, state.records);
    ordered.insert(transaction, head.key, state.records);
    ++state.records;
    state.versions += head.version;
  }
  commit(partition, state, transaction);
}

void PoolStore::update(std::uint32_t partition, std::span<const std::byte> record) {
  const RecordHead head = head_of(record);
  const std::optional<std::uint64_t> number = find(partition, head.key);
  if (!number.has_value()) {
    layout_.refuse_damage(fmt::format("key {} is not in partition {}", head.key, partition));
  }
  PoolTransaction transaction(pool());
  PartitionState state = states_[partition];
  state.versions += head.version - head_of(record_at(partition, *number, head.key)).version;
  transaction.replace(layout_.record_at(partition, *number), record);
  commit(partition, state, transaction);
}

void PoolStore::commit(std::uint32_t partition, const PartitionState& state, PoolTransaction& transaction) {
  transaction.replace(PoolLayout::state_at(partition), std::as_bytes(std::span(&state, 1)));
  const std::span<const std::byte> changes = transaction.changes();
  log_->commit(changes);
  apply_changes(changes, pool());
  states_[partition] = state;
}

bool PoolStore::wants_checkpoint() const {
  return log_->bytes() >= options_.log_limit_bytes;
}

void PoolStore::checkpoint() {
  mapped_.save();
  log_->empty();
}

std::string PoolStore::check_partition(std::uint32_t partition) {
  const PoolTransaction reading(pool());
  const HashIndex hash(layout_, partition);
  PartitionState& state = states_[partition];
  std::uint64_t used_entries = 0;
  for (std::uint64_t entry = 0; entry < layout_.hash_entries(); ++entry) {
    used_entries += reading.view<HashEntry>(layout_.hash_entry_at(partition, entry)).record != 0 ? 1U : 0U;
  }
  std::string wrong;
  std::uint64_t keys = 0;
  std::uint64_t versions = 0;
  std::uint64_t last = 0;
  OrderedIndex(layout_, partition, state).for_each_from(reading, 0, [&](std::uint64_t key, std::uint64_t number) {
    if (keys > 0 && key <= last) {
      wrong = fmt::format("key {} follows key {} in the ordered index", key, last);
    } else if (hash.find(reading, key) != number || key != layout_.format().key_of(partition, number)) {
      wrong = fmt::format("key {} has record {} in the ordered index, and another one in the hash index or none", key,
                          number);
    } else {
      versions += head_of(record_at(partition, number, key)).version;
    }
    last = key;
    ++keys;
    return wrong.empty();
  });
  if (wrong.empty() && (keys != state.records || used_entries != state.records)) {
    wrong = fmt::format("the ordered index has {} keys, the hash index {}, and there are {} records", keys,
                        used_entries, state.records);
  }
  if (wrong.empty() && versions != state.versions) {
    wrong = fmt::format("the records' versions add up to {}, not to {}", versions, state.versions);
  }
  return wrong.empty() ? wrong : fmt::format("partition {}: {}", partition, wrong);
}

std::string PoolStore::check(ThreadTeam& team) {
  std::mutex mutex;
  std::string first;
  team.for_each(states_.size(), [&](std::uint64_t partition) {
    std::string wrong = check_partition(static_cast<std::uint32_t>(partition));
    const std::lock_guard lock(mutex);
    if (first.empty()) {
      first = std::move(wrong);
    }
  });
  return first;
}

}  // namespace tiermap
