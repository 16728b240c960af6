#include <fmt/format.h>
#include <lmdb.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tiermap/error.hpp"
#include "ycsb/peers/peers.hpp"

namespace tiermap {
namespace {

void require(int result) {
  if (result != MDB_SUCCESS) {
    throw StoreError(EIO, fmt::format("LMDB failed: {}: see to its disk and the room there, or name another --file",
                                      mdb_strerror(result)));
  }
}

/// A transaction that is dropped unless it is committed. One at a time may write: LMDB makes others wait.
class LmdbTransaction {
 public:
  LmdbTransaction(MDB_env* environment, unsigned flags) { require(mdb_txn_begin(environment, nullptr, flags, &raw_)); }
  ~LmdbTransaction() {
    if (raw_ != nullptr) {
      mdb_txn_abort(raw_);
    }
  }
  LmdbTransaction(const LmdbTransaction&) = delete;
  LmdbTransaction& operator=(const LmdbTransaction&) = delete;
  MDB_txn* raw() const noexcept { return raw_; }
  void commit() { require(mdb_txn_commit(std::exchange(raw_, nullptr))); }

 private:
  MDB_txn* raw_ = nullptr;
};

class LmdbStore final : public KeyValueStore {
 public:
  explicit LmdbStore(const PeerOptions& peer) : record_bytes_(peer.record_bytes) {
    try {
      open(peer);
    } catch (...) {
      mdb_env_close(environment_);
      throw;
    }
  }
  ~LmdbStore() override { mdb_env_close(environment_); }

  bool read(std::uint32_t, std::uint64_t key, std::span<std::byte> record) override {
    const LmdbTransaction transaction(environment_, MDB_RDONLY);
    std::uint64_t sorted = sorted_key(key);
    MDB_val name{sizeof(sorted), &sorted};
    MDB_val value{};
    const int result = mdb_get(transaction.raw(), database_, &name, &value);
    if (result == MDB_NOTFOUND) {
      return false;
    }
    require(result);
    copy(value, record);
    return true;
  }
  void insert(std::uint32_t, std::span<const std::byte> records) override { put(records); }
  void update(std::uint32_t, std::span<const std::byte> record) override { put(record); }
  std::uint64_t scan(std::uint32_t, std::uint64_t key, std::uint64_t count, std::span<std::byte> record,
                     const std::function<void()>& visit) override {
    const LmdbTransaction transaction(environment_, MDB_RDONLY);
    MDB_cursor* cursor = nullptr;
    require(mdb_cursor_open(transaction.raw(), database_, &cursor));
    const std::unique_ptr<MDB_cursor, decltype(&mdb_cursor_close)> closed(cursor, mdb_cursor_close);
    std::uint64_t sorted = sorted_key(key);
    MDB_val name{sizeof(sorted), &sorted};
    MDB_val value{};
    std::uint64_t visited = 0;
    int result = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
    for (; result == MDB_SUCCESS && visited < count; result = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) {
      copy(value, record);
      visit();
      ++visited;
    }
    if (result != MDB_NOTFOUND) {
      require(result);
    }
    return visited;
  }

 private:
  void open(const PeerOptions& peer) {
    require(mdb_env_create(&environment_));
    // Pages half full, what an open reader still holds, and room: address space only.
    require(mdb_env_set_mapsize(
        environment_,
        static_cast<std::size_t>(peer.most_records * (peer.record_bytes + 64) * 4) + (std::size_t{64} << 20U)));
    require(mdb_env_set_maxreaders(environment_, peer.threads + 8));
    unsigned flags = MDB_NORDAHEAD;
    if (peer.durability == Durability::none) {
      flags |= MDB_NOSYNC;
    }
    require(mdb_env_open(environment_, peer.path.c_str(), flags, 0644));
    LmdbTransaction transaction(environment_, 0);
    require(mdb_dbi_open(transaction.raw(), nullptr, MDB_CREATE, &database_));
    transaction.commit();
  }
  void put(std::span<const std::byte> records) {
    LmdbTransaction transaction(environment_, 0);
    for (; !records.empty(); records = records.subspan(static_cast<std::size_t>(record_bytes_))) {
      std::uint64_t key = 0;
      std::memcpy(&key, records.data(), sizeof(key));
      std::uint64_t sorted = sorted_key(key);
      MDB_val name{sizeof(sorted), &sorted};
      MDB_val value{static_cast<std::size_t>(record_bytes_), const_cast<std::byte*>(records.data())};
      require(mdb_put(transaction.raw(), database_, &name, &value, 0));
    }
    transaction.commit();
  }
  static void copy(const MDB_val& value, std::span<std::byte> record) {
    if (value.mv_size != record.size()) {
      throw StoreError(EIO, fmt::format("LMDB has a record of {} bytes, not {}", value.mv_size, record.size()));
    }
    std::memcpy(record.data(), value.mv_data, record.size());
  }

  MDB_env* environment_ = nullptr;
  MDB_dbi database_ = 0;
  std::uint64_t record_bytes_;
};

}  // namespace

std::unique_ptr<KeyValueStore> open_lmdb(const PeerOptions& options) {
  return std::make_unique<LmdbStore>(options);
}

}  // namespace tiermap
