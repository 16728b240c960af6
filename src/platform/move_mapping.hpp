// Moving what is mapped.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace tiermap {

/// Moves [from, from + bytes), whole pages of one mapping, over what is mapped at `to`. Returns false with errno.
///
/// By the system call: the memory hooks of UCX (1.13), once it has been used in the process, stand before the C
/// library's mremap(), and hand on four of its five arguments, so that the mapping goes wherever the fifth's register
/// points to.
inline bool move_mapping(std::byte* from, std::size_t bytes, std::byte* to) noexcept {
  return ::syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != -1;
}

}  // namespace tiermap
