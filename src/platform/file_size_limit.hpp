// Files of Tiermap's own under a limit of file sizes (ulimit -f): making one larger than that would not only fail, but
// end the program by SIGXFSZ, for a file that it knows nothing of.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace tiermap {

inline bool file_may_have(std::uint64_t bytes) noexcept {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
}

}  // namespace tiermap
