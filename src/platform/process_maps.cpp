#include "platform/process_maps.hpp"

#include <sys/sysmacros.h>
#include <sys/utsname.h>

namespace tiermap {

bool lists_own_numbers(const char* release) noexcept {
  int version = 0;
  int patch_level = 0;
  return std::sscanf(release, "%d.%d", &version, &patch_level) == 2 &&
         (version > 6 || (version == 6 && patch_level >= 8));
}

bool is_listed_by_number(FileIdentity file) noexcept {
  utsname system = {};
  return major(file.device) != 0 || (::uname(&system) == 0 && lists_own_numbers(system.release));
}

MappedNumbers read_mapped_numbers(const std::string& process) {
  std::set<std::uint64_t> numbers;
  const bool told = visit_kernel_mappings(process, [&](const KernelMapping& mapping) {
    numbers.insert(mapping.inode);
    return false;
  });
  return told ? MappedNumbers(std::move(numbers)) : MappedNumbers();
}

}  // namespace tiermap
