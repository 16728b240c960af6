#include "preload/mapped_by_kernel.hpp"

#include <sys/stat.h>
#include <sys/statfs.h>

#include <cstring>

namespace tiermap::preload {

bool mapped_by_kernel(FileIdentity file) {
  return read_mapped_numbers("self").may_contain(file);
}

std::vector<FileIdentity> files_shared_by_kernel() {
  std::vector<FileIdentity> files;
  visit_kernel_mappings("self", [&](const KernelMapping& mapping) {
    struct stat status = {};
    if (mapping.allowed[3] == 's' && mapping.inode != 0 && ::stat(mapping.path, &status) == 0 &&
        (status.st_ino == mapping.inode || !is_listed_by_number(FileIdentity::of(status)))) {
      files.push_back(FileIdentity::of(status));
    }
    return false;
  });
  return files;
}

bool can_be_touched(const void* address, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  bool can = false;
  const bool told = visit_kernel_mappings("self", [&](const KernelMapping& mapping) {
    can = mapping.start < first + bytes && first < mapping.end && std::strncmp(mapping.allowed, "---", 3) != 0;
    return can;
  });
  return can || !told;
}

bool lies_in_memory(int descriptor) noexcept {
  struct statfs system = {};
  if (::fstatfs(descriptor, &system) != 0) {
    return true;
  }
  for (const unsigned long kind : {0x01021994UL /* tmpfs */, 0x858458f6UL /* ramfs */, 0x958458f6UL /* hugetlbfs */,
                                   0x9fa0UL /* proc */, 0x62656572UL /* sysfs */}) {
    if (static_cast<unsigned long>(system.f_type) == kind) {
      return true;
    }
  }
  return false;
}

}  // namespace tiermap::preload
