#include "umap_interface/descriptor_store.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string>

#include "store/file_open.hpp"
#include "store/file_store.hpp"
#include "store/forwarding_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap::umap_interface {
namespace {

bool allow_more_files() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) {
    return false;
  }
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, limit.rlim_cur * 4);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// Where the file cannot be opened a second time (its permissions have changed since, /proc is not there): the
/// program's own open file. Its O_DIRECT, if it has it, is not to be relied on: it is the program's to switch.
std::unique_ptr<FileStore> duplicate(int descriptor, const std::string& path, bool writable) {
  FileDescriptor own(::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  struct stat status = {};
  if (!own.valid() || ::fstat(own.get(), &status) != 0) {
    throw_file_error(errno, path, "cannot be duplicated");
  }
  const int flags = ::fcntl(own.get(), F_GETFL);
  if (!S_ISREG(status.st_mode) || (flags & O_DIRECT) != 0) {
    throw_file_error(EACCES, path, "cannot be opened a second time");
  }
  if (writable && (flags & O_APPEND) != 0) {  // All that is written there goes to the file's end.
    throw_file_error(EACCES, path, "is open for appending, and cannot be opened a second time");
  }
  OpenedFile opened;
  opened.bytes = static_cast<std::uint64_t>(status.st_size);
  opened.file = DirectFile(std::move(own), FileDescriptor());
  FileOptions options;
  options.direct = false;
  return std::make_unique<FileStore>(path, std::move(opened), writable, options);
}

/// The file's own path, for messages.
std::string name_of(int descriptor) {
  std::array<char, PATH_MAX> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  return length < 0 ? link : std::string(target.data(), static_cast<std::size_t>(length));
}

/// Throws StoreError for what is not open, or cannot be read.
bool is_writable(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  const std::string name = "file descriptor " + std::to_string(descriptor);
  if (flags < 0) {
    throw StoreError(errno, name + " is not open: open the file before it is mapped");
  }
  if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_PATH) != 0) {
    throw StoreError(EACCES, name + " cannot be read: open the file for reading and writing");
  }
  return (flags & O_ACCMODE) == O_RDWR;
}

/// With more descriptors than the program began with, if it may have them: UMap's programs have one a region already.
std::unique_ptr<FileStore> open_path(const std::string& path, const std::string& name, bool writable) {
  const FileOptions options;
  const auto open = [&] {
    return std::make_unique<FileStore>(name, open_file(path, writable, options.direct), writable, options);
  };
  try {
    return open();
  } catch (const StoreError& error) {
    if (error.code().value() != EMFILE || !allow_more_files()) {
      throw;
    }
  }
  return open();
}

void refuse_directory(int descriptor, const std::string& name) {
  struct stat status = {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    throw StoreError(EISDIR, name +
                                 " is a directory: give the descriptor of a file, or a Umap::SparseStore of the "
                                 "directory to Umap::umap_ex()");
  }
}

/// It may grow all the same: fault mode kernel can map no further than a file goes.
class CappedStore final : public ForwardingStore {
 public:
  explicit CappedStore(const std::shared_ptr<FileStore>& file) : ForwardingStore(file), file_(*file) {}

  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::uint64_t end = file_.actual_bytes();
    if (offset >= end) {
      return static_cast<std::int64_t>(bytes);
    }
    const auto kept = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, end - offset));
    const std::int64_t put = file_.write(buffer, kept, offset);
    return put == static_cast<std::int64_t>(kept) ? static_cast<std::int64_t>(bytes) : put;
  }
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    const std::uint64_t end = file_.actual_bytes();
    return offset < end && file_.locate_write(offset, std::min(bytes, end - offset), extent);
  }

 private:
  FileStore& file_;
};

/// Calls `transfer(done)` until all is done, nothing comes, or it fails.
template <typename Transfer>
ssize_t transfer_whole(const char* buffer, std::size_t bytes, off_t offset, Transfer&& transfer) noexcept {
  if (offset < 0 || (buffer == nullptr && bytes != 0)) {  // Zeros that no file holds are put there by us.
    errno = offset < 0 ? EINVAL : EFAULT;
    return -1;
  }
  std::size_t done = 0;
  while (done < bytes) {
    const std::int64_t result = transfer(done);
    if (result < 0 && done == 0) {
      errno = static_cast<int>(-result);
      return -1;
    }
    if (result <= 0) {
      break;
    }
    done += static_cast<std::size_t>(result);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

std::unique_ptr<FileStore> open_descriptor(int descriptor) {
  const bool writable = is_writable(descriptor);
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const std::string name = name_of(descriptor);
  refuse_directory(descriptor, name);
  try {
    return open_path(path, name, writable);
  } catch (const StoreError& error) {
    const int number = error.code().value();
    if (number != EACCES && number != EPERM && number != ENOENT && number != EROFS) {
      throw;
    }
  }
  return duplicate(descriptor, name, writable);
}

std::shared_ptr<FileStore> OpenFiles::open(int descriptor) {
  struct stat status = {};
  const bool writable = is_writable(descriptor);
  if (::fstat(descriptor, &status) != 0) {
    throw_file_error(errno, "file descriptor " + std::to_string(descriptor), "cannot be examined");
  }
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<FileStore>& known = files_[{status.st_dev, status.st_ino, writable}];
  std::shared_ptr<FileStore> file = known.lock();
  if (file == nullptr) {
    file = open_descriptor(descriptor);
    known = file;
  }
  return file;
}

std::shared_ptr<Store> capped(const std::shared_ptr<FileStore>& file) {
  return std::make_shared<CappedStore>(file);
}

ssize_t read_whole(Store& store, char* buffer, std::size_t bytes, off_t offset) noexcept {
  return transfer_whole(buffer, bytes, offset, [&](std::size_t done) {
    return store.read(buffer + done, bytes - done, static_cast<std::uint64_t>(offset) + done);
  });
}

ssize_t write_whole(Store& store, const char* buffer, std::size_t bytes, off_t offset) noexcept {
  return transfer_whole(buffer, bytes, offset, [&](std::size_t done) {
    return store.write(buffer + done, bytes - done, static_cast<std::uint64_t>(offset) + done);
  });
}

ssize_t DescriptorStore::read_from_store(char* buf, std::size_t nb, off_t off) {
  return read_whole(*file_, buf, nb, off);
}

ssize_t DescriptorStore::write_to_store(char* buf, std::size_t nb, off_t off) {
  return write_whole(*file_, buf, nb, off);
}

}  // namespace tiermap::umap_interface
