#include "store/sparse_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "store/directory_entries.hpp"
#include "store/file_open.hpp"
#include "store/sparse_metadata.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char lock_name[] = "lock";
constexpr std::string_view segment_prefix = "segment-";
constexpr std::size_t segment_digits = 10;
constexpr std::string_view temporary_mark = ".new";

/// Long enough for "segment-", 20 digits, ".new" and a process id.
using NameBuffer = char[64];

void format_segment_name(NameBuffer& name, std::uint64_t index) {
  std::snprintf(name, sizeof(name), "segment-%010llu", static_cast<unsigned long long>(index));
}

/// Opens a regular file. Anything else, such as a FIFO, which would be waited for, gives -EINVAL. Returns a descriptor
/// or a negative errno value.
int open_regular(int directory, const char* name, int flags) noexcept {
  FileDescriptor file(::openat(directory, name, flags | O_NONBLOCK | O_CLOEXEC, 0666));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return errno == ENXIO ? -EINVAL : -errno;  // A socket, or a FIFO that nobody reads.
  }
  if (!S_ISREG(status.st_mode)) {
    return -EINVAL;
  }
  // io_uring would take the flag to mean "never wait".
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  return file.release();
}

bool is_temporary(std::string_view name) {
  return name.find(temporary_mark) != std::string_view::npos;
}

/// Whether `name` is segment-0123456789.
bool parse_segment_name(std::string_view name, std::uint64_t& index) {
  if (name.size() != segment_prefix.size() + segment_digits || !name.starts_with(segment_prefix)) {
    return false;
  }
  index = 0;
  for (const char digit : name.substr(segment_prefix.size())) {
    if (digit < '0' || digit > '9') {
      return false;
    }
    index = index * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return true;
}

}  // namespace

SparseDirectory::SparseDirectory(std::string path, bool create) : path_(std::move(path)) {
  if (create) {
    made_ = ::mkdir(path_.c_str(), 0777) == 0;
    if (!made_ && errno != EEXIST) {
      throw_file_error(errno, path_, "cannot be created");
    }
  }
  directory_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_.valid()) {
    throw_file_error(errno, path_, "cannot be opened as a sparse store");
  }
}

bool SparseDirectory::has_metadata() const {
  return ::faccessat(directory_.get(), sparse_metadata_name, F_OK, 0) == 0;
}

bool SparseDirectory::is_empty() const {
  const std::vector<std::string> names = names_in(directory_.get(), path_);
  return std::all_of(names.begin(), names.end(),
                     [](const std::string& name) { return name == lock_name || is_temporary(name); });
}

void SparseDirectory::lock(bool exclusive) {
  for (;;) {
    const int opened = open_regular(directory_.get(), lock_name, exclusive ? O_RDWR | O_CREAT : O_RDONLY);
    if (opened == -ENOENT && !exclusive) {
      return;  // A copy without its lock file: nobody writes to it, or the file would be there.
    }
    if (opened == -EINVAL) {
      throw StoreError(EINVAL, path_ + "/" + lock_name + " is no regular file: remove it, if no program uses it");
    }
    if (opened < 0) {
      throw_file_error(-opened, path_ + "/" + lock_name, "cannot be opened");
    }
    FileDescriptor lock(opened);
    if (::flock(lock.get(), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) {
        throw_file_error(errno, path_ + "/" + lock_name, "cannot be locked");
      }
      throw StoreError(EBUSY, "sparse store " + path_ + " is in use" + (exclusive ? "" : " by a writer") +
                                  " elsewhere: close it there first" +
                                  (exclusive ? ", since one store takes one writer" : ""));
    }
    // A creation that failed may have removed the file between the opening and the locking.
    struct stat mine = {};
    struct stat named = {};
    if (::fstat(lock.get(), &mine) == 0 && ::fstatat(directory_.get(), lock_name, &named, 0) == 0 &&
        mine.st_ino == named.st_ino) {
      lock_ = std::move(lock);
      return;
    }
    if (!exclusive || ::fstat(directory_.get(), &named) != 0 || named.st_nlink == 0) {
      throw_file_error(ENOENT, path_, "was removed while it was opened");
    }
  }
}

void SparseDirectory::remove_leftovers() const {
  for (const std::string& name : names_in(directory_.get(), path_)) {
    const bool ours = name.starts_with(segment_prefix) || name.starts_with(sparse_metadata_name);
    if (ours && is_temporary(name)) {
      ::unlinkat(directory_.get(), name.c_str(), 0);
    }
  }
}

std::string SparseDirectory::segment_name(std::uint64_t index) {
  NameBuffer name;
  format_segment_name(name, index);
  return name;
}

std::vector<FoundSegment> SparseDirectory::find_segments(std::uint64_t segment_bytes) const {
  std::vector<FoundSegment> found;
  for (const std::string& name : names_in(directory_.get(), path_)) {
    std::uint64_t index = 0;
    if (!parse_segment_name(name, index)) {
      continue;
    }
    struct stat status = {};
    if (::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      throw_file_error(errno, path_ + "/" + name, "cannot be examined");
    }
    if (!S_ISREG(status.st_mode)) {
      throw StoreError(EINVAL, path_ + "/" + name + " is no regular file: move it out of the sparse store");
    }
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (bytes > segment_bytes) {
      throw StoreError(EINVAL, path_ + "/" + name + " has " + std::to_string(bytes) +
                                   " bytes, more than a segment of " + std::to_string(segment_bytes) +
                                   ": restore the store from a copy");
    }
    found.push_back({index, bytes});
  }
  return found;
}

int SparseDirectory::open_segment(std::uint64_t index, bool writable, bool direct) const noexcept {
  NameBuffer name;
  format_segment_name(name, index);
  const int flags = (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW;
  if (direct) {
    FileDescriptor descriptor(open_regular(directory_.get(), name, flags | O_DIRECT));
    if (descriptor.valid() && probe_direct_alignment(descriptor.get()) != 0) {
      return descriptor.release();
    }
  }
  return open_regular(directory_.get(), name, flags);
}

int SparseDirectory::make_segment(std::uint64_t index, std::uint64_t bytes) const noexcept {
  NameBuffer name;
  NameBuffer temporary;
  format_segment_name(name, index);
  // The process id keeps a parent and its forked child, who hold one lock, out of each other's temporary file.
  std::snprintf(temporary, sizeof(temporary), "segment-%llu.new.%ld", static_cast<unsigned long long>(index),
                static_cast<long>(::getpid()));
  ::unlinkat(directory_.get(), temporary, 0);
  const FileDescriptor file(::openat(directory_.get(), temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) {
    return -errno;
  }
  int result = ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0 ? 0 : -errno;
  // link() does not replace: who comes second finds the first one's segment, with its data, untouched.
  if (result == 0 && ::linkat(directory_.get(), temporary, directory_.get(), name, 0) != 0 && errno != EEXIST) {
    result = -errno;
    if (result == -EPERM || result == -EOPNOTSUPP) {  // A file system without links.
      result =
          ::renameat2(directory_.get(), temporary, directory_.get(), name, RENAME_NOREPLACE) == 0 || errno == EEXIST
              ? 0
              : -errno;
    }
  }
  ::unlinkat(directory_.get(), temporary, 0);
  return result;
}

void SparseDirectory::undo_creation() noexcept {
  try {
    remove_leftovers();
  } catch (...) {  // The directory cannot be listed: what is left cannot be found.
  }
  ::unlinkat(directory_.get(), lock_name, 0);
  if (made_) {
    ::rmdir(path_.c_str());
  }
}

}  // namespace tiermap
