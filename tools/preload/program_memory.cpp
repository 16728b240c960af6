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

namespace {

/// Of one call of the kernel: handlers run on stacks of 8 KiB, and this is on them.
constexpr std::size_t most_vectors = 16;

ssize_t copy_some(const std::byte* source, std::size_t bytes, std::byte* target) noexcept {
  // The kernel pins what one vector names before it copies any of it, and pinned pages cannot be given up: pages of a
  // region that are more than the budget would wait for themselves. So each vector names one page.
  std::array<iovec, most_vectors> from;
  std::size_t count = 0;
  std::size_t at = 0;
  while (at < bytes && count < from.size()) {
    const std::size_t to_page_end =
        kernel_page_bytes - reinterpret_cast<std::uintptr_t>(source + at) % kernel_page_bytes;
    from[count] = {const_cast<std::byte*>(source + at), std::min(to_page_end, bytes - at)};
    at += from[count].iov_len;
    ++count;
  }
  const iovec to{target, at};
  const ssize_t copied = ::syscall(SYS_process_vm_readv, ::getpid(), &to, 1UL, from.data(), count, 0UL);
  if (copied < 0 && (errno == ENOSYS || errno == EPERM)) {  // Forbidden in some containers.
    std::memcpy(target, source, at);
    return static_cast<ssize_t>(at);
  }
  return copied;
}

}  // namespace

ssize_t copy_from_program(const void* source, std::size_t bytes, void* target) noexcept {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t copied =
        copy_some(static_cast<const std::byte*>(source) + done, bytes - done, static_cast<std::byte*>(target) + done);
    if (copied <= 0) {
      return done > 0 ? static_cast<ssize_t>(done) : copied;
    }
    done += static_cast<std::size_t>(copied);
  }
  return static_cast<ssize_t>(done);
}

KeptPath::KeptPath(const char* path) noexcept : path_(path) {
  const ssize_t copied = copy_from_program(path, copy_.size(), copy_.data());
  if (copied > 0 && std::memchr(copy_.data(), '\0', static_cast<std::size_t>(copied)) != nullptr) {
    path_ = copy_.data();
  }
}

}  // namespace tiermap::preload
