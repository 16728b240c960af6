#include "ycsb/peers/peers.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "tiermap/error.hpp"

namespace tiermap {

std::unique_ptr<KeyValueStore> open_peer(const std::string& name, const PeerOptions& options) {
  std::error_code error;
  std::filesystem::create_directory(options.path, error);
  if (error) {
    throw StoreError(error.value(), fmt::format("{} cannot be made: {}: check the path, and that its folder is there",
                                                options.path, error.message()));
  }
#ifdef TIERMAP_WITH_ROCKSDB
  if (name == rocksdb_name) {
    return open_rocksdb(options);
  }
#endif
#ifdef TIERMAP_WITH_LMDB
  if (name == lmdb_name) {
    return open_lmdb(options);
  }
#endif
  throw OptionError(fmt::format("system {} is not in this program: install {} and build it again", name,
                                name == lmdb_name ? "liblmdb-dev" : "librocksdb-dev"));
}

}  // namespace tiermap
