// Other databases, driven by the same executors: those whose packages were there when this was built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ycsb/key_value_store.hpp"

namespace tiermap {

/// What a peer is told.
struct PeerOptions {
  std::string path;                ///< A folder.
  std::uint64_t record_bytes = 0;  ///< Of each.
  std::uint64_t most_records = 0;
  std::uint64_t budget_bytes = 0;  ///< For what it keeps in memory of its own.
  std::uint32_t threads = 1;
  Durability durability = Durability::sync;
};

constexpr const char* rocksdb_name = "rocksdb";
constexpr const char* lmdb_name = "lmdb";

/// Opens the database in the folder, or makes it. Throws OptionError if this program was built without it, StoreError.
std::unique_ptr<KeyValueStore> open_peer(const std::string& name, const PeerOptions& options);

// Where their packages are.
std::unique_ptr<KeyValueStore> open_rocksdb(const PeerOptions& options);
std::unique_ptr<KeyValueStore> open_lmdb(const PeerOptions& options);

/// The key's bytes in the order in which the database sorts.
constexpr std::uint64_t sorted_key(std::uint64_t key) noexcept {
  return __builtin_bswap64(key);
}

}  // namespace tiermap
