#include "heap/heap_entries.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/file_descriptor.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

void require_path(const std::string& path) {
  if (path.empty()) {
    throw StoreError(ENOENT, "the path of a heap is empty: name one");
  }
  if (path.find('\0') != std::string::npos) {
    throw StoreError(EINVAL, "heap " + path + ": a path cannot have a byte of zero in it: check the path");
  }
}

bool is_there(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_directory(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

void make_durable(const std::string& path) {
  const FileDescriptor entry(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (entry.valid() && ::fsync(entry.get()) != 0 && errno == EIO) {
    throw_file_error(EIO, path, "cannot be made durable");
  }
}

}  // namespace tiermap
