#include "platform/populate.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "platform/page_sizes.hpp"

namespace tiermap {
namespace {

#ifdef MADV_POPULATE_READ
constexpr int advice_populate = MADV_POPULATE_READ;
#else
constexpr int advice_populate = 22;
#endif
#ifdef MADV_COLD
constexpr int advice_cold = MADV_COLD;
#else
constexpr int advice_cold = 20;
#endif

}  // namespace

int populate_pages(std::byte* memory, std::uint64_t bytes) noexcept {
  if (bytes == 0) {
    return 0;
  }
  int result = ::madvise(memory, bytes, advice_populate);
  while (result != 0 && (errno == EINTR || errno == EAGAIN)) {
    result = ::madvise(memory, bytes, advice_populate);
  }
  if (result == 0) {
    return 0;
  }
  if (errno == EINVAL) {
    return populate_pages_one_by_one(memory, bytes);
  }
  return errno == EFAULT || errno == EHWPOISON ? -EIO : -errno;
}

int populate_in_one_piece(std::byte* memory, std::uint64_t bytes) noexcept {
  // Of a huge page one 4 KiB page is called cold: the kernel has to split it for that (but in locked memory, hence the
  // first call), and what was split stays where it is. A huge page left whole would be split by the first move of a
  // part of it, which fails as long as a device writes to another part.
  if (::madvise(memory, kernel_page_bytes, advice_cold) != 0 || ::madvise(memory, bytes, MADV_HUGEPAGE) != 0) {
    return -errno;
  }
  // A byte that is not zero in each page: since Linux 6.12 a split gives pages of zeros back, and maps the one page of
  // zeros.
  for (std::uint64_t offset = 0; offset < bytes; offset += kernel_page_bytes) {
    memory[offset] = std::byte{1};
  }
  for (std::uint64_t offset = 0; offset < bytes; offset += huge_page_bytes) {
    ::madvise(memory + offset, kernel_page_bytes, advice_cold);
  }
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return 0;
}

int populate_pages_one_by_one(std::byte* memory, std::uint64_t bytes) noexcept {
  ::madvise(memory, bytes, MADV_WILLNEED);
  for (std::uint64_t offset = 0; offset < bytes; offset += kernel_page_bytes) {
    std::byte taken;
    const iovec to{&taken, 1};
    const iovec from{memory + offset, 1};
    if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) != 1) {
      return errno == EFAULT ? -EIO : -errno;
    }
  }
  return 0;
}

}  // namespace tiermap
