// What tells one file from all others, whatever its names.
#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>

namespace tiermap {

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileIdentity&) const = default;
  static FileIdentity of(const struct stat& status) noexcept { return {status.st_dev, status.st_ino}; }
};

}  // namespace tiermap
