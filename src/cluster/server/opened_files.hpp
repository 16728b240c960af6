// Which files a store has, told by what is open: stores lie over each other, and each scheme has its own way to name.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

namespace tiermap {

/// Device and inode.
using FileIdentity = std::pair<std::uint64_t, std::uint64_t>;

/// Looks twice at what this process has open, while no other thread opens files.
class OpenedFiles {
 public:
  OpenedFiles();
  /// Regular files and block devices that have been opened since this was made, and are open still. Throws StoreError.
  std::set<FileIdentity> since() const;

 private:
  std::set<int> before_;
};

}  // namespace tiermap
