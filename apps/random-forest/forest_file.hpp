// A forest as a file: a header, the number of splits of each tree, the splits, and a checksum of all that.
#pragma once

#include <string>

#include "random-forest/decision_tree.hpp"

namespace tiermap {

/// Writes a file that is not there yet, durably; one whose making was cut short is known by its checksum. Throws
/// StoreError.
void save_forest(const Forest& forest, const std::string& path);
/// Throws StoreError for what is no such file, one of another version, one that was cut off or has changed.
Forest load_forest(const std::string& path);

}  // namespace tiermap
