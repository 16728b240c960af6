#include "platform/drop_pages.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tiermap {
namespace {

/// PIDFD_SELF of newer headers: this process without opening a descriptor (Linux 6.14). A descriptor would be
/// dangerous: in a child of fork() it names the parent.
constexpr int self = -10000;

#ifdef MADV_DONTNEED_LOCKED
constexpr int advice_drop = MADV_DONTNEED_LOCKED;
#else
constexpr int advice_drop = 24;
#endif

}  // namespace

void drop_pages(void* start, std::size_t bytes) noexcept {
  if (::madvise(start, bytes, advice_drop) != 0 && ::madvise(start, bytes, MADV_DONTNEED) != 0) {
    unlock_pages(start, bytes);
    ::madvise(start, bytes, MADV_DONTNEED);
  }
}

void unlock_pages(void* start, std::size_t bytes) noexcept {
  ::syscall(SYS_munlock, start, bytes);
}

void drop_pages(std::span<const iovec> ranges) noexcept {
  std::uint64_t dropped = 0;
  if (ranges.size() > 1) {
    const long result = ::syscall(SYS_process_madvise, self, ranges.data(), ranges.size(), advice_drop, 0U);
    dropped = result > 0 ? static_cast<std::uint64_t>(result) : 0;
  }
  for (const iovec& range : ranges) {
    if (dropped >= range.iov_len) {
      dropped -= range.iov_len;
    } else {
      dropped = 0;
      drop_pages(range.iov_base, range.iov_len);
    }
  }
}

}  // namespace tiermap
