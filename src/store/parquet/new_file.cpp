#include "store/parquet/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "store/file_open.hpp"
#include "store/file_transfer.hpp"

namespace tiermap {
namespace {

std::string directory_of_file(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  return directory.empty() ? "." : directory;
}

}  // namespace

NewParquetFile::NewParquetFile(std::string path) : path_(std::move(path)), beside_(path_ + ".tiermap-new") {
  const std::string directory = directory_of_file(path_);
  descriptor_ = FileDescriptor(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (!descriptor_.valid() && (errno == EOPNOTSUPP || errno == EISDIR)) {
    // A file system without nameless files.
    ::unlink(beside_.c_str());
    descriptor_ = FileDescriptor(::open(beside_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666));
    is_beside_ = descriptor_.valid();
  }
  if (!descriptor_.valid()) {
    throw_file_error(errno, directory, "takes no new file, which " + path_ + " is to become");
  }
}

NewParquetFile::~NewParquetFile() {
  if (is_beside_) {
    ::unlink(beside_.c_str());
  }
}

std::string NewParquetFile::present_path() const {
  return "/proc/self/fd/" + std::to_string(descriptor_.get());
}

void NewParquetFile::make_durable() const {
  if (const int result = synchronise(descriptor_.get(), true); result != 0) {
    throw_file_error(-result, path_, "cannot be made durable");
  }
}

int NewParquetFile::link(const std::string& name) const {
  const std::string from = is_beside_ ? beside_ : present_path();
  return ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
}

void NewParquetFile::publish() {
  make_durable();
  if (link(path_) != 0) {
    throw_file_error(errno, path_, "cannot be created");
  }
  make_name_durable(path_);
}

void NewParquetFile::replace(int before) {
  struct stat status = {};
  if (::fstat(before, &status) != 0 || ::fchmod(descriptor_.get(), status.st_mode & 07777) != 0) {
    throw_file_error(errno, path_, "cannot be written anew with its permissions");
  }
  // Only root can give files away; who may not, and could write this one, has a file of his own then.
  static_cast<void>(::fchown(descriptor_.get(), status.st_uid, status.st_gid) == 0);
  make_durable();
  if (!is_beside_) {
    // Without a name there is nothing to rename. Who was killed between the two has left the other name behind.
    ::unlink(beside_.c_str());
    if (link(beside_) != 0) {
      throw_file_error(errno, beside_, "cannot be created");
    }
    is_beside_ = true;
  }
  if (::rename(beside_.c_str(), path_.c_str()) != 0) {
    throw_file_error(errno, path_, "cannot be replaced");
  }
  is_beside_ = false;
  make_name_durable(path_);
}

}  // namespace tiermap
