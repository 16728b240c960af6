// Copying a file that is mostly holes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace tiermap {

/// What is copied: by a path to open it, and by the one for messages.
struct CopySource {
  CopySource(std::string both) : path(both), called(std::move(both)) {}
  CopySource(std::string to_open, std::string to_name) : path(std::move(to_open)), called(std::move(to_name)) {}
  std::string path;
  std::string called;
};

/// Copies a file to one that must not exist, holes as holes, and makes it durable. Where the file system can, both
/// share what neither changes (reflink), which takes no time. Nobody may read it who may not read what is copied; its
/// owner may write it. `copied` is told how many bytes more were copied, and may throw. Throws StoreError.
void copy_sparse_file(const CopySource& from, const std::string& to,
                      const std::function<void(std::uint64_t)>& copied = {});

}  // namespace tiermap
