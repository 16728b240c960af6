#include "store/file_transfer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tiermap {
namespace {

constexpr std::uint32_t largest_alignment = 4096;

/// Memory of its own for a moment: not of the stack, as programs that are served open files in threads with little of
/// that; not of the heap, whose lock a thread may hold that waits for an evictor's; and past mmap(), which a program's
/// calls of it may hold up.
class MomentaryMemory {
 public:
  explicit MomentaryMemory(std::size_t bytes) noexcept
      : bytes_(bytes),
        address_(::syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L)) {}
  ~MomentaryMemory() {
    if (valid()) {
      ::syscall(SYS_munmap, address_, bytes_);
    }
  }
  MomentaryMemory(const MomentaryMemory&) = delete;
  MomentaryMemory& operator=(const MomentaryMemory&) = delete;
  bool valid() const noexcept { return address_ != -1; }
  char* data() const noexcept { return reinterpret_cast<char*>(address_); }

 private:
  std::size_t bytes_;
  long address_;
};

/// How many of `bytes` the next call may move, and by which way.
struct Piece {
  std::size_t bytes;
  bool direct;
};

/// Direct I/O wants offset, address and length aligned alike. A head that is not goes through the page cache up to the
/// next boundary, if direct I/O can go on from there.
Piece next_piece(std::uintptr_t address, std::uint64_t offset, std::size_t bytes, std::uint64_t alignment) noexcept {
  const std::uint64_t past = offset % alignment;
  const std::uint64_t head = past == 0 ? 0 : alignment - past;
  const bool reachable = (address + head) % alignment == 0 && bytes >= head + alignment;
  if (!reachable) {
    return {bytes, false};
  }
  if (head != 0) {
    return {static_cast<std::size_t>(head), false};
  }
  return {static_cast<std::size_t>(bytes - bytes % alignment), true};
}

template <typename Byte, typename Transfer>
std::int64_t transfer_in_pieces(Byte* buffer, std::size_t bytes, std::uint64_t offset, int direct, int buffered,
                                std::uint64_t alignment, Transfer transfer) noexcept {
  if (direct < 0) {
    return transfer(buffered, buffer, bytes, offset);
  }
  std::size_t done = 0;
  while (done < bytes) {
    Byte* const at = buffer + done;
    const Piece piece = next_piece(reinterpret_cast<std::uintptr_t>(at), offset + done, bytes - done, alignment);
    std::int64_t moved = transfer(piece.direct ? direct : buffered, at, piece.bytes, offset + done);
    if (moved == -EINVAL && piece.direct) {
      // A file system that took O_DIRECT at open() may still refuse it for a file of a certain kind.
      moved = transfer(buffered, at, piece.bytes, offset + done);
    }
    if (moved < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : moved;
    }
    done += static_cast<std::size_t>(moved);
    if (static_cast<std::size_t>(moved) < piece.bytes) {
      break;
    }
  }
  return static_cast<std::int64_t>(done);
}

}  // namespace

std::int64_t read_fully(int descriptor, void* buffer, std::size_t bytes, std::uint64_t offset) noexcept {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(descriptor, static_cast<char*>(buffer) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    // After a direct read that ended at the end of the file, what is left is not aligned: that is the end, no error.
    if (got < 0 && errno == EINVAL && done > 0) {
      break;
    }
    if (got < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : -errno;
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t write_fully(int descriptor, const void* buffer, std::size_t bytes, std::uint64_t offset) noexcept {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t put =
        ::pwrite(descriptor, static_cast<const char*>(buffer) + done, bytes - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      const int error = put == 0 ? ENOSPC : errno;
      return done > 0 ? static_cast<std::int64_t>(done) : -error;
    }
    done += static_cast<std::size_t>(put);
  }
  return static_cast<std::int64_t>(done);
}

int punch_hole(int descriptor, std::uint64_t offset, std::uint64_t bytes) noexcept {
  int result = 0;
  do {
    result = ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : -errno;
}

int lengthen(int descriptor, std::uint64_t offset, std::uint64_t end) noexcept {
  int result = 0;
  do {
    result = ::fallocate(descriptor, 0, static_cast<off_t>(offset), static_cast<off_t>(end - offset));
  } while (result != 0 && errno == EINTR);
  if (result == 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM)) {
    return result == 0 ? 0 : -errno;
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    return -errno;
  }
  const bool long_enough = static_cast<std::uint64_t>(status.st_size) >= end;
  return long_enough || ::ftruncate(descriptor, static_cast<off_t>(end)) == 0 ? 0 : -errno;
}

int synchronise(int descriptor, bool whole) noexcept {
  int result = 0;
  do {
    result = whole ? ::fsync(descriptor) : ::fdatasync(descriptor);
  } while (result < 0 && errno == EINTR);
  return result < 0 ? -errno : 0;
}

std::uint32_t probe_direct_alignment(int direct) {
#ifdef STATX_DIOALIGN
  struct statx status = {};
  if (::statx(direct, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    const std::uint32_t wanted = std::max({status.stx_dio_mem_align, status.stx_dio_offset_align, 512U});
    return status.stx_dio_offset_align == 0 || wanted > largest_alignment ? 0 : wanted;
  }
#endif
  // An older kernel: try. The address is aligned to just what is being tried. A file with nothing in it answers every
  // length alike, so then the largest is taken.
  struct stat file = {};
  if (::fstat(direct, &file) != 0 || (S_ISREG(file.st_mode) && file.st_size < static_cast<off_t>(largest_alignment))) {
    return largest_alignment;
  }
  const MomentaryMemory buffer(2 * std::size_t{largest_alignment});
  if (!buffer.valid()) {
    return largest_alignment;
  }
  for (std::uint64_t alignment = 512; alignment <= largest_alignment; alignment *= 2) {
    // ThreadSanitizer does not see such memory come and go: with pread() it took what another thread had had at the
    // same address before for a race.
    if (::syscall(SYS_pread64, direct, buffer.data() + alignment, alignment, alignment) >= 0) {
      return static_cast<std::uint32_t>(alignment);
    }
    if (errno != EINVAL) {
      return largest_alignment;  // An error of the disk says nothing about alignment.
    }
  }
  return 0;
}

FileDescriptor open_direct(int directory, const std::string& path, int like, bool writable) {
  FileDescriptor direct(::openat(directory, path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC));
  struct stat first = {};
  struct stat second = {};
  if (!direct.valid() || ::fstat(like, &first) != 0 || ::fstat(direct.get(), &second) != 0 ||
      first.st_dev != second.st_dev || first.st_ino != second.st_ino || probe_direct_alignment(direct.get()) == 0) {
    return FileDescriptor();
  }
  return direct;
}

DirectFile::DirectFile(FileDescriptor buffered, FileDescriptor direct)
    : buffered_(std::move(buffered)), direct_(std::move(direct)) {
  if (direct_.valid()) {
    alignment_ = probe_direct_alignment(direct_.get());
    // What goes through the page cache beside direct I/O is small and must not bring neighbours with it: a neighbour
    // read ahead while a direct write to it is under way would stay in the cache as it was.
    ::posix_fadvise(buffered_.get(), 0, 0, POSIX_FADV_RANDOM);
  }
}

std::int64_t DirectFile::read(void* buffer, std::size_t bytes, std::uint64_t offset) const noexcept {
  return transfer_in_pieces(static_cast<char*>(buffer), bytes, offset, direct_.get(), buffered_.get(), alignment_,
                            read_fully);
}

std::int64_t DirectFile::write(const void* buffer, std::size_t bytes, std::uint64_t offset) const noexcept {
  return transfer_in_pieces(static_cast<const char*>(buffer), bytes, offset, direct_.get(), buffered_.get(),
                            write_block_bytes, write_fully);
}

}  // namespace tiermap
