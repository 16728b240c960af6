// What a directory has in it.
#pragma once

#include <string>
#include <vector>

namespace tiermap {

/// All names in the directory that is open as `directory`, in any order, but for "." and "..". Throws StoreError:
/// "PATH cannot be listed: ..."; not even a part of them is returned then.
std::vector<std::string> names_in(int directory, const std::string& path);

}  // namespace tiermap
