#include "preload/mapped_by_kernel.hpp"

#include <sys/stat.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace tiermap::preload {

std::optional<std::set<std::uint64_t>> numbers_mapped_by_kernel() {
  std::ifstream maps("/proc/self/maps");
  if (!maps) {
    return std::nullopt;
  }
  std::set<std::uint64_t> numbers;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t inode = 0;
    if (std::sscanf(line.c_str(), "%*x-%*x %*s %*x %*x:%*x %" SCNu64, &inode) == 1) {
      numbers.insert(inode);
    }
  }
  return numbers;
}

bool mapped_by_kernel(FileIdentity file) {
  const auto numbers = numbers_mapped_by_kernel();
  return !numbers.has_value() || numbers->contains(file.inode);
}

std::vector<FileIdentity> files_shared_by_kernel() {
  std::vector<FileIdentity> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    char allowed[5] = {};
    std::uint64_t inode = 0;
    int path = 0;
    struct stat status = {};
    if (std::sscanf(line.c_str(), "%*x-%*x %4s %*x %*x:%*x %" SCNu64 " %n", allowed, &inode, &path) == 2 &&
        allowed[3] == 's' && inode != 0 && path != 0 && ::stat(line.c_str() + path, &status) == 0 &&
        status.st_ino == inode) {
      files.push_back(FileIdentity::of(status));
    }
  }
  return files;
}

bool can_be_touched(const void* address, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  if (!maps) {
    return true;
  }
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    char allowed[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, allowed) == 3 &&
        start < first + bytes && first < end && std::strncmp(allowed, "---", 3) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace tiermap::preload
