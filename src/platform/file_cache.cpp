#include "platform/file_cache.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace tiermap {
namespace {

// cachestat (Linux 6.5), which older headers do not have; the number is the same on all processors.
constexpr long cachestat_call = 451;
struct CacheRange {
  std::uint64_t offset;
  std::uint64_t bytes;
};
struct CachePages {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t in_write_back;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

}  // namespace

int write_file_cache(int file_descriptor, std::uint64_t offset, std::uint64_t bytes, bool wait) noexcept {
  const unsigned flags =
      wait ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER : SYNC_FILE_RANGE_WRITE;
  if (bytes == 0 ||
      ::sync_file_range(file_descriptor, static_cast<off64_t>(offset), static_cast<off64_t>(bytes), flags) == 0) {
    return 0;
  }
  // Where the call itself is refused, as in some sandboxes, nothing is lost: the kernel writes when it likes.
  return errno == ENOSYS || errno == EPERM ? 0 : -errno;
}

void drop_file_cache(int file_descriptor, std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes > 0) {
    ::posix_fadvise(file_descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  }
}

CacheState file_cache_state(int file_descriptor, std::uint64_t offset, std::uint64_t bytes) noexcept {
  struct statfs file_system = {};
  if (::fstatfs(file_descriptor, &file_system) != 0 || file_system.f_type == TMPFS_MAGIC ||
      file_system.f_type == RAMFS_MAGIC) {
    return CacheState::unknown;
  }
  const CacheRange range{offset, bytes};
  CachePages pages{};
  if (::syscall(cachestat_call, file_descriptor, &range, &pages, 0) != 0) {
    return CacheState::unknown;
  }
  return pages.dirty + pages.in_write_back == 0 ? CacheState::clean : CacheState::dirty;
}

}  // namespace tiermap
