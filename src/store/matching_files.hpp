// The files that a pattern in a URL means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/store_url.hpp"

namespace tiermap {

/// Existing files, by name in byte order, which no locale changes; at least one. `encoded` is a part of the URL as it
/// stands there. Throws StoreError.
std::vector<std::string> matching_files(std::string_view encoded, const StoreUrl& url);

}  // namespace tiermap
