// Calls that read, change or synchronise files. They cost a look at a counter while nothing is served, and an fstat()
// while something is.
#include <errno.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "preload/kernel_calls.hpp"
#include "preload/served_file.hpp"

using tiermap::preload::around_change;
using tiermap::preload::Mappings;
using tiermap::preload::next_calls;
using tiermap::preload::position_of;
using tiermap::preload::served_file;
using tiermap::preload::served_mappings;
using tiermap::preload::ServedFile;

namespace {

std::uint64_t bytes_of(const iovec* vectors, int count) noexcept {
  std::uint64_t bytes = 0;
  for (int index = 0; index < count; ++index) {
    bytes += vectors[index].iov_len;
  }
  return bytes;
}

/// Before a read of `bytes` at `offset`, or at the descriptor's position if that is negative.
void before_read(int descriptor, off_t offset, std::uint64_t bytes) noexcept {
  if (const ServedFile file = served_file(descriptor, true)) {
    const std::uint64_t from = offset < 0 ? position_of(descriptor) : static_cast<std::uint64_t>(offset);
    file.mappings->before_read(file.file, from, bytes);
  }
}

constexpr std::size_t piece_bytes = std::size_t{1} << 20U;

/// Copies a piece of the program's memory, a bad address of which is an error and no signal. Returns as read() does.
ssize_t copy_piece(const std::byte* source, std::size_t bytes, std::byte* target) noexcept {
  const iovec from{const_cast<std::byte*>(source), bytes};
  const iovec to{target, bytes};
  const ssize_t copied = ::syscall(SYS_process_vm_readv, ::getpid(), &to, 1UL, &from, 1UL, 0UL);
  if (copied < 0 && (errno == ENOSYS || errno == EPERM)) {  // Forbidden in some containers.
    std::memcpy(target, source, bytes);
    return static_cast<ssize_t>(bytes);
  }
  return copied;
}

/// Whether one of the buffers lies in served memory and all of them where a program may have memory at all.
bool comes_from_served(const iovec* vectors, int count) noexcept {
  constexpr std::uintptr_t end_of_addresses = std::uintptr_t{1} << 47U;
  const Mappings* mappings = served_mappings();
  bool found = false;
  for (int index = 0; index < count; ++index) {
    const auto start = reinterpret_cast<std::uintptr_t>(vectors[index].iov_base);
    if (start > end_of_addresses || vectors[index].iov_len > end_of_addresses - start) {
      return false;
    }
    found = found || mappings->served().overlap(vectors[index].iov_base, vectors[index].iov_len);
  }
  return found;
}

/// Writes buffers of which some lie in served memory, by copies: while the file is changed some of that may be held. In
/// pieces, so that no more is copied than the budget can bear.
template <typename Call>
ssize_t write_copies(int descriptor, const iovec* vectors, int count, off_t offset, off_t changed, Call call) {
  std::vector<std::byte> copy(piece_bytes);
  ssize_t done = 0;
  for (int index = 0; index < count; ++index) {
    const auto* start = static_cast<const std::byte*>(vectors[index].iov_base);
    for (std::size_t at = 0; at < vectors[index].iov_len;) {
      const std::size_t wanted = std::min(vectors[index].iov_len - at, piece_bytes);
      const ssize_t copied = copy_piece(start + at, wanted, copy.data());
      const iovec piece{copy.data(), static_cast<std::size_t>(std::max<ssize_t>(copied, 0))};
      const ssize_t written =
          copied <= 0 ? -1 : around_change(descriptor, changed < 0 ? -1 : changed + done, piece.iov_len, [&] {
            return call(&piece, 1, offset < 0 ? offset : offset + done);
          });
      if (written < 0) {
        return done > 0 ? done : -1;
      }
      done += written;
      at += static_cast<std::size_t>(written);
      if (static_cast<std::size_t>(written) < wanted) {
        return done;
      }
    }
  }
  return done;
}

/// Writes at `offset`, or where the descriptor stands if that is negative. `changed` is where the file will change, if
/// that is elsewhere.
template <typename Call>
ssize_t write_buffers(int descriptor, const iovec* vectors, int count, off_t offset, off_t changed, Call call) {
  if (served_mappings() == nullptr || count <= 0) {
    return call(vectors, count, offset);
  }
  // Linux appends, whatever the offset.
  if (changed >= 0 && (static_cast<int>(::syscall(SYS_fcntl, descriptor, F_GETFL)) & O_APPEND) != 0) {
    changed = -1;
  }
  if (served_file(descriptor, false) && comes_from_served(vectors, count)) {
    return write_copies(descriptor, vectors, count, offset, changed, call);
  }
  return around_change(descriptor, changed, bytes_of(vectors, count), [&] { return call(vectors, count, offset); });
}

}  // namespace

// --- Reading.

TIERMAP_EXPORTED ssize_t read(int descriptor, void* buffer, size_t bytes) {
  before_read(descriptor, -1, bytes);
  return next_calls().read == nullptr ? ::syscall(SYS_read, descriptor, buffer, bytes)
                                      : next_calls().read(descriptor, buffer, bytes);
}
TIERMAP_EXPORTED ssize_t pread(int descriptor, void* buffer, size_t bytes, off_t offset) {
  before_read(descriptor, offset, bytes);
  return next_calls().pread == nullptr ? ::syscall(SYS_pread64, descriptor, buffer, bytes, offset)
                                       : next_calls().pread(descriptor, buffer, bytes, offset);
}
TIERMAP_EXPORTED ssize_t pread64(int descriptor, void* buffer, size_t bytes, off_t offset)
    __attribute__((alias("pread")));
TIERMAP_EXPORTED ssize_t readv(int descriptor, const iovec* vectors, int count) {
  before_read(descriptor, -1, bytes_of(vectors, count));
  return next_calls().readv == nullptr ? ::syscall(SYS_readv, descriptor, vectors, count)
                                       : next_calls().readv(descriptor, vectors, count);
}
TIERMAP_EXPORTED ssize_t preadv(int descriptor, const iovec* vectors, int count, off_t offset) {
  before_read(descriptor, offset, bytes_of(vectors, count));
  return next_calls().preadv(descriptor, vectors, count, offset);
}
TIERMAP_EXPORTED ssize_t preadv64(int descriptor, const iovec* vectors, int count, off_t offset)
    __attribute__((alias("preadv")));
TIERMAP_EXPORTED ssize_t preadv2(int descriptor, const iovec* vectors, int count, off_t offset, int flags) {
  before_read(descriptor, offset, bytes_of(vectors, count));
  return next_calls().preadv2(descriptor, vectors, count, offset, flags);
}
TIERMAP_EXPORTED ssize_t preadv64v2(int descriptor, const iovec* vectors, int count, off_t offset, int flags)
    __attribute__((alias("preadv2")));
// NOLINTBEGIN(bugprone-reserved-identifier): the C library and the linker chose these names.
// What the compiler makes of reads into buffers whose size it knows; a read that is too large ends the program there.
extern "C" [[noreturn]] void __chk_fail();
TIERMAP_EXPORTED ssize_t __read_chk(int descriptor, void* buffer, size_t bytes, size_t room) {
  return bytes > room ? (__chk_fail(), -1) : read(descriptor, buffer, bytes);
}
TIERMAP_EXPORTED ssize_t __pread_chk(int descriptor, void* buffer, size_t bytes, off_t offset, size_t room) {
  return bytes > room ? (__chk_fail(), -1) : pread(descriptor, buffer, bytes, offset);
}
TIERMAP_EXPORTED ssize_t __pread64_chk(int descriptor, void* buffer, size_t bytes, off_t offset, size_t room)
    __attribute__((alias("__pread_chk")));
// NOLINTEND(bugprone-reserved-identifier)

// --- Writing.

TIERMAP_EXPORTED ssize_t write(int descriptor, const void* buffer, size_t bytes) {
  if (next_calls().write == nullptr) {
    return ::syscall(SYS_write, descriptor, buffer, bytes);
  }
  const iovec vector{const_cast<void*>(buffer), bytes};
  return write_buffers(descriptor, &vector, 1, -1, -1, [&](const iovec* source, int, off_t) {
    return next_calls().write(descriptor, source->iov_base, source->iov_len);
  });
}
TIERMAP_EXPORTED ssize_t pwrite(int descriptor, const void* buffer, size_t bytes, off_t offset) {
  if (next_calls().pwrite == nullptr || offset < 0) {
    return ::syscall(SYS_pwrite64, descriptor, buffer, bytes, offset);
  }
  const iovec vector{const_cast<void*>(buffer), bytes};
  return write_buffers(descriptor, &vector, 1, offset, offset, [&](const iovec* source, int, off_t at) {
    return next_calls().pwrite(descriptor, source->iov_base, source->iov_len, at);
  });
}
TIERMAP_EXPORTED ssize_t pwrite64(int descriptor, const void* buffer, size_t bytes, off_t offset)
    __attribute__((alias("pwrite")));
TIERMAP_EXPORTED ssize_t writev(int descriptor, const iovec* vectors, int count) {
  if (next_calls().writev == nullptr) {
    return ::syscall(SYS_writev, descriptor, vectors, count);
  }
  return write_buffers(descriptor, vectors, count, -1, -1, [&](const iovec* source, int sources, off_t) {
    return next_calls().writev(descriptor, source, sources);
  });
}
TIERMAP_EXPORTED ssize_t pwritev(int descriptor, const iovec* vectors, int count, off_t offset) {
  if (offset < 0) {
    return next_calls().pwritev(descriptor, vectors, count, offset);
  }
  return write_buffers(descriptor, vectors, count, offset, offset, [&](const iovec* source, int sources, off_t at) {
    return next_calls().pwritev(descriptor, source, sources, at);
  });
}
TIERMAP_EXPORTED ssize_t pwritev64(int descriptor, const iovec* vectors, int count, off_t offset)
    __attribute__((alias("pwritev")));
TIERMAP_EXPORTED ssize_t pwritev2(int descriptor, const iovec* vectors, int count, off_t offset, int flags) {
  off_t changed = offset;
  if ((flags & RWF_APPEND) != 0) {
    if (const ServedFile file = served_file(descriptor, false)) {
      changed = static_cast<off_t>(file.bytes);
    }
  }
  return write_buffers(descriptor, vectors, count, offset, changed, [&](const iovec* source, int sources, off_t at) {
    return next_calls().pwritev2(descriptor, source, sources, at, flags);
  });
}
TIERMAP_EXPORTED ssize_t pwritev64v2(int descriptor, const iovec* vectors, int count, off_t offset, int flags)
    __attribute__((alias("pwritev2")));

// --- From file to file.

TIERMAP_EXPORTED ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes,
                                         unsigned flags) {
  before_read(in, in_offset == nullptr ? -1 : *in_offset, bytes);
  return around_change(out, out_offset == nullptr ? -1 : *out_offset, bytes,
                       [&] { return next_calls().copy_file_range(in, in_offset, out, out_offset, bytes, flags); });
}
TIERMAP_EXPORTED ssize_t sendfile(int out, int in, off_t* offset, size_t bytes) noexcept {
  before_read(in, offset == nullptr ? -1 : *offset, bytes);
  return around_change(out, -1, bytes, [&] { return next_calls().sendfile(out, in, offset, bytes); });
}
TIERMAP_EXPORTED ssize_t sendfile64(int out, int in, off64_t* offset, size_t bytes) noexcept
    __attribute__((alias("sendfile")));
TIERMAP_EXPORTED ssize_t splice(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes,
                                unsigned flags) {
  before_read(in, in_offset == nullptr ? -1 : *in_offset, bytes);
  return around_change(out, out_offset == nullptr ? -1 : *out_offset, bytes,
                       [&] { return next_calls().splice(in, in_offset, out, out_offset, bytes, flags); });
}

// --- The size.

TIERMAP_EXPORTED int ftruncate(int descriptor, off_t length) noexcept {
  return around_change(descriptor, std::max<off_t>(length, 0), length < 0 ? 0 : INT64_MAX,
                       [&] { return static_cast<int>(::syscall(SYS_ftruncate, descriptor, length)); });
}
TIERMAP_EXPORTED int ftruncate64(int descriptor, off_t length) noexcept __attribute__((alias("ftruncate")));
TIERMAP_EXPORTED int truncate(const char* path, off_t length) noexcept {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_truncate, path, length)); };
  if (served_mappings() == nullptr) {
    return call();
  }
  const auto descriptor = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC));
  if (descriptor < 0) {
    return call();
  }
  const int result = around_change(descriptor, std::max<off_t>(length, 0), length < 0 ? 0 : INT64_MAX, call);
  const int error = errno;
  ::syscall(SYS_close, descriptor);
  errno = error;
  return result;
}
TIERMAP_EXPORTED int truncate64(const char* path, off_t length) noexcept __attribute__((alias("truncate")));
TIERMAP_EXPORTED int fallocate(int descriptor, int mode, off_t offset, off_t length) {
  const bool moves = (mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE)) != 0;
  return around_change(descriptor, std::max<off_t>(offset, 0),
                       moves ? INT64_MAX : static_cast<std::uint64_t>(std::max<off_t>(length, 0)),
                       [&] { return static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, offset, length)); });
}
TIERMAP_EXPORTED int fallocate64(int descriptor, int mode, off_t offset, off_t length)
    __attribute__((alias("fallocate")));
TIERMAP_EXPORTED int posix_fallocate(int descriptor, off_t offset, off_t length) {
  return around_change(descriptor, std::max<off_t>(offset, 0), static_cast<std::uint64_t>(std::max<off_t>(length, 0)),
                       [&] { return next_calls().posix_fallocate(descriptor, offset, length); });
}
TIERMAP_EXPORTED int posix_fallocate64(int descriptor, off_t offset, off_t length)
    __attribute__((alias("posix_fallocate")));

// --- Durability: of what was stored into the mapping too.

TIERMAP_EXPORTED int fsync(int descriptor) {
  before_read(descriptor, 0, INT64_MAX);
  return next_calls().fsync == nullptr ? static_cast<int>(::syscall(SYS_fsync, descriptor))
                                       : next_calls().fsync(descriptor);
}
TIERMAP_EXPORTED int fdatasync(int descriptor) {
  before_read(descriptor, 0, INT64_MAX);
  return next_calls().fdatasync == nullptr ? static_cast<int>(::syscall(SYS_fdatasync, descriptor))
                                           : next_calls().fdatasync(descriptor);
}
TIERMAP_EXPORTED void sync() noexcept {
  if (Mappings* mappings = served_mappings()) {
    mappings->write_back_all();
  }
  ::syscall(SYS_sync);
}
TIERMAP_EXPORTED int syncfs(int descriptor) noexcept {
  if (Mappings* mappings = served_mappings()) {
    mappings->write_back_all();
  }
  return static_cast<int>(::syscall(SYS_syncfs, descriptor));
}
