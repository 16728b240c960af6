#include "heap/journal_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "store/file_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

struct LockedFile {
  LockedFile() = default;
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  // A forked child has the lock too. It is the parent's to give up, and that is not left to the last descriptor.
  ~LockedFile() {
    store.reset();
    if (lock.valid() && ::getpid() == owner) {
      ::flock(lock.get(), LOCK_UN);
    }
  }
  std::unique_ptr<FileStore> store;
  FileDescriptor lock;  ///< Opened for the lock alone.
  const pid_t owner = ::getpid();
};

/// Through the kernel's page cache: what is written to slots one by one goes to the disk together at the next flush,
/// and most of it is read back soon, to be applied.
FileOptions journal_options() {
  FileOptions options;
  options.direct = false;
  return options;
}

std::shared_ptr<Store> open_existing(const std::string& path, OpenMode mode) {
  const bool writable = mode != OpenMode::read_only;
  const std::string heap = "heap " + std::filesystem::path(path).parent_path().string();
  const auto file = std::make_shared<LockedFile>();
  // Opening a FIFO would wait for whoever comes to write to it.
  file->lock = FileDescriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat locked = {};
  if (!file->lock.valid() || ::fstat(file->lock.get(), &locked) != 0) {
    throw_file_error(errno, path, "cannot be opened");
  }
  if (!S_ISREG(locked.st_mode)) {
    throw StoreError(EINVAL, path + " is not a regular file, and so not the journal of a heap: check the path");
  }
  if (::flock(file->lock.get(), (writable ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      throw_file_error(errno, path, "cannot be locked");
    }
    throw StoreError(EBUSY, heap + " is in use" + (writable ? "" : " by a writer") +
                                " elsewhere: close it there first" +
                                (writable ? ", since one heap takes one writer and no reader beside it" : ""));
  }
  // Who removes a heap holds the lock meanwhile: what was opened before that and locked after it is no heap's any more.
  struct stat named = {};
  if (::stat(path.c_str(), &named) != 0 || locked.st_ino != named.st_ino || locked.st_dev != named.st_dev) {
    throw StoreError(EBUSY, heap + " was removed while it was opened: try again");
  }
  file->store = FileStore::open(path, mode, 0, journal_options());
  return {file, file->store.get()};
}

}  // namespace

std::shared_ptr<Store> open_journal_file(const std::string& path, OpenMode mode) {
  if (mode != OpenMode::create) {
    return open_existing(path, mode);
  }
  FileStore::open(path, mode, 0, journal_options());
  try {
    return open_existing(path, OpenMode::read_write);
  } catch (const StoreError& error) {
    if (error.code().value() != EBUSY) {  // Nor is it somebody else's by now.
      ::unlink(path.c_str());
    }
    throw;
  }
}

}  // namespace tiermap
