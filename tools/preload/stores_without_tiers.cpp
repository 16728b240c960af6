// Programs name their files by paths, and have no tiers: these are described in YAML, for which there is no library
// here.
#include "store/registry.hpp"

namespace tiermap {

std::unique_ptr<Store> open_store(std::string_view url, OpenMode mode, std::uint64_t create_bytes) {
  return plain_stores().open(url, mode, create_bytes);
}

}  // namespace tiermap
