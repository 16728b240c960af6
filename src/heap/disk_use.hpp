// What a heap's files take up.
#pragma once

#include <cstdint>
#include <string>

namespace tiermap {

/// On the disk, of the file or of all files below the directory; what two files share counts for both. What cannot be
/// looked at counts 0.
std::uint64_t bytes_on_disk(const std::string& path);

}  // namespace tiermap
