// Many files by one name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/store_url.hpp"

namespace tiermap {

/// Existing files that a pattern of a URL means, by name in byte order, which no locale changes. Throws StoreError
/// where there are none, or a directory cannot be read.
std::vector<std::string> matching_files(std::string_view encoded, const StoreUrl& url);

}  // namespace tiermap
