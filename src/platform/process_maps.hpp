// What the kernel has mapped for a process, as /proc tells it.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace tiermap {

/// A line of /proc/.../maps.
struct KernelMapping {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  char allowed[5] = {};
  std::uint64_t inode = 0;
  const char* path = "";
};

/// Calls visit(mapping) for each of a process ("self", or its number), until it says that this is enough. False if
/// nobody can tell.
template <typename Visit>
bool visit_kernel_mappings(const std::string& process, const Visit& visit) {
  std::ifstream maps("/proc/" + process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    KernelMapping mapping;
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %" SCNu64 " %n", &mapping.start,
                    &mapping.end, mapping.allowed, &mapping.inode, &path) == 4) {
      mapping.path = line.c_str() + path;
      if (visit(mapping)) {
        return true;
      }
    }
  }
  return maps.is_open();
}

}  // namespace tiermap
