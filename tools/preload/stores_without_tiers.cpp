// Programs name their files by paths, and have no tiers: these are described in YAML, for which there is no library
// here.
#include "store/registry.hpp"

namespace tiermap {

std::unique_ptr<Store> open_store(std::string_view url, OpenMode mode, std::uint64_t create_bytes) {
  return open_store(url, mode, new_store(create_bytes));
}

std::unique_ptr<Store> open_store(std::string_view url, OpenMode mode, const NewStore& made) {
  return plain_stores().open(url, mode, made);
}

}  // namespace tiermap
