#include "umap_fixture.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tiermap {

std::size_t mapped_bytes(const void* address, std::size_t bytes, const std::string& permissions) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  std::size_t found = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t past = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &first, &past, access) != 3 || past <= start ||
        first >= start + bytes) {
      continue;
    }
    if (permissions.empty() || permissions == access) {
      found += std::min(past, start + bytes) - std::max(first, start);
    }
  }
  return found;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace tiermap
