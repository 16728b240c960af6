// hdf5:///directory/file.h5:/group/dataset
#pragma once

#include <memory>

#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Throws StoreError.
std::unique_ptr<Store> open_hdf5(const StoreUrl& url, OpenMode mode, const NewStore& made);

}  // namespace tiermap
