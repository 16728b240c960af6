// What the engine and the libraries linked into this one call, in place of the names that are interposed here: the
// linker's --wrap sends them to the kernel. And nothing of this library is destroyed when the program ends: the
// program's last threads may still touch its memory then.
#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "preload/kernel_calls.hpp"
#include "preload/library.hpp"
#include "preload/next_call.hpp"
#include "preload/standard_error.hpp"

using tiermap::preload::NextCall;
namespace kernel = tiermap::preload::kernel;

namespace {

void engine_closes(int descriptor) noexcept {
  if (auto* own = tiermap::preload::descriptors_of_engine()) {
    own->remove(descriptor);
  }
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the C library and the linker chose these names.
extern "C" {

void* __wrap_mmap(void* address, size_t length, int protection, int flags, int descriptor, off_t offset) {
  return kernel::map(address, length, protection, flags, descriptor, offset);
}
void* __wrap_mmap64(void* address, size_t length, int protection, int flags, int descriptor, off_t offset)
    __attribute__((alias("__wrap_mmap")));
int __wrap_munmap(void* address, size_t length) {
  return kernel::unmap(address, length);
}
int __wrap_mprotect(void* address, size_t length, int protection) {
  return kernel::protect(address, length, protection);
}
int __wrap_madvise(void* address, size_t length, int advice) {
  return kernel::advise(address, length, advice);
}
int __wrap_msync(void* address, size_t length, int flags) {
  return kernel::synchronise(address, length, flags);
}
ssize_t __wrap_read(int descriptor, void* buffer, size_t bytes) {
  return ::syscall(SYS_read, descriptor, buffer, bytes);
}
ssize_t __wrap_write(int descriptor, const void* buffer, size_t bytes) {
  return ::syscall(SYS_write, descriptor, buffer, bytes);
}
ssize_t __wrap_readv(int descriptor, const iovec* vectors, int count) {
  return ::syscall(SYS_readv, descriptor, vectors, count);
}
ssize_t __wrap_writev(int descriptor, const iovec* vectors, int count) {
  if (descriptor == STDERR_FILENO && !tiermap::preload::standard_error_can_be_told()) {
    errno = EBADF;
    return -1;
  }
  return ::syscall(SYS_writev, descriptor, vectors, count);
}
ssize_t __wrap_pread(int descriptor, void* buffer, size_t bytes, off_t offset) {
  return ::syscall(SYS_pread64, descriptor, buffer, bytes, offset);
}
ssize_t __wrap_pread64(int descriptor, void* buffer, size_t bytes, off_t offset) __attribute__((alias("__wrap_pread")));
ssize_t __wrap_pwrite(int descriptor, const void* buffer, size_t bytes, off_t offset) {
  return ::syscall(SYS_pwrite64, descriptor, buffer, bytes, offset);
}
ssize_t __wrap_pwrite64(int descriptor, const void* buffer, size_t bytes, off_t offset)
    __attribute__((alias("__wrap_pwrite")));
ssize_t __wrap_preadv(int descriptor, const iovec* vectors, int count, off_t offset) {
  return ::syscall(SYS_preadv, descriptor, vectors, count, offset, 0);
}
ssize_t __wrap_pwritev(int descriptor, const iovec* vectors, int count, off_t offset) {
  return ::syscall(SYS_pwritev, descriptor, vectors, count, offset, 0);
}
int __wrap_ftruncate(int descriptor, off_t length) {
  return static_cast<int>(::syscall(SYS_ftruncate, descriptor, length));
}
int __wrap_ftruncate64(int descriptor, off_t length) __attribute__((alias("__wrap_ftruncate")));
int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t length) {
  return static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, offset, length));
}
int __wrap_fsync(int descriptor) {
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
int __wrap_fdatasync(int descriptor) {
  return static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}
int __wrap_flock(int descriptor, int operation) {
  return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}
int __wrap_close(int descriptor) {
  engine_closes(descriptor);
  return static_cast<int>(::syscall(SYS_close, descriptor));
}
int __wrap_open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int __wrap_openat(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  return static_cast<int>(::syscall(SYS_openat, directory, path, flags, mode));
}
int __wrap_fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);
  va_end(more);
  return static_cast<int>(::syscall(SYS_fcntl, descriptor, command, argument));
}

// A ring is opened and closed inside of liburing.
int __real_io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags) {
  const int result = __real_io_uring_queue_init(entries, ring, flags);
  if (auto* own = tiermap::preload::descriptors_of_engine(); own != nullptr && result == 0) {
    own->add_engines(ring->ring_fd);
  }
  return result;
}
void __real_io_uring_queue_exit(io_uring* ring);
void __wrap_io_uring_queue_exit(io_uring* ring) {
  engine_closes(ring->ring_fd);
  __real_io_uring_queue_exit(ring);
}

// Streams, which the C++ library has too: a thread of the engine that opened one would wait for the mappings' lock.
FILE* __wrap_fopen(const char* path, const char* mode) {
  static constinit NextCall<decltype(::fopen)> next("fopen");
  return next(path, mode);
}
FILE* __wrap_fopen64(const char* path, const char* mode) __attribute__((alias("__wrap_fopen")));
FILE* __wrap_fdopen(int descriptor, const char* mode) {
  static constinit NextCall<decltype(::fdopen)> next("fdopen");
  return next(descriptor, mode);
}
int __wrap_fclose(FILE* stream) {
  static constinit NextCall<decltype(::fclose)> next("fclose");
  return next(stream);
}

int __wrap_sigaction(int number, const struct sigaction* action, struct sigaction* before) {
  static constinit NextCall<int(int, const struct sigaction*, struct sigaction*)> next("sigaction");
  return next(number, action, before);
}

int __wrap___cxa_atexit(void (* /*function*/)(void*), void* /*argument*/, void* /*library*/) {
  return 0;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
