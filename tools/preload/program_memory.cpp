#include "preload/program_memory.hpp"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "platform/page_sizes.hpp"

namespace tiermap::preload {

ssize_t copy_from_program(const void* source, std::size_t bytes, void* target) noexcept {
  // The kernel pins what one vector names before it copies any of it, and pinned pages cannot be given up: pages of a
  // region that are more than the budget would wait for themselves. So each vector names one page.
  std::array<iovec, most_program_bytes / kernel_page_bytes + 1> from;
  std::size_t count = 0;
  const auto* const first = static_cast<const std::byte*>(source);
  for (std::size_t at = 0; at < bytes; ++count) {
    const std::size_t to_page_end =
        kernel_page_bytes - reinterpret_cast<std::uintptr_t>(first + at) % kernel_page_bytes;
    from[count] = {const_cast<std::byte*>(first + at), std::min(to_page_end, bytes - at)};
    at += from[count].iov_len;
  }
  const iovec to{target, bytes};
  const ssize_t copied = ::syscall(SYS_process_vm_readv, ::getpid(), &to, 1UL, from.data(), count, 0UL);
  if (copied < 0 && (errno == ENOSYS || errno == EPERM)) {  // Forbidden in some containers.
    std::memcpy(target, source, bytes);
    return static_cast<ssize_t>(bytes);
  }
  return copied;
}

}  // namespace tiermap::preload
