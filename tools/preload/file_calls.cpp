// Calls that read, change or synchronise files. They cost a look at a counter while nothing is served, and an fstat()
// while something is.
#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
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

/// The program's buffers, copied where they lie in served memory: while the file is changed some of that may be held.
class Source {
 public:
  Source(const Mappings* mappings, const iovec* vectors, int count) : vectors_(vectors, vectors + std::max(count, 0)) {
    for (iovec& vector : vectors_) {
      if (mappings != nullptr && mappings->served().overlap(vector.iov_base, vector.iov_len)) {
        const auto* start = static_cast<const std::byte*>(vector.iov_base);
        copies_.emplace_back(start, start + vector.iov_len);
        vector.iov_base = copies_.back().data();
      }
    }
  }
  const iovec* vectors() const noexcept { return vectors_.data(); }
  const void* first() const noexcept { return vectors_.front().iov_base; }

 private:
  std::vector<iovec> vectors_;
  std::vector<std::vector<std::byte>> copies_;
};

/// Writes what one buffer holds.
template <typename Call>
ssize_t write_one(int descriptor, const void* buffer, size_t bytes, off_t offset, Call call) {
  if (served_mappings() == nullptr) {
    return call(buffer);
  }
  const iovec vector{const_cast<void*>(buffer), bytes};
  const Source source(served_file(descriptor, false).mappings, &vector, 1);
  return around_change(descriptor, offset, bytes, [&] { return call(source.first()); });
}

template <typename Call>
ssize_t write_many(int descriptor, const iovec* vectors, int count, off_t offset, Call call) {
  if (served_mappings() == nullptr || count <= 0) {
    return call(vectors);
  }
  const Source source(served_file(descriptor, false).mappings, vectors, count);
  return around_change(descriptor, offset, bytes_of(vectors, count), [&] { return call(source.vectors()); });
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
  return write_one(descriptor, buffer, bytes, -1,
                   [&](const void* source) { return next_calls().write(descriptor, source, bytes); });
}
TIERMAP_EXPORTED ssize_t pwrite(int descriptor, const void* buffer, size_t bytes, off_t offset) {
  if (next_calls().pwrite == nullptr || offset < 0) {
    return ::syscall(SYS_pwrite64, descriptor, buffer, bytes, offset);
  }
  return write_one(descriptor, buffer, bytes, offset,
                   [&](const void* source) { return next_calls().pwrite(descriptor, source, bytes, offset); });
}
TIERMAP_EXPORTED ssize_t pwrite64(int descriptor, const void* buffer, size_t bytes, off_t offset)
    __attribute__((alias("pwrite")));
TIERMAP_EXPORTED ssize_t writev(int descriptor, const iovec* vectors, int count) {
  if (next_calls().writev == nullptr) {
    return ::syscall(SYS_writev, descriptor, vectors, count);
  }
  return write_many(descriptor, vectors, count, -1,
                    [&](const iovec* source) { return next_calls().writev(descriptor, source, count); });
}
TIERMAP_EXPORTED ssize_t pwritev(int descriptor, const iovec* vectors, int count, off_t offset) {
  return write_many(descriptor, vectors, count, std::max<off_t>(offset, 0),
                    [&](const iovec* source) { return next_calls().pwritev(descriptor, source, count, offset); });
}
TIERMAP_EXPORTED ssize_t pwritev64(int descriptor, const iovec* vectors, int count, off_t offset)
    __attribute__((alias("pwritev")));
TIERMAP_EXPORTED ssize_t pwritev2(int descriptor, const iovec* vectors, int count, off_t offset, int flags) {
  return write_many(descriptor, vectors, count, offset, [&](const iovec* source) {
    return next_calls().pwritev2(descriptor, source, count, offset, flags);
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
