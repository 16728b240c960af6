// mmap() and its family. What has nothing to do with a served range goes straight to the kernel.
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdarg>

#include "preload/kernel_calls.hpp"
#include "preload/library.hpp"
#include "preload/next_call.hpp"
#include "preload/program_memory.hpp"

using tiermap::preload::Mappings;
using tiermap::preload::mappings_for_caller;
using tiermap::preload::NextCall;
using tiermap::preload::value_at;
namespace kernel = tiermap::preload::kernel;

namespace {

/// The mappings, if the range overlaps what is served.
Mappings* served(const void* address, size_t length) noexcept {
  Mappings* mappings = mappings_for_caller();
  return mappings != nullptr && mappings->served().overlap(address, length == 0 ? 1 : length) ? mappings : nullptr;
}

std::byte* bytes_at(const void* address) noexcept {
  return static_cast<std::byte*>(const_cast<void*>(address));
}

/// Locked memory stays the kernel's: it knows the limits, and the budget does not.
void give_back_locked(const void* address, size_t length) {
  if (Mappings* mappings = served(address, length)) {
    mappings->give_back(bytes_at(address), length, "it was locked into memory");
  }
}

}  // namespace

TIERMAP_EXPORTED void* mmap(void* address, size_t length, int protection, int flags, int descriptor,
                            off_t offset) noexcept {
  Mappings* mappings = mappings_for_caller();
  const bool over_served = (flags & MAP_FIXED) != 0 && served(address, length) != nullptr;
  if (mappings == nullptr || length == 0 || ((flags & MAP_ANONYMOUS) != 0 && !over_served)) {
    return kernel::map(address, length, protection, flags, descriptor, offset);
  }
  return mappings->map({address, length, protection, flags, descriptor, offset});
}
TIERMAP_EXPORTED void* mmap64(void* address, size_t length, int protection, int flags, int descriptor,
                              off_t offset) noexcept __attribute__((alias("mmap")));

TIERMAP_EXPORTED int munmap(void* address, size_t length) noexcept {
  Mappings* mappings = served(address, length);
  return mappings == nullptr ? kernel::unmap(address, length) : mappings->unmap(bytes_at(address), length);
}

TIERMAP_EXPORTED void* mremap(void* address, size_t old_length, size_t new_length, int flags, ...) noexcept {
  void* target = nullptr;
  if ((flags & (MREMAP_FIXED | 4 /* MREMAP_DONTUNMAP */)) != 0) {
    va_list more;
    va_start(more, flags);
    target = va_arg(more, void*);
    va_end(more);
  }
  Mappings* mappings = served(address, old_length);
  if (mappings == nullptr && (flags & MREMAP_FIXED) != 0) {
    mappings = served(target, new_length);
  }
  return mappings == nullptr ? kernel::remap(address, old_length, new_length, flags, target)
                             : mappings->remap(bytes_at(address), old_length, new_length, flags, target);
}

TIERMAP_EXPORTED int mprotect(void* address, size_t length, int protection) noexcept {
  if (Mappings* mappings = served(address, length)) {
    return mappings->protect(bytes_at(address), length, protection);
  }
  if (Mappings* mappings = mappings_for_caller();
      (protection & PROT_WRITE) != 0 && mappings != nullptr && mappings->has_kernels_to_protect()) {
    mappings->before_protect_of_kernels(bytes_at(address), length);
  }
  return kernel::protect(address, length, protection);
}

TIERMAP_EXPORTED int madvise(void* address, size_t length, int advice) noexcept {
  Mappings* mappings = served(address, length);
  return mappings == nullptr ? kernel::advise(address, length, advice)
                             : mappings->advise(bytes_at(address), length, advice);
}

TIERMAP_EXPORTED int posix_madvise(void* address, size_t length, int advice) noexcept {
  if (advice == POSIX_MADV_DONTNEED) {  // As the C library has it: the kernel's would drop what was written.
    return 0;
  }
  const int before = errno;
  const int result = madvise(address, length, advice) == 0 ? 0 : errno;
  errno = before;
  return result;
}

// The kernel's own calls are none where a thread can be cancelled.
TIERMAP_EXPORTED int msync(void* address, size_t length, int flags) {
  pthread_testcancel();
  Mappings* mappings = served(address, length);
  return mappings == nullptr ? kernel::synchronise(address, length, flags)
                             : mappings->synchronise(bytes_at(address), length, flags);
}

// Which page of the file is seen where: only the kernel can shuffle them.
TIERMAP_EXPORTED int remap_file_pages(void* address, size_t length, int protection, size_t page, int flags) noexcept {
  if (Mappings* mappings = served(address, length)) {
    mappings->give_back(bytes_at(address), length, "remap_file_pages() shuffles its pages");
  }
  return static_cast<int>(::syscall(SYS_remap_file_pages, address, length, protection, page, flags));
}

// Tells of the pages that are in place: the kernel knows.
TIERMAP_EXPORTED int mincore(void* address, size_t length, unsigned char* vector) noexcept {
  return static_cast<int>(::syscall(SYS_mincore, address, length, vector));
}

TIERMAP_EXPORTED int mlock(const void* address, size_t length) noexcept {
  give_back_locked(address, length);
  return static_cast<int>(::syscall(SYS_mlock, address, length));
}
TIERMAP_EXPORTED int mlock2(const void* address, size_t length, unsigned flags) noexcept {
  give_back_locked(address, length);
  return static_cast<int>(::syscall(SYS_mlock2, address, length, flags));
}
TIERMAP_EXPORTED int munlock(const void* address, size_t length) noexcept {
  return static_cast<int>(::syscall(SYS_munlock, address, length));
}
TIERMAP_EXPORTED int mlockall(int flags) noexcept {
  Mappings* mappings = mappings_for_caller();
  return mappings == nullptr ? static_cast<int>(::syscall(SYS_mlockall, flags)) : mappings->lock_all(flags);
}
TIERMAP_EXPORTED int munlockall() noexcept {
  Mappings* mappings = mappings_for_caller();
  return mappings == nullptr ? static_cast<int>(::syscall(SYS_munlockall)) : mappings->unlock_all();
}

// --- Limits of addresses, of which what the engine keeps in reserve would leave the program nothing.

namespace {

int limit(pid_t process, int resource, const rlimit* wanted, rlimit* before) noexcept {
  Mappings* mappings = mappings_for_caller();
  const bool own = mappings != nullptr && mappings->owned_by_caller() && (process == 0 || process == ::getpid());
  if (own && wanted != nullptr && (resource == RLIMIT_AS || resource == RLIMIT_DATA) &&
      value_at(wanted).value_or(rlimit{RLIM_INFINITY, RLIM_INFINITY}).rlim_cur != RLIM_INFINITY) {
    mappings->end_engine("the program limits its addresses");
  }
  return static_cast<int>(::syscall(SYS_prlimit64, process, resource, wanted, before));
}

}  // namespace

TIERMAP_EXPORTED int setrlimit(__rlimit_resource_t resource, const rlimit* wanted) noexcept {
  return limit(0, static_cast<int>(resource), wanted, nullptr);
}
TIERMAP_EXPORTED int setrlimit64(__rlimit_resource_t resource, const rlimit64* wanted) noexcept
    __attribute__((alias("setrlimit")));
TIERMAP_EXPORTED int prlimit(pid_t process, __rlimit_resource resource, const rlimit* wanted, rlimit* before) noexcept {
  return limit(process, static_cast<int>(resource), wanted, before);
}
TIERMAP_EXPORTED int prlimit64(pid_t process, __rlimit_resource resource, const rlimit64* wanted,
                               rlimit64* before) noexcept __attribute__((alias("prlimit")));

// --- Memory that is given away and read later, when its pages may have become others.

namespace {

void give_back_sent(const iovec* vectors, size_t count) {
  if (tiermap::preload::served_mappings() == nullptr) {
    return;
  }
  for (size_t index = 0; index < count; ++index) {
    if (Mappings* mappings = served(vectors[index].iov_base, vectors[index].iov_len)) {
      mappings->give_back(bytes_at(vectors[index].iov_base), vectors[index].iov_len, "its pages were sent uncopied");
    }
  }
}

}  // namespace

TIERMAP_EXPORTED ssize_t vmsplice(int descriptor, const iovec* vectors, size_t count, unsigned flags) {
  give_back_sent(vectors, count);
  return ::syscall(SYS_vmsplice, descriptor, vectors, count, flags);
}
TIERMAP_EXPORTED ssize_t send(int descriptor, const void* buffer, size_t bytes, int flags) {
  static constinit NextCall<decltype(::send)> next("send");
  if ((flags & MSG_ZEROCOPY) != 0) {
    const iovec vector{const_cast<void*>(buffer), bytes};
    give_back_sent(&vector, 1);
  }
  return next(descriptor, buffer, bytes, flags);
}
TIERMAP_EXPORTED ssize_t sendto(int descriptor, const void* buffer, size_t bytes, int flags, const sockaddr* address,
                                socklen_t length) {
  static constinit NextCall<decltype(::sendto)> next("sendto");
  if ((flags & MSG_ZEROCOPY) != 0) {
    const iovec vector{const_cast<void*>(buffer), bytes};
    give_back_sent(&vector, 1);
  }
  return next(descriptor, buffer, bytes, flags, address, length);
}
TIERMAP_EXPORTED ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  static constinit NextCall<decltype(::sendmsg)> next("sendmsg");
  if ((flags & MSG_ZEROCOPY) != 0 && message != nullptr) {
    give_back_sent(message->msg_iov, message->msg_iovlen);
  }
  return next(descriptor, message, flags);
}
TIERMAP_EXPORTED int sendmmsg(int descriptor, mmsghdr* messages, unsigned count, int flags) {
  static constinit NextCall<decltype(::sendmmsg)> next("sendmmsg");
  for (unsigned index = 0; (flags & MSG_ZEROCOPY) != 0 && messages != nullptr && index < count; ++index) {
    give_back_sent(messages[index].msg_hdr.msg_iov, messages[index].msg_hdr.msg_iovlen);
  }
  return next(descriptor, messages, count, flags);
}
