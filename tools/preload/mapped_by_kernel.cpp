#include "preload/mapped_by_kernel.hpp"

#include <sys/stat.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

namespace tiermap::preload {

namespace {

/// A line of /proc/self/maps.
struct KernelMapping {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  char allowed[5] = {};
  std::uint64_t inode = 0;
  const char* path = "";
};

/// Calls visit(mapping) for each, until it says that this is enough. False if nobody can tell.
template <typename Visit>
bool visit_kernel_mappings(const Visit& visit) {
  std::ifstream maps("/proc/self/maps");
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

}  // namespace

std::optional<std::set<std::uint64_t>> numbers_mapped_by_kernel() {
  std::set<std::uint64_t> numbers;
  const bool told = visit_kernel_mappings([&](const KernelMapping& mapping) {
    numbers.insert(mapping.inode);
    return false;
  });
  return told ? std::optional(std::move(numbers)) : std::nullopt;
}

bool mapped_by_kernel(FileIdentity file) {
  const auto numbers = numbers_mapped_by_kernel();
  return !numbers.has_value() || numbers->contains(file.inode);
}

std::vector<FileIdentity> files_shared_by_kernel() {
  std::vector<FileIdentity> files;
  visit_kernel_mappings([&](const KernelMapping& mapping) {
    struct stat status = {};
    if (mapping.allowed[3] == 's' && mapping.inode != 0 && ::stat(mapping.path, &status) == 0 &&
        status.st_ino == mapping.inode) {
      files.push_back(FileIdentity::of(status));
    }
    return false;
  });
  return files;
}

bool can_be_touched(const void* address, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  bool can = false;
  const bool told = visit_kernel_mappings([&](const KernelMapping& mapping) {
    can = mapping.start < first + bytes && first < mapping.end && std::strncmp(mapping.allowed, "---", 3) != 0;
    return can;
  });
  return can || !told;
}

}  // namespace tiermap::preload
