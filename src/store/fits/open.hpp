// fits: URLs.
#pragma once

#include <memory>
#include <vector>

#include "store/fits/image.hpp"
#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// fits:///directory/image.fits, fits:///image.fits:1 for another HDU, and patterns. Throws StoreError.
std::unique_ptr<Store> open_fits(const StoreUrl& url, OpenMode mode, const NewStore& made);

/// The image of each file that such a URL names. Throws StoreError.
std::vector<FitsImage> find_fits_images(const StoreUrl& url);

}  // namespace tiermap
