#include "preload/mapped_by_kernel.hpp"

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
