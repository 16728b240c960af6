// Calls that read, change or synchronise files. They cost a look at a counter while nothing is served, and an fstat()
// while something is.
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "platform/page_sizes.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/program_memory.hpp"
#include "preload/served_file.hpp"

using tiermap::kernel_page_bytes;
using tiermap::preload::around_change;
using tiermap::preload::Change;
using tiermap::preload::copy_from_program;
using tiermap::preload::for_each_vector;
using tiermap::preload::IfUnwritten;
using tiermap::preload::Mappings;
using tiermap::preload::most_program_bytes;
using tiermap::preload::next_calls;
using tiermap::preload::others_may_map;
using tiermap::preload::position_of;
using tiermap::preload::served_file;
using tiermap::preload::served_mappings;
using tiermap::preload::ServedFile;
using tiermap::preload::value_at;

namespace {

/// Writes what was stored there: 0, or the errno value of why the file has not got all of it.
int write_stored(int descriptor, off_t offset, std::uint64_t bytes) noexcept {
  const ServedFile file = served_file(descriptor, true);
  if (!file) {
    return 0;
  }
  const std::uint64_t from = offset < 0 ? position_of(descriptor) : static_cast<std::uint64_t>(offset);
  return file.mappings->before_read(file.file, from, bytes);
}

/// Before a read of `bytes` at `offset`, or at the descriptor's position if that is negative. False, with errno, if
/// what was stored there cannot be written: who read the file then would read what was there before.
bool before_read(int descriptor, off_t offset, std::uint64_t bytes) noexcept {
  if (write_stored(descriptor, offset, bytes) != 0) {
    errno = EIO;
    return false;
  }
  return true;
}
/// The same, into these. What cannot be is for the kernel to refuse.
bool before_read(int descriptor, off_t offset, const iovec* vectors, int count) noexcept {
  std::uint64_t bytes = 0;
  return served_mappings() == nullptr ||
         !for_each_vector(vectors, count, [&](iovec vector) { bytes += vector.iov_len; }) ||
         before_read(descriptor, offset, bytes);
}
/// At an offset that the program keeps somewhere, or where the descriptor stands if that is nowhere.
off_t offset_at(const off64_t* place) noexcept {
  return place == nullptr || served_mappings() == nullptr ? -1 : value_at(place).value_or(0);
}

/// What is to be known of a call's buffers.
struct Buffers {
  const Mappings* mappings;
  std::uint64_t bytes = 0;
  bool possible = true;  ///< All of them lie where a program may have memory at all.
  bool served = false;   ///< Some of them, or the list of them, lie in served memory.

  void add(iovec vector) noexcept {
    using tiermap::preload::kernel::end_of_addresses;
    const auto start = reinterpret_cast<std::uintptr_t>(vector.iov_base);
    bytes += vector.iov_len;
    possible = possible && start <= end_of_addresses && vector.iov_len <= end_of_addresses - start;
    served = served || (possible && mappings->served().overlap(vector.iov_base, vector.iov_len));
  }
};

/// Writes buffers of which some lie in served memory, by copies: while the file is changed some of that may be held. In
/// pieces, so that no more is copied than the budget can bear.
template <typename Call>
ssize_t write_copies(int descriptor, const iovec* vectors, int count, off_t offset, off_t changed, Call call) {
  // As direct I/O wants it.
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kernel_page_bytes, most_program_bytes)), &std::free);
  std::byte* const copy = memory.get();
  if (copy == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  ssize_t done = 0;
  for (const iovec& vector : std::span(vectors, static_cast<std::size_t>(count))) {
    const auto* start = static_cast<const std::byte*>(vector.iov_base);
    for (std::size_t at = 0; at < vector.iov_len;) {
      const std::size_t wanted = std::min(vector.iov_len - at, most_program_bytes);
      const ssize_t copied = copy_from_program(start + at, wanted, copy);
      const iovec piece{copy, static_cast<std::size_t>(std::max<ssize_t>(copied, 0))};
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
  const Change change(descriptor);
  const ServedFile file = count > 0 ? served_file(descriptor, false) : ServedFile{};
  if (!file) {
    const ssize_t result = call(vectors, count, offset);
    change.end();
    return result;
  }
  change.end();
  // Linux appends, whatever the offset.
  if (changed >= 0 && (static_cast<int>(::syscall(SYS_fcntl, descriptor, F_GETFL)) & O_APPEND) != 0) {
    changed = -1;
  }
  pthread_testcancel();  // What follows is not cancelled, as it holds locks.
  Buffers buffers{.mappings = file.mappings};
  buffers.served = file.mappings->served().overlap(vectors, static_cast<std::size_t>(count) * sizeof(iovec));
  if (!for_each_vector(vectors, count, [&](iovec vector) { buffers.add(vector); })) {
    return call(vectors, count, offset);
  }
  if (buffers.possible && buffers.served) {
    return write_copies(descriptor, vectors, count, offset, changed, call);
  }
  return around_change(descriptor, changed, buffers.bytes, [&] { return call(vectors, count, offset); });
}

}  // namespace

// --- Reading.

TIERMAP_EXPORTED ssize_t read(int descriptor, void* buffer, size_t bytes) {
  if (!before_read(descriptor, -1, bytes)) {
    return -1;
  }
  return next_calls().read == nullptr ? ::syscall(SYS_read, descriptor, buffer, bytes)
                                      : next_calls().read(descriptor, buffer, bytes);
}
TIERMAP_EXPORTED ssize_t pread(int descriptor, void* buffer, size_t bytes, off_t offset) {
  if (!before_read(descriptor, offset, bytes)) {
    return -1;
  }
  return next_calls().pread == nullptr ? ::syscall(SYS_pread64, descriptor, buffer, bytes, offset)
                                       : next_calls().pread(descriptor, buffer, bytes, offset);
}
TIERMAP_EXPORTED ssize_t pread64(int descriptor, void* buffer, size_t bytes, off_t offset)
    __attribute__((alias("pread")));
TIERMAP_EXPORTED ssize_t readv(int descriptor, const iovec* vectors, int count) {
  if (!before_read(descriptor, -1, vectors, count)) {
    return -1;
  }
  return next_calls().readv == nullptr ? ::syscall(SYS_readv, descriptor, vectors, count)
                                       : next_calls().readv(descriptor, vectors, count);
}
TIERMAP_EXPORTED ssize_t preadv(int descriptor, const iovec* vectors, int count, off_t offset) {
  if (!before_read(descriptor, offset, vectors, count)) {
    return -1;
  }
  return next_calls().preadv(descriptor, vectors, count, offset);
}
TIERMAP_EXPORTED ssize_t preadv64(int descriptor, const iovec* vectors, int count, off_t offset)
    __attribute__((alias("preadv")));
TIERMAP_EXPORTED ssize_t preadv2(int descriptor, const iovec* vectors, int count, off_t offset, int flags) {
  if (!before_read(descriptor, offset, vectors, count)) {
    return -1;
  }
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

namespace {

ssize_t write_on(int descriptor, const void* buffer, size_t bytes) {
  if (next_calls().write == nullptr) {
    return ::syscall(SYS_write, descriptor, buffer, bytes);
  }
  const iovec vector{const_cast<void*>(buffer), bytes};
  return write_buffers(descriptor, &vector, 1, -1, -1, [&](const iovec* source, int, off_t) {
    return next_calls().write(descriptor, source->iov_base, source->iov_len);
  });
}

/// dprintf() writes inside the C library, where nobody else sees it.
__attribute__((format(printf, 2, 0))) int print_on(int descriptor, const char* format, va_list arguments) {
  char* text = nullptr;
  const int length = ::vasprintf(&text, format, arguments);
  int done = 0;
  while (done < length) {
    const ssize_t written = write_on(descriptor, text + done, static_cast<size_t>(length - done));
    if (written < 0) {
      break;
    }
    done += static_cast<int>(written);
  }
  const int error = errno;
  std::free(text);
  errno = error;
  return length >= 0 && done == length ? length : -1;
}

}  // namespace

TIERMAP_EXPORTED ssize_t write(int descriptor, const void* buffer, size_t bytes) {
  return write_on(descriptor, buffer, bytes);
}
TIERMAP_EXPORTED __attribute__((format(printf, 2, 0))) int vdprintf(int descriptor, const char* format,
                                                                    va_list arguments) {
  return print_on(descriptor, format, arguments);
}
TIERMAP_EXPORTED __attribute__((format(printf, 2, 3))) int dprintf(int descriptor, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = print_on(descriptor, format, arguments);
  va_end(arguments);
  return result;
}
// NOLINTBEGIN(bugprone-reserved-identifier): the C library chose these names.
TIERMAP_EXPORTED __attribute__((format(printf, 3, 0))) int __vdprintf_chk(int descriptor, int, const char* format,
                                                                          va_list arguments) {
  return print_on(descriptor, format, arguments);
}
TIERMAP_EXPORTED __attribute__((format(printf, 3, 4))) int __dprintf_chk(int descriptor, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = print_on(descriptor, format, arguments);
  va_end(arguments);
  return result;
}
// NOLINTEND(bugprone-reserved-identifier)
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

namespace {

/// An offset that the program keeps somewhere, for a call that must not look there: it may lie in memory that is held
/// while the call runs.
class KeptOffset {
 public:
  explicit KeptOffset(off64_t* place) noexcept : place_(place) {
    if (place != nullptr && served_mappings() != nullptr) {
      copy_ = value_at(place);
    }
  }
  off64_t* get() noexcept { return copy_.has_value() ? &*copy_ : place_; }
  /// What the call has made of it.
  void put_back() const noexcept {
    if (copy_.has_value()) {
      *place_ = *copy_;
    }
  }

 private:
  off64_t* const place_;
  std::optional<off64_t> copy_;
};

}  // namespace

TIERMAP_EXPORTED ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes,
                                         unsigned flags) {
  if (!before_read(in, offset_at(in_offset), bytes)) {
    return -1;
  }
  KeptOffset from(in_offset);
  KeptOffset to(out_offset);
  const ssize_t result = around_change(out, offset_at(out_offset), bytes, [&] {
    return next_calls().copy_file_range(in, from.get(), out, to.get(), bytes, flags);
  });
  if (result > 0) {
    from.put_back();
    to.put_back();
  }
  return result;
}
TIERMAP_EXPORTED ssize_t sendfile(int out, int in, off_t* offset, size_t bytes) noexcept {
  if (!before_read(in, offset_at(offset), bytes)) {
    return -1;
  }
  KeptOffset from(offset);
  const ssize_t result =
      around_change(out, -1, bytes, [&] { return next_calls().sendfile(out, in, from.get(), bytes); });
  if (result > 0) {
    from.put_back();
  }
  return result;
}
TIERMAP_EXPORTED ssize_t sendfile64(int out, int in, off64_t* offset, size_t bytes) noexcept
    __attribute__((alias("sendfile")));
// A pipe may have nothing to give for as long as it likes, and pages that were given to one are still to be sent: locks
// cannot be held so long, nor pages.
TIERMAP_EXPORTED ssize_t splice(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes,
                                unsigned flags) {
  if (!before_read(in, offset_at(in_offset), bytes)) {
    return -1;
  }
  if (const ServedFile file = served_file(out, false)) {
    file.mappings->give_back_file(file.file, "splice() writes to the file");
  }
  const Change change(out, true);
  if (const ServedFile file = served_file(out, false)) {  // Since just now.
    file.mappings->give_back_file(file.file, "splice() writes to the file");
  }
  const ssize_t result = next_calls().splice(in, in_offset, out, out_offset, bytes, flags);
  change.end();
  return result;
}

// --- Where a file has data and where holes.

TIERMAP_EXPORTED off_t lseek(int descriptor, off_t offset, int whence) noexcept {
  if ((whence == SEEK_DATA || whence == SEEK_HOLE) && !before_read(descriptor, 0, INT64_MAX)) {
    return -1;
  }
  return ::syscall(SYS_lseek, descriptor, offset, whence);
}
TIERMAP_EXPORTED off_t lseek64(int descriptor, off_t offset, int whence) noexcept __attribute__((alias("lseek")));

// --- The size.

TIERMAP_EXPORTED int ftruncate(int descriptor, off_t length) noexcept {
  return around_change(
      descriptor, std::max<off_t>(length, 0), length < 0 ? 0 : INT64_MAX,
      [&] { return static_cast<int>(::syscall(SYS_ftruncate, descriptor, length)); }, IfUnwritten::go_on);
}
TIERMAP_EXPORTED int ftruncate64(int descriptor, off_t length) noexcept __attribute__((alias("ftruncate")));
TIERMAP_EXPORTED int truncate(const char* path, off_t length) noexcept {
  if (served_mappings() == nullptr && !others_may_map()) {
    return static_cast<int>(::syscall(SYS_truncate, path, length));
  }
  const tiermap::preload::KeptPath kept(path);
  const auto call = [&] { return static_cast<int>(::syscall(SYS_truncate, kept.get(), length)); };
  const auto descriptor = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC));
  if (descriptor < 0) {
    return call();
  }
  const int result =
      around_change(descriptor, std::max<off_t>(length, 0), length < 0 ? 0 : INT64_MAX, call, IfUnwritten::go_on);
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
  int error = 0;
  const auto call = [&] {
    error = next_calls().posix_fallocate(descriptor, offset, length);
    return 0;
  };
  const int before = errno;
  if (around_change(descriptor, std::max<off_t>(offset, 0), static_cast<std::uint64_t>(std::max<off_t>(length, 0)),
                    call) != 0) {
    error = errno;
  }
  errno = before;
  return error;
}
TIERMAP_EXPORTED int posix_fallocate64(int descriptor, off_t offset, off_t length)
    __attribute__((alias("posix_fallocate")));

// --- Durability: of what was stored into the mapping too.

namespace {

/// The call is made in any case: the rest is to be durable.
int result_after(int problem, int result) noexcept {
  if (problem == 0) {
    return result;
  }
  errno = problem;
  return -1;
}

}  // namespace

TIERMAP_EXPORTED int fsync(int descriptor) {
  const int problem = write_stored(descriptor, 0, INT64_MAX);
  return result_after(problem, next_calls().fsync == nullptr ? static_cast<int>(::syscall(SYS_fsync, descriptor))
                                                             : next_calls().fsync(descriptor));
}
TIERMAP_EXPORTED int fdatasync(int descriptor) {
  const int problem = write_stored(descriptor, 0, INT64_MAX);
  return result_after(problem, next_calls().fdatasync == nullptr
                                   ? static_cast<int>(::syscall(SYS_fdatasync, descriptor))
                                   : next_calls().fdatasync(descriptor));
}
TIERMAP_EXPORTED void sync() noexcept {
  if (Mappings* mappings = served_mappings()) {
    static_cast<void>(mappings->write_back_all());
  }
  ::syscall(SYS_sync);
}
TIERMAP_EXPORTED int syncfs(int descriptor) noexcept {
  Mappings* mappings = served_mappings();
  const int problem = mappings != nullptr ? mappings->write_back_all() : 0;
  return result_after(problem, static_cast<int>(::syscall(SYS_syncfs, descriptor)));
}
