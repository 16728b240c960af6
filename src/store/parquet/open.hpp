// parquet:///directory/file.parquet?columns=x,y: rows of Parquet files as a store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Opens the store that a URL names: a file may lie in any.
using StoreOpener = std::function<std::unique_ptr<Store>(std::string_view url, OpenMode mode)>;

/// Throws StoreError.
std::unique_ptr<Store> open_parquet(const StoreUrl& url, OpenMode mode, const NewStore& made,
                                    const StoreOpener& open_behind);

}  // namespace tiermap
