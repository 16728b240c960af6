// The calls that this library interposes, as the kernel has them: for the engine inside it, for itself, and for
// programs that call before the library is ready. Each returns -1 (or MAP_FAILED) and sets errno.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace tiermap::preload::kernel {

inline void* map(void* address, std::size_t length, int protection, int flags, int descriptor, off_t offset) noexcept {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, protection, flags, descriptor, offset));
}
inline int unmap(const void* address, std::size_t length) noexcept {
  return static_cast<int>(::syscall(SYS_munmap, address, length));
}
inline void* remap(void* address, std::size_t old_length, std::size_t new_length, int flags, void* target) noexcept {
  return reinterpret_cast<void*>(::syscall(SYS_mremap, address, old_length, new_length, flags, target));
}
inline int protect(void* address, std::size_t length, int protection) noexcept {
  return static_cast<int>(::syscall(SYS_mprotect, address, length, protection));
}
inline int advise(void* address, std::size_t length, int advice) noexcept {
  return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}
inline int synchronise(void* address, std::size_t length, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_msync, address, length, flags));
}
inline int status(int descriptor, struct stat* result) noexcept {
  return ::fstat(descriptor, result);
}

/// No program has memory from here on.
inline constexpr std::uintptr_t end_of_addresses = std::uintptr_t{1} << 47U;
/// The real page size: what the kernel rounds lengths to.
inline constexpr std::size_t page_bytes = 4096;
constexpr std::uint64_t round_up(std::uint64_t bytes) noexcept {
  return (bytes + page_bytes - 1) & ~std::uint64_t{page_bytes - 1};
}

}  // namespace tiermap::preload::kernel
