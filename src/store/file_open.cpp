#include "store/file_open.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "platform/signals_blocked.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_descriptors = 1U << 20;

const char* remedy(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "check the path, and that its folder is there";
    case EEXIST:
      return "open it instead of creating it, or choose another path";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and its directories, or open it read-only";
    case EROFS:
      return "open it read-only, or choose a path on another file system";
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another directory";
    case EFBIG:
    case EINVAL:
      return "choose a smaller size or another file system";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EISDIR:
      return "name a file, or use sparse:// or a pattern such as file:///directory/*.bin";
    case ENOTDIR:
      return "a part of the path is a file, not a directory";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case ELOOP:
      return "its links lead round in a circle: name the file itself";
    case ETXTBSY:
    case EBUSY:
      return "it is in use: stop the program that uses it, or open it read-only";
    case ESTALE:
      return "it was changed meanwhile: open it again";
    default:
      return "check the path and the file system it is on";
  }
}

/// What cannot hold pages is refused before it is opened: opening a FIFO or a tape has effects of its own.
void refuse_unsuitable(const std::string& path, const struct stat& status) {
  if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) {
    return;
  }
  if (S_ISDIR(status.st_mode)) {
    throw_file_error(EISDIR, path, "cannot be opened");
  }
  const char* kind = S_ISFIFO(status.st_mode)   ? "a FIFO"
                     : S_ISSOCK(status.st_mode) ? "a socket"
                     : S_ISCHR(status.st_mode)  ? "a character device"
                                                : "of an unknown kind";
  throw StoreError(EINVAL,
                   path + " is " + kind + " and cannot be read at an offset: name a regular file or a block device");
}

/// A mapped file takes three descriptors, where mmap() takes none: so that the rest of the program has as many as
/// without, there are to be as many again above them.
void leave_descriptors_to_program(const DirectFile& file) {
  const std::uint64_t most = open_files_limit();
  const auto highest = static_cast<std::uint64_t>(std::max(file.buffered(), file.descriptor()));
  static_cast<void>(allow_open_files(std::min(2 * highest, most - std::min(most, spare_descriptors))));
}

OpenedFile finish_opening(const std::string& path, FileDescriptor buffered, bool writable, bool direct) {
  struct stat status = {};
  if (::fstat(buffered.get(), &status) != 0) {
    throw_file_error(errno, path, "cannot be examined");
  }
  refuse_unsuitable(path, status);
  OpenedFile opened;
  opened.regular = S_ISREG(status.st_mode);
  opened.bytes = static_cast<std::uint64_t>(status.st_size);
  opened.device = status.st_dev;
  opened.inode = status.st_ino;
  if (!opened.regular && ::ioctl(buffered.get(), BLKGETSIZE64, &opened.bytes) != 0) {
    throw_file_error(errno, path, "does not tell its size");
  }
  // Opened so that a FIFO put in place since could not block; io_uring would take the flag to mean "never wait".
  ::fcntl(buffered.get(), F_SETFL, ::fcntl(buffered.get(), F_GETFL) & ~O_NONBLOCK);
  FileDescriptor second = direct ? open_direct(AT_FDCWD, path, buffered.get(), writable) : FileDescriptor();
  opened.file = DirectFile(std::move(buffered), std::move(second));
  leave_descriptors_to_program(opened.file);
  return opened;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string error_text(int error_number) {
  return std::generic_category().message(error_number);
}

std::string in_one_line(std::string_view text) {
  constexpr std::size_t most = 200;
  std::string line(text.substr(0, most));
  std::replace_if(
      line.begin(), line.end(), [](char character) { return static_cast<unsigned char>(character) < 0x20; }, '?');
  return line + (text.size() > most ? "..." : "");
}

void throw_file_error(int error_number, const std::string& path, const std::string& doing) {
  throw StoreError(error_number, path + " " + doing + ": " + error_text(error_number) + ": " + remedy(error_number));
}

bool path_exists(const std::string& path) {
  struct stat status = {};
  const bool found = ::stat(path.c_str(), &status) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) {
    throw_file_error(errno, path, "cannot be looked at");
  }
  return found;
}

OpenedFile open_file(const std::string& path, bool writable, bool direct) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    throw_file_error(errno, path, "cannot be opened");
  }
  refuse_unsuitable(path, status);
  FileDescriptor buffered(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC));
  if (!buffered.valid()) {
    throw_file_error(errno, path, writable ? "cannot be opened for writing" : "cannot be opened");
  }
  return finish_opening(path, std::move(buffered), writable, direct);
}

FileDescriptor open_nameless_file(const std::string& directory) {
  FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
  if (file.valid() || (errno != EOPNOTSUPP && errno != EISDIR)) {
    return file;
  }
  // A file system without nameless files: the name is there for a moment.
  const SignalsBlocked quiet;  // What ends the process here would leave it.
  std::string pattern = directory + "/tiermap-scratch-XXXXXX";
  file = FileDescriptor(::mkostemp(pattern.data(), O_CLOEXEC));
  if (file.valid()) {
    ::unlink(pattern.c_str());
  }
  return file;
}

void make_name_durable(const std::string& path) {
  const FileDescriptor directory(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Where a directory cannot be read or synchronised (some network file systems) the entry is as durable as it gets.
  if (directory.valid() && synchronise(directory.get(), true) == -EIO) {
    throw_file_error(EIO, path, "cannot be made durable");
  }
}

OpenedFile create_file(const std::string& path, std::uint64_t bytes, bool direct) {
  if (bytes > largest_file_bytes) {
    throw_file_error(EFBIG, path, "cannot be created");
  }
  FileDescriptor buffered(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!buffered.valid()) {
    throw_file_error(errno, path, "cannot be created");
  }
  try {
    if (::ftruncate(buffered.get(), static_cast<off_t>(bytes)) != 0) {
      throw_file_error(errno, path, "cannot be given " + std::to_string(bytes) + " bytes");
    }
    make_name_durable(path);
    return finish_opening(path, std::move(buffered), true, direct);
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
}

std::uint64_t open_files_limit() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 1024;
  }
  return std::min<std::uint64_t>(limit.rlim_max, most_descriptors);
}

bool allow_open_files(std::uint64_t descriptors) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return true;
  }
  const std::uint64_t wanted = descriptors + spare_descriptors;
  if (wanted <= limit.rlim_cur) {
    return true;
  }
  if (wanted > limit.rlim_max) {
    return false;
  }
  limit.rlim_cur = std::max<rlim_t>(wanted, std::min<rlim_t>(limit.rlim_max, most_descriptors));
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace tiermap
