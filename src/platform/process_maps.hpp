// What the kernel has mapped for a process, as /proc tells it.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "platform/file_identity.hpp"

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
/// nobody can tell: of one whose first thread has ended /proc shows nothing at all.
template <typename Visit>
bool visit_kernel_mappings(const std::string& process, const Visit& visit) {
  std::ifstream maps("/proc/" + process + "/maps");
  bool any = false;
  for (std::string line; std::getline(maps, line);) {
    KernelMapping mapping;
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %" SCNu64 " %n", &mapping.start,
                    &mapping.end, mapping.allowed, &mapping.inode, &path) == 4) {
      any = true;
      mapping.path = line.c_str() + path;
      if (visit(mapping)) {
        return true;
      }
    }
  }
  return any;
}

/// Whether a kernel of this release ("6.1.0-13-amd64") lists each file by the number that stat() tells: before Linux
/// 6.8 one on overlayfs may be listed by the number of the file below it.
bool lists_own_numbers(const char* release) noexcept;

/// Whether this kernel lists the file by its own number. By its device: overlayfs has one without a major number, as
/// others have; where it has not, the numbers are the same.
bool is_listed_by_number(FileIdentity file) noexcept;

/// The numbers of files that the kernel has mapped for a process. By them alone, as devices of some file systems have
/// other numbers in the list: another file of the same number counts too.
class MappedNumbers {
 public:
  /// Nobody can tell what is mapped.
  MappedNumbers() = default;
  explicit MappedNumbers(std::set<std::uint64_t> numbers) noexcept : numbers_(std::move(numbers)), known_(true) {}

  /// True if it cannot be told.
  bool may_contain(FileIdentity file) const noexcept {
    return !known_ || numbers_.contains(file.inode) || !is_listed_by_number(file);
  }

 private:
  std::set<std::uint64_t> numbers_;
  bool known_ = false;
};

/// Of a process ("self", or its number).
MappedNumbers read_mapped_numbers(const std::string& process);

}  // namespace tiermap
