#include "heap/file_copy.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "store/file_descriptor.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t copied_at_once = 1 << 20;
/// The kernel is asked for so much at once, so that progress shows.
constexpr std::size_t asked_at_once = 64 << 20;

using Copied = std::function<void(std::uint64_t)>;

/// By read() and write(), where the kernel does not copy between the two by itself. A negative errno value on failure.
std::int64_t copy_by_hand(int from, int to, off_t offset, std::size_t bytes, std::vector<char>& buffer) {
  buffer.resize(copied_at_once);
  const ssize_t got = ::pread(from, buffer.data(), std::min(bytes, buffer.size()), offset);
  if (got <= 0) {
    return got < 0 ? -errno : 0;
  }
  const ssize_t put = ::pwrite(to, buffer.data(), static_cast<std::size_t>(got), offset);
  return put < 0 ? -errno : put;
}

int copy_range(int from, int to, off_t offset, off_t end, const Copied& told) {
  std::vector<char> buffer;
  bool by_kernel = true;
  while (offset < end) {
    const auto bytes = std::min(static_cast<std::size_t>(end - offset), asked_at_once);
    std::int64_t copied = 0;
    if (by_kernel) {
      off_t source = offset;
      off_t target = offset;
      copied = ::copy_file_range(from, &source, to, &target, bytes, 0);
      by_kernel = copied > 0;
    }
    if (!by_kernel) {
      copied = copy_by_hand(from, to, offset, bytes, buffer);
    }
    if (copied <= 0 && copied != -EINTR) {
      return copied == 0 ? -EIO : static_cast<int>(copied);
    }
    copied = std::max<std::int64_t>(copied, 0);
    offset += copied;
    if (told) {
      told(static_cast<std::uint64_t>(copied));
    }
  }
  return 0;
}

int copy_data(int from, int to, off_t size, const Copied& told) {
  off_t offset = 0;
  while (offset < size) {
    const off_t data = ::lseek(from, offset, SEEK_DATA);
    if (data < 0) {
      if (errno == ENXIO) {
        return 0;
      }
      return errno == EINVAL ? copy_range(from, to, offset, size, told) : -errno;
    }
    const off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole < 0) {
      return -errno;
    }
    if (const int result = copy_range(from, to, data, std::min(hole, size), told); result != 0) {
      return result;
    }
    offset = hole;
  }
  return 0;
}

}  // namespace

void copy_sparse_file(const CopySource& from, const std::string& to, const Copied& copied) {
  const FileDescriptor source(::open(from.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!source.valid() || ::fstat(source.get(), &status) != 0) {
    throw_file_error(errno, from.called, "cannot be opened to be copied");
  }
  if (!S_ISREG(status.st_mode)) {
    throw StoreError(EINVAL, from.called + " is not a regular file, and is not copied: take it away");
  }
  // For nobody who may not read what is copied.
  const mode_t mode = (status.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) | S_IRUSR | S_IWUSR;
  const FileDescriptor target(::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!target.valid()) {
    throw_file_error(errno, to, "cannot be made");
  }
  int result = 0;
  if (::ioctl(target.get(), FICLONE, source.get()) != 0) {
    result = ::ftruncate(target.get(), status.st_size) != 0 ? -errno : 0;
    result = result == 0 ? copy_data(source.get(), target.get(), status.st_size, copied) : result;
  }
  if (result == 0 && ::fsync(target.get()) != 0) {
    result = -errno;
  }
  if (result != 0) {
    throw_file_error(-result, to, "cannot be written as a copy of " + from.called);
  }
}

}  // namespace tiermap
