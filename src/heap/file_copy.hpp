// Copying a file that is mostly holes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tiermap {

/// Copies a file to one that must not exist, holes as holes, and makes it durable. Where the file system can, both
/// share what neither changes (reflink), which takes no time. `copied` is told how many bytes more were copied, and may
/// throw. Throws StoreError.
void copy_sparse_file(const std::string& from, const std::string& to,
                      const std::function<void(std::uint64_t)>& copied = {});

}  // namespace tiermap
