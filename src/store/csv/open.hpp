// csv:///directory/file.csv
#pragma once

#include <memory>

#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Throws StoreError.
std::unique_ptr<Store> open_csv(const StoreUrl& url, OpenMode mode, const NewStore& made);

}  // namespace tiermap
