#include "heap/directory_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::chrono::milliseconds between_looks{1};

FileDescriptor open_to_lock(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool are_one(const struct stat& one, const struct stat& other) noexcept {
  return one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

}  // namespace

std::optional<DirectoryLock> DirectoryLock::existing(const std::string& path, std::chrono::milliseconds wait) {
  const Deadline deadline = std::chrono::steady_clock::now() + wait;
  while (true) {
    DirectoryLock found(open_to_lock(path));
    if (!found.directory_.valid()) {
      if (errno == ENOENT || errno == ENOTDIR) {
        return std::nullopt;
      }
      throw_file_error(errno, "heap " + path, "cannot be opened");
    }
    found.lock(path, deadline);
    // Who removed a heap meanwhile has taken this directory away, and another may be there.
    if (found.is_at(path)) {
      return found;
    }
  }
}

DirectoryLock DirectoryLock::making(const std::string& path, std::chrono::milliseconds wait) {
  const Deadline deadline = std::chrono::steady_clock::now() + wait;
  while (true) {
    const bool own = ::mkdir(path.c_str(), 0777) == 0;
    if (!own && errno != EEXIST) {
      throw_file_error(errno, "heap " + path, "cannot be made");
    }
    DirectoryLock made(open_to_lock(path));
    if (!made.directory_.valid() && errno != ENOENT) {
      const int error = errno;
      if (own) {
        ::rmdir(path.c_str());  // Only if nobody has begun a heap in it.
      }
      throw_file_error(error == ENOTDIR ? EEXIST : error, "heap " + path, "cannot be made");
    }
    if (made.directory_.valid()) {
      made.lock(path, deadline);
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
void DirectoryLock::lock(const std::string& path, Deadline deadline) const {
  while (::flock(directory_.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      throw StoreError(EBUSY, "heap " + path +
                                  " is in use: somebody has its directory locked, to make or remove a heap or for "
                                  "something else: wait until that is done, or stop it");
    }
    std::this_thread::sleep_for(between_looks);
  }
}

bool DirectoryLock::is_at(const std::string& path) const noexcept {
  struct stat own = {};
  struct stat named = {};
  return ::fstat(directory_.get(), &own) == 0 && ::stat(path.c_str(), &named) == 0 && are_one(own, named);
}

bool DirectoryLock::is_of(int directory) const noexcept {
  struct stat own = {};
  struct stat other = {};
  return ::fstat(directory_.get(), &own) == 0 && ::fstat(directory, &other) == 0 && are_one(own, other);
}

}  // namespace tiermap
