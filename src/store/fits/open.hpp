// fits: URLs.
#pragma once

#include <memory>

#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// fits:///directory/image.fits, fits:///image.fits:1 for another HDU, and patterns. Throws StoreError.
std::unique_ptr<Store> open_fits(const StoreUrl& url, OpenMode mode, const NewStore& made);

}  // namespace tiermap
