#include "store/file_store.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tiermap/error.hpp"

namespace tiermap {

std::unique_ptr<FileStore> FileStore::open(const std::string& path, OpenMode mode, std::uint64_t create_bytes,
                                           const FileOptions& options) {
  const bool writable = mode != OpenMode::read_only;
  // Two processes may open_or_create one path at once: who finds it made in the meantime opens it.
  for (int attempt = 0;; ++attempt) {
    try {
      if (mode != OpenMode::create) {
        return std::make_unique<FileStore>(path, open_file(path, writable, options.direct), writable, options);
      }
      return std::make_unique<FileStore>(path, create_file(path, create_bytes, options.direct), writable, options);
    } catch (const StoreError& error) {
      if (mode != OpenMode::open_or_create || error.code().value() != ENOENT) {
        throw;
      }
    }
    try {
      return std::make_unique<FileStore>(path, create_file(path, create_bytes, options.direct), writable, options);
    } catch (const StoreError& error) {
      if (error.code().value() != EEXIST || attempt > 0) {
        throw;
      }
    }
  }
}

std::unique_ptr<FileStore> FileStore::open_nameless(const std::string& directory, const std::string& what) {
  const FileDescriptor file = open_nameless_file(directory);
  if (!file.valid()) {
    throw_file_error(errno, directory, "cannot take " + what);
  }
  return open("/proc/self/fd/" + std::to_string(file.get()), OpenMode::read_write, 0, FileOptions());
}

FileStore::FileStore(std::string path, OpenedFile opened, bool writable, const FileOptions& options)
    : path_(std::move(path)),
      file_(std::move(opened.file)),
      options_(options),
      writable_(writable),
      regular_(opened.regular),
      size_(opened.bytes) {}

/// The size to go by for something that ends at `end`. Only what ends past the size known is worth a look at the file:
/// another program may have added to it. fstat() may be called in a signal handler, which must leave errno alone.
std::uint64_t FileStore::size_for(std::uint64_t end) const noexcept {
  const std::uint64_t known = size_bytes();
  if (end <= known || !regular_) {
    return known;
  }
  const int saved = errno;
  struct stat status = {};
  const bool seen = ::fstat(file_.descriptor(), &status) == 0;
  errno = saved;
  return seen ? static_cast<std::uint64_t>(status.st_size) : known;
}

void FileStore::note_actual_size() noexcept {
  const std::lock_guard lock(growth_mutex_);
  struct stat status = {};
  if (regular_ && ::fstat(file_.descriptor(), &status) == 0) {
    const std::uint64_t before = size_.exchange(static_cast<std::uint64_t>(status.st_size), std::memory_order_acq_rel);
    lost_end_.store(std::max(lost_end_.load(), before));
  }
}

std::int64_t FileStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (offset > largest_file_bytes || offset >= size_for(offset + bytes)) {
    return 0;
  }
  const std::int64_t got = file_.read(buffer, bytes, offset);
  if (got >= 0 && static_cast<std::uint64_t>(got) < bytes) {
    note_actual_size();
  }
  return got;
}

std::int64_t FileStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  if (offset > largest_file_bytes || bytes > largest_file_bytes - offset) {
    return -EFBIG;
  }
  if (offset + bytes <= size_bytes()) {
    return file_.write(buffer, bytes, offset);
  }
  if (!regular_) {
    const std::uint64_t room = size_bytes() - std::min(size_bytes(), offset);
    return room == 0 ? -ENOSPC : file_.write(buffer, static_cast<std::size_t>(room), offset);
  }
  const std::lock_guard lock(growth_mutex_);
  const std::int64_t put = file_.write(buffer, bytes, offset);
  if (put > 0) {
    size_changed_.store(true);
    size_.store(std::max(size_bytes(), offset + static_cast<std::uint64_t>(put)), std::memory_order_release);
  }
  return put;
}

int FileStore::flush() {
  if (!writable_) {
    return 0;
  }
  return flushes_.run([this] { return synchronise(file_.buffered(), size_changed_.exchange(false)); });
}

int FileStore::resize(std::uint64_t bytes) {
  if (!writable_) {
    return -EROFS;
  }
  if (!regular_) {
    return -ENOTSUP;
  }
  if (bytes > largest_file_bytes) {
    return -EFBIG;
  }
  const std::lock_guard lock(growth_mutex_);
  std::uint64_t size = bytes;
  if (bytes > size_bytes()) {
    // Who has made it longer meanwhile, and longer than this, keeps what is there.
    struct stat status = {};
    const int result = lengthen(file_.buffered(), bytes - 1, bytes);
    if (result != 0 || ::fstat(file_.buffered(), &status) != 0) {
      return result != 0 ? result : -errno;
    }
    size = static_cast<std::uint64_t>(status.st_size);
  } else if (::ftruncate(file_.buffered(), static_cast<off_t>(bytes)) != 0) {
    return -errno;
  }
  size_changed_.store(true);
  size_.store(size, std::memory_order_release);
  lost_end_.store(0);
  return 0;
}

int FileStore::punch(std::uint64_t offset, std::uint64_t bytes) {
  if (!writable_) {
    return -EROFS;
  }
  const std::uint64_t size = size_bytes();
  return offset >= size || bytes == 0 ? 0 : punch_hole(file_.buffered(), offset, std::min(bytes, size - offset));
}

bool FileStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  if (bytes == 0 || offset > largest_file_bytes || bytes > largest_file_bytes) {
    return false;
  }
  // What somebody cut off since, noticed or not, is not simply zeros: reading it is to fail.
  const std::uint64_t size = std::max({size_for(offset + bytes), size_bytes(), lost_end_.load()});
  if (offset >= size) {
    extent = {-1, offset, bytes, true};
    return true;
  }
  // The block that holds the end is handed out whole: a direct read of it comes back short.
  const std::uint64_t alignment = file_.read_alignment();
  const std::uint64_t rest = (size - offset + alignment - 1) / alignment * alignment;
  const std::uint64_t take = std::min(bytes, rest) / alignment * alignment;
  if (offset % alignment != 0 || take == 0) {
    return false;
  }
  extent = {file_.descriptor(), offset, take, false, true};
  return true;
}

bool FileStore::locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept {
  const std::uint64_t alignment = file_.write_alignment();
  if (!writable_ || offset % alignment != 0 || offset > largest_file_bytes || bytes > largest_file_bytes - offset) {
    return false;
  }
  const std::uint64_t take = bytes / alignment * alignment;
  if (take == 0 || !grow_file_to(offset, offset + take)) {
    return false;
  }
  extent = {file_.descriptor(), offset, take, false};
  return true;
}

/// The file gets its new length before the write from `offset` on that fills it, since nobody tells the store when that
/// write is done.
bool FileStore::grow_file_to(std::uint64_t offset, std::uint64_t end) noexcept {
  if (end <= size_bytes()) {
    return true;
  }
  const std::lock_guard lock(growth_mutex_);
  struct stat status = {};
  if (!regular_ || ::fstat(file_.descriptor(), &status) != 0) {
    return false;
  }
  std::uint64_t size = static_cast<std::uint64_t>(status.st_size);
  if (size < end) {
    if (lengthen(file_.buffered(), offset, end) != 0) {
      return false;
    }
    size_changed_.store(true);
    size = end;
  }
  size_.store(size, std::memory_order_release);
  return true;
}

}  // namespace tiermap
