#include "platform/populate.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace tiermap {
namespace {

#ifdef MADV_POPULATE_READ
constexpr int advice_populate = MADV_POPULATE_READ;
#else
constexpr int advice_populate = 22;
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

int populate_pages_one_by_one(std::byte* memory, std::uint64_t bytes) noexcept {
  ::madvise(memory, bytes, MADV_WILLNEED);
  for (std::uint64_t offset = 0; offset < bytes; offset += 4096) {
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
