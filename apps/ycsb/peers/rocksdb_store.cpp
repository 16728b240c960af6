#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tiermap/error.hpp"
#include "ycsb/peers/peers.hpp"

namespace tiermap {
namespace {

void require(const rocksdb::Status& status) {
  if (!status.ok()) {
    throw StoreError(EIO, fmt::format("RocksDB failed: {}: see to its disk and the room there, or name another --file",
                                      status.ToString()));
  }
}

rocksdb::Slice slice_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Memtables are charged to the block cache, so that both together keep within the budget.
rocksdb::Options options_for(const PeerOptions& peer) {
  const std::uint64_t memtables = peer.budget_bytes / 4;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(static_cast<std::size_t>(peer.budget_bytes));
  table.cache_index_and_filter_blocks = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(static_cast<std::size_t>(memtables), table.block_cache);
  options.write_buffer_size =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(memtables / 2, 64U << 10U, 64U << 20U));
  options.compression = rocksdb::kNoCompression;  // Nobody else compresses either.
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  options.max_background_jobs = 4;
  return options;
}

class RocksdbStore final : public KeyValueStore {
 public:
  explicit RocksdbStore(const PeerOptions& peer) {
    write_.sync = peer.durability == Durability::sync;
    rocksdb::DB* database = nullptr;
    require(rocksdb::DB::Open(options_for(peer), peer.path, &database));
    database_.reset(database);
    record_bytes_ = peer.record_bytes;
  }
  bool read(std::uint32_t, std::uint64_t key, std::span<std::byte> record) override {
    const std::uint64_t sorted = sorted_key(key);
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        database_->Get({}, database_->DefaultColumnFamily(), slice_of(std::as_bytes(std::span(&sorted, 1))), &value);
    if (status.IsNotFound()) {
      return false;
    }
    require(status);
    copy(value, record);
    return true;
  }
  void insert(std::uint32_t, std::span<const std::byte> records) override { put(records); }
  void update(std::uint32_t, std::span<const std::byte> record) override { put(record); }
  std::uint64_t scan(std::uint32_t, std::uint64_t key, std::uint64_t count, std::span<std::byte> record,
                     const std::function<void()>& visit) override {
    const std::uint64_t sorted = sorted_key(key);
    const std::unique_ptr<rocksdb::Iterator> found(database_->NewIterator({}));
    std::uint64_t visited = 0;
    for (found->Seek(slice_of(std::as_bytes(std::span(&sorted, 1)))); found->Valid() && visited < count;
         found->Next()) {
      copy(found->value(), record);
      visit();
      ++visited;
    }
    require(found->status());
    return visited;
  }

 private:
  void put(std::span<const std::byte> records) {
    rocksdb::WriteBatch batch;
    for (; !records.empty(); records = records.subspan(static_cast<std::size_t>(record_bytes_))) {
      std::uint64_t key = 0;
      std::memcpy(&key, records.data(), sizeof(key));
      const std::uint64_t sorted = sorted_key(key);
      require(batch.Put(slice_of(std::as_bytes(std::span(&sorted, 1))),
                        slice_of(records.first(static_cast<std::size_t>(record_bytes_)))));
    }
    require(database_->Write(write_, &batch));
  }
  static void copy(const rocksdb::Slice& value, std::span<std::byte> record) {
    if (value.size() != record.size()) {
      throw StoreError(EIO, fmt::format("RocksDB has a record of {} bytes, not {}", value.size(), record.size()));
    }
    std::memcpy(record.data(), value.data(), record.size());
  }

  std::unique_ptr<rocksdb::DB> database_;
  rocksdb::WriteOptions write_;
  std::uint64_t record_bytes_ = 0;
};

}  // namespace

std::unique_ptr<KeyValueStore> open_rocksdb(const PeerOptions& options) {
  return std::make_unique<RocksdbStore>(options);
}

}  // namespace tiermap
