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

}  // namespace tiermap
