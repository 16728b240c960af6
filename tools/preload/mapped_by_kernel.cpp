#include "preload/mapped_by_kernel.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace tiermap::preload {

bool mapped_by_kernel(FileIdentity file) {
  std::ifstream maps("/proc/self/maps");
  if (!maps) {
    return true;
  }
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t inode = 0;
    if (std::sscanf(line.c_str(), "%*x-%*x %*s %*x %*x:%*x %" SCNu64, &inode) == 1 && inode == file.inode) {
      return true;
    }
  }
  return false;
}

}  // namespace tiermap::preload
