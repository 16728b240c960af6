#include "heap/directory_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "store/file_open.hpp"

namespace tiermap {
namespace {

FileDescriptor open_to_lock(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& path) : DirectoryLock(open_to_lock(path)) {
  if (!directory_.valid()) {
    throw_file_error(errno, "heap " + path, "cannot be opened");
  }
  lock();
}

DirectoryLock DirectoryLock::making(const std::string& path) {
  while (true) {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      throw_file_error(errno, "heap " + path, "cannot be made");
    }
    DirectoryLock made(open_to_lock(path));
    if (!made.directory_.valid() && errno != ENOENT) {
      throw_file_error(errno == ENOTDIR ? EEXIST : errno, "heap " + path, "cannot be made");
    }
    if (made.directory_.valid()) {
      made.lock();
    }
    // Who made it in vain, or removed a heap, may have taken it away before it was locked.
    if (made.is_at(path)) {
      return made;
    }
  }
}

// A child forked meanwhile has the lock too: closing alone would leave it with him.
DirectoryLock::~DirectoryLock() {
  if (directory_.valid()) {
    ::flock(directory_.get(), LOCK_UN);
  }
}

// Where a file system locks no directories, the journal's lock has to do: it comes a moment after the journal.
void DirectoryLock::lock() const noexcept {
  while (::flock(directory_.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
}

bool DirectoryLock::is_at(const std::string& path) const noexcept {
  struct stat own = {};
  struct stat named = {};
  return ::fstat(directory_.get(), &own) == 0 && ::stat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

}  // namespace tiermap
