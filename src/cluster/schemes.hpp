// All schemes that open_store() knows.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "store/registry.hpp"

namespace tiermap {

StoreRegistry built_in_stores();

/// Makes what a remote: URL names, which is gone from all its servers, however who makes it ends, unless
/// keep_data_set() has said otherwise. Throws StoreError.
std::unique_ptr<Store> create_unkept_data_set(std::string_view url, std::uint64_t bytes);
/// 0 or a negative errno value.
int keep_data_set(Store& store);

}  // namespace tiermap
