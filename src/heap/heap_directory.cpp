#include "heap/heap_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "heap/directory_lock.hpp"
#include "heap/file_copy.hpp"
#include "heap/journal_file.hpp"
#include "heap/journal_layout.hpp"
#include "store/file_store.hpp"
#include "store/sparse_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char journal_name[] = "/journal";
constexpr char data_name[] = "/data";
constexpr char copied_data_name[] = "/data.incomplete";
constexpr std::uint64_t segment_bytes = 256 << 20;

bool is_there(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_directory(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

FileDescriptor open_directory(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    throw_file_error(errno, "heap " + path, "cannot be opened");
  }
  return directory;
}

std::shared_ptr<Store> open_data(const std::string& path, bool writable) {
  const OpenMode mode = writable ? OpenMode::read_write : OpenMode::read_only;
  if (is_directory(path)) {
    return SparseStore::open(path, mode, 0, SparseOptions());
  }
  return FileStore::open(path, mode, 0, FileOptions());
}

/// Throws StoreError: EBUSY if somebody is making a heap there, or a copy.
void require_not_in_the_making(const std::string& path) {
  const DirectoryLock lock(path);
  if (is_there(path + journal_name)) {
    open_journal_file(path + journal_name, OpenMode::read_only);
  }
}

/// What there is keeps a heap from being made.
[[noreturn]] void refuse_to_replace(const std::string& path, HeapPresence presence) {
  switch (presence) {
    case HeapPresence::heap:
      throw StoreError(EEXIST, "heap " + path + " exists already: open it, remove it, or choose another path");
    case HeapPresence::in_part:
      require_not_in_the_making(path);
      throw StoreError(EEXIST, "heap " + path + " was made only in part: remove it, or choose another path");
    default:
      throw StoreError(EEXIST, path + " is there and no heap: choose another path for the heap");
  }
}

/// Begins a heap, which is locked from then on. Throws StoreError.
std::shared_ptr<Store> make_directory_and_journal(const std::string& path) {
  const auto replaces_nothing = [&] {
    const HeapPresence presence = heap_presence(path);
    return presence == HeapPresence::nothing || presence == HeapPresence::empty_directory;
  };
  if (replaces_nothing()) {
    const DirectoryLock lock = DirectoryLock::making(path);
    if (replaces_nothing()) {
      try {
        return open_journal_file(path + journal_name, OpenMode::create);
      } catch (const StoreError&) {
        ::rmdir(path.c_str());
        throw;
      }
    }
  }
  refuse_to_replace(path, heap_presence(path));
}

/// What a file system cannot do in this is left.
void make_durable(const std::string& path) {
  const FileDescriptor entry(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (entry.valid() && ::fsync(entry.get()) != 0 && errno == EIO) {
    throw_file_error(EIO, path, "cannot be made durable");
  }
}

std::string parent_of(const std::string& path) {
  std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  if (!normal.has_filename()) {  // A slash at the end.
    normal = normal.parent_path();
  }
  const std::string parent = normal.parent_path().string();
  return parent.empty() ? "." : parent;
}

/// A sparse store gives every segment its whole length at once, and takes a shorter one for what a crash of the machine
/// left, whose end reads as zeros. Of a heap that would be lost data; one without any length holds nothing yet.
void require_whole_segments(const std::string& path) {
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(path + data_name, unreadable)) {
    const std::string name = entry.path().filename().string();
    const std::uint64_t length = entry.is_regular_file(unreadable) ? entry.file_size(unreadable) : 0;
    if (name.starts_with("segment-") && name.find(".new") == std::string::npos && length != 0 &&
        length != segment_bytes) {
      throw StoreError(EINVAL, "heap " + path + " is truncated: " + name + " of its data has " +
                                   std::to_string(length) + " bytes of " + std::to_string(segment_bytes) +
                                   ": restore it from a snapshot");
    }
  }
}

}  // namespace

HeapPresence heap_presence(const std::string& path) {
  if (!is_there(path)) {
    return HeapPresence::nothing;
  }
  if (!is_directory(path)) {
    return HeapPresence::something;
  }
  const bool journal = is_there(path + journal_name);
  const bool data = is_there(path + data_name);
  if (journal && data) {
    return HeapPresence::heap;
  }
  std::error_code unreadable;
  if (std::filesystem::is_empty(path, unreadable)) {
    return unreadable ? HeapPresence::something : HeapPresence::empty_directory;
  }
  return journal || is_there(path + copied_data_name) ? HeapPresence::in_part : HeapPresence::something;
}

HeapFiles open_heap_files(const std::string& path, bool writable) {
  switch (heap_presence(path)) {
    case HeapPresence::heap:
      break;
    case HeapPresence::nothing:
      throw StoreError(ENOENT,
                       "heap " + path + " is missing: there is no such directory: check the path, or create it");
    case HeapPresence::in_part:
      require_not_in_the_making(path);
      throw StoreError(EINVAL, "heap " + path + " was made only in part: remove it, and create or copy it again");
    default:
      throw StoreError(EINVAL, path + " is not a heap: a heap is a directory with a journal and data: check the path");
  }
  HeapFiles files;
  files.directory = open_directory(path);
  files.journal = open_journal_file(path + journal_name, writable ? OpenMode::read_write : OpenMode::read_only);
  if (is_directory(path + data_name)) {
    require_whole_segments(path);
  }
  files.data = open_data(path + data_name, writable);
  return files;
}

std::string HeapFiles::lasting_path() const {
  return "/proc/self/fd/" + std::to_string(directory.get());
}

HeapFiles create_heap_files(const std::string& path, HeapBacking backing, const HeapLayout& layout) {
  HeapFiles files;
  files.journal = make_directory_and_journal(path);
  try {
    files.directory = open_directory(path);
    if (backing == HeapBacking::sparse) {
      SparseOptions options;
      options.segment_bytes = segment_bytes;
      files.data = SparseStore::open(path + data_name, OpenMode::create, layout.end, options);
    } else {
      files.data = FileStore::open(path + data_name, OpenMode::create, layout.end, FileOptions());
    }
    make_durable(path);
    make_durable(parent_of(path));
  } catch (...) {
    files = {};
    remove_part(path);
    throw;
  }
  return files;
}

namespace {

/// A copy within the heap would be an entry that is not of it.
void require_outside(const std::string& heap, const std::string& copy) {
  std::error_code unreadable;
  for (std::filesystem::path path = std::filesystem::absolute(copy).lexically_normal(); path.has_relative_path();) {
    path = path.parent_path();
    if (std::filesystem::equivalent(path, heap, unreadable)) {
      throw StoreError(EINVAL, copy + " is within the heap that is copied: choose another path");
    }
  }
}

/// By its first bytes: those that a heap's file begins with, or zeros, as of one that was made in part.
bool begins_as(const std::string& path, std::string_view magic) {
  std::array<char, 8> first{};
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      ::pread(file.get(), first.data(), first.size(), 0) < 0) {
    return false;
  }
  const std::string_view text(first.data(), first.size());
  return text == magic || text == std::string_view("\0\0\0\0\0\0\0\0", 8);
}

/// What a sparse store's directory holds.
bool holds_segments_alone(const std::string& path) {
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(path, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("segment-") && !name.starts_with("metadata") && name != "lock") {
      return false;
    }
  }
  return !unreadable;
}

/// Names alone do not make a heap: what is removed is gone.
void require_heaps_own(const std::string& path) {
  const auto refuse = [&](const char* name) {
    throw StoreError(EINVAL, path + name + " is not what a heap has by that name, and " + path +
                                 " is left as it is: check the path");
  };
  if (is_there(path + journal_name) && !begins_as(path + journal_name, journal_magic)) {
    refuse(journal_name);
  }
  for (const char* const name : {data_name, copied_data_name}) {
    if (const std::string data = path + name;
        is_there(data) && !(is_directory(data) ? holds_segments_alone(data) : begins_as(data, heap_magic))) {
      refuse(name);
    }
  }
}

/// Before anything is gone.
void require_nothing_else(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    throw StoreError(EINVAL, path + " is a symbolic link, and is left as it is: remove the heap where it is");
  }
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(path, unreadable)) {
    const std::string name = "/" + entry.path().filename().string();
    if (name != data_name && name != copied_data_name && name != journal_name) {
      throw StoreError(ENOTEMPTY, "heap " + path + " holds " + entry.path().filename().string() +
                                      ", which is not of it, and is left as it is: move that elsewhere");
    }
  }
}

}  // namespace

void remove_heap_files(const std::string& path) {
  require_nothing_else(path);
  require_heaps_own(path);
  const DirectoryLock directory(path);
  std::shared_ptr<Store> lock;
  if (is_there(path + journal_name)) {
    lock = open_journal_file(path + journal_name, OpenMode::read_write);
  }
  std::error_code error;
  // The journal last: what has one can be removed again.
  for (const char* const name : {data_name, copied_data_name, journal_name}) {
    std::filesystem::remove_all(path + name, error);
    if (error) {
      throw_file_error(error.value(), path + name, "cannot be removed");
    }
  }
  if (::rmdir(path.c_str()) != 0) {
    throw_file_error(errno, "heap " + path, "is gone, but not its directory, which cannot be removed");
  }
}

void remove_part(const std::string& path) noexcept {
  try {
    remove_heap_files(path);
  } catch (...) {
  }
}

namespace {

/// Of what was made in vain, the lock given up: remove_part() takes it anew.
void abandon(const std::string& path, std::shared_ptr<Store>& journal) noexcept {
  journal.reset();
  remove_part(path);
}

}  // namespace

HeapCopyFiles::HeapCopyFiles(const std::string& from, std::string to, const std::function<void(std::uint64_t)>& copied)
    : to_(std::move(to)) {
  if (is_there(to_)) {
    throw StoreError(EEXIST, to_ + " is there already: choose another path for the snapshot");
  }
  require_outside(from, to_);
  journal_ = make_directory_and_journal(to_);
  try {
    copy(from, copied);
  } catch (const std::filesystem::filesystem_error& error) {
    abandon(to_, journal_);
    throw_file_error(error.code().value(), from, "cannot be copied");
  } catch (...) {
    abandon(to_, journal_);
    throw;
  }
}

HeapCopyFiles::~HeapCopyFiles() {
  if (journal_ != nullptr) {
    abandon(to_, journal_);
  }
}

void HeapCopyFiles::copy(const std::string& from, const std::function<void(std::uint64_t)>& copied) const {
  const std::string source = from + data_name;
  const std::string target = to_ + copied_data_name;
  if (!is_directory(source)) {
    copy_sparse_file(source, target, copied);
    return;
  }
  if (::mkdir(target.c_str(), 0777) != 0) {
    throw_file_error(errno, target, "cannot be made");
  }
  for (const auto& entry : std::filesystem::directory_iterator(source)) {
    if (const std::string name = entry.path().filename().string(); name != "lock") {
      copy_sparse_file(entry.path().string(), target + "/" + name, copied);
    }
  }
  make_durable(target);
}

std::shared_ptr<Store> HeapCopyFiles::open_data() const {
  return tiermap::open_data(to_ + copied_data_name, true);
}

void HeapCopyFiles::finish() {
  finish_update(to_);
  make_durable(parent_of(to_));
  journal_.reset();
}

void begin_update(const std::string& copy) {
  if (::rename((copy + data_name).c_str(), (copy + copied_data_name).c_str()) != 0) {
    throw_file_error(errno, copy + data_name, "cannot be given another name");
  }
  make_durable(copy);
}

void finish_update(const std::string& copy) {
  if (::rename((copy + copied_data_name).c_str(), (copy + data_name).c_str()) != 0) {
    throw_file_error(errno, copy + data_name, "cannot be given its name");
  }
  make_durable(copy);
}

}  // namespace tiermap
