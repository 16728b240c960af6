#include "store/parquet/writable_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "platform/write_unless_closed.hpp"
#include "store/parquet/rewriting.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr int lock_attempts = 10;

/// Whether the name is that of this file, as it was when it was last looked at.
bool bears_name(int descriptor, const std::string& path) {
  struct stat here = {};
  struct stat there = {};
  return ::fstat(descriptor, &here) == 0 && ::stat(path.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
         here.st_ino == there.st_ino;
}

std::string directory_of_target(const ParquetTarget& target) {
  return std::filesystem::path(target.path).parent_path();
}

}  // namespace

ParquetTarget lock_parquet_file(const std::string& path) {
  // Its errors are those of all files.
  OpenedFile opened = open_file(path, true, false);
  if (!opened.regular) {
    throw StoreError(EINVAL, path + " is a block device, and cannot be replaced: open it read-only");
  }
  const std::string real = std::filesystem::canonical(path);
  for (int attempt = 0; attempt < lock_attempts; ++attempt) {
    FileDescriptor file(::open(real.c_str(), O_RDWR | O_CLOEXEC));
    if (!file.valid()) {
      throw_file_error(errno, path, "cannot be opened for writing");
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      throw StoreError(EBUSY, path + " is being written by another store or program: close that, or open it read-only");
    }
    if (bears_name(file.get(), real)) {  // Otherwise whoever had it has just replaced it.
      return {real, std::move(file), FileDescriptor()};
    }
  }
  throw StoreError(EBUSY, path + " is being replaced all the time: see that one program alone writes it");
}

ParquetWritableStore::ParquetWritableStore(std::vector<ParquetTarget> targets, OpenRows open_rows)
    : targets_(std::move(targets)), open_rows_(std::move(open_rows)), owner_(::getpid()) {
  take_rows();
  const ParquetRowsStore& rows = *content_->rows;
  bytes_ = rows.size_bytes();
  max_reads_ = rows.max_reads_in_flight();
  max_writes_ = rows.max_writes_in_flight();
  layout_ = rows.element_layout();
  name_ = rows.name();
}

ParquetWritableStore::~ParquetWritableStore() {
  if (const int result = settle(); result != 0 && ::getpid() == owner_) {
    tell_unless_closed("tiermap: " + name_ + ": what was written is lost: " + error_text(-result) + "\n");
  }
}

std::shared_ptr<const ParquetWritableStore::Content> ParquetWritableStore::content() const {
  const std::lock_guard lock(content_mutex_);
  return content_;
}

/// The rows as the files have them now, and nothing over them. Not by the files' names: what another program has put
/// there may have other rows.
void ParquetWritableStore::take_rows() {
  std::vector<int> descriptors;
  for (const ParquetTarget& target : targets_) {
    descriptors.push_back(target.replaced.valid() ? target.replaced.get() : target.file.get());
  }
  auto taken = std::make_shared<Content>();
  taken->rows = open_rows_(descriptors);
  taken->changes =
      std::make_unique<OverlayStore>(taken->rows, taken->rows->size_bytes(), directory_of_target(targets_.front()));
  std::shared_ptr<const Content> before = std::move(taken);  // It may be the last to have it: not with the lock.
  {
    const std::lock_guard lock(content_mutex_);
    content_.swap(before);
  }
  for (ParquetTarget& target : targets_) {
    if (target.replaced.valid()) {
      target.file = std::exchange(target.replaced, FileDescriptor());
    }
  }
}

std::int64_t ParquetWritableStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (::getpid() != owner_) {
    return -EBUSY;
  }
  return content()->changes->read(buffer, bytes, offset);
}

std::int64_t ParquetWritableStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (::getpid() != owner_) {
    return -EBUSY;
  }
  const std::shared_lock lock(writing_);
  changed_.store(true);
  return content()->changes->write(buffer, bytes, offset);
}

int ParquetWritableStore::settle() {
  if (::getpid() != owner_) {
    return -EBUSY;  // It is the parent's.
  }
  const std::lock_guard lock(writing_);
  if (!changed_.load()) {
    return 0;
  }
  try {
    replace_files();
    take_rows();
    changed_.store(false);
    return 0;
  } catch (const Error& error) {
    if (error.what() != std::exchange(told_, error.what())) {
      tell_unless_closed(std::string("tiermap: ") + error.what() + "\n");
    }
    return -error.code().value();
  } catch (const std::exception&) {
    return -ENOMEM;
  }
}

/// Until all of them are replaced, and opened again, the rows stay what they are: those of the files before.
void ParquetWritableStore::replace_files() {
  const std::shared_ptr<const Content> before = content();
  for (std::size_t number = 0; number < targets_.size(); ++number) {
    ParquetTarget& target = targets_[number];
    // What an attempt that failed at another file has put there may have been taken back since.
    std::optional<NewParquetFile> made = rewrite_parquet_file(*before->rows, *before->changes, number,
                                                              target.file.get(), target.path, target.replaced.valid());
    if (!made) {
      continue;
    }
    const int named = target.replaced.valid() ? target.replaced.get() : target.file.get();
    if (!bears_name(named, target.path)) {
      throw StoreError(ESTALE, target.path + " was replaced by another program: open it again");
    }
    ::flock(made->descriptor(), LOCK_EX | LOCK_NB);  // Nobody else has it open yet.
    made->replace(named);
    target.replaced = made->take();
  }
}

}  // namespace tiermap
