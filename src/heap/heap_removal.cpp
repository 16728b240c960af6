#include "heap/heap_removal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "heap/directory_lock.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_entries.hpp"
#include "heap/journal_file.hpp"
#include "heap/journal_layout.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// By its first bytes: those that a heap's file begins with, or zeros, as of one that was made in part.
bool begins_as(const std::string& path, std::string_view magic) {
  std::array<char, 8> first{};
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (!file.valid() && errno != ELOOP && errno != ENXIO) {  // A symbolic link, or a socket.
    throw_file_error(errno, path, "cannot be opened to be removed");
  }
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      ::pread(file.get(), first.data(), first.size(), 0) < 0) {
    return false;
  }
  const std::string_view text(first.data(), first.size());
  return text == magic || text == std::string_view("\0\0\0\0\0\0\0\0", 8);
}

/// What cannot be read is not taken for empty.
std::vector<std::string> names_in(const std::string& directory) {
  std::error_code unreadable;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory, unreadable)) {
    names.push_back(entry.path().filename().string());
  }
  if (unreadable) {
    throw_file_error(unreadable.value(), directory, "cannot be looked at");
  }
  return names;
}

/// What a sparse store's directory holds.
bool holds_segments_alone(const std::string& path) {
  for (const std::string& name : names_in(path)) {
    if (!name.starts_with("segment-") && !name.starts_with("metadata") && name != "lock") {
      return false;
    }
  }
  return true;
}

/// No link: behind that everything would stay.
bool is_own_directory(const std::string& path) {
  return std::filesystem::symlink_status(path).type() == std::filesystem::file_type::directory;
}

// Names alone do not make a heap: what is removed is gone.

[[noreturn]] void refuse_as_foreign(const std::string& path, const char* entry) {
  throw StoreError(
      EINVAL, path + entry + " is not what a heap has by that name, and " + path + " is left as it is: check the path");
}

void require_own_journal(const std::string& path) {
  if (is_there(path + journal_entry) && !begins_as(path + journal_entry, journal_magic)) {
    refuse_as_foreign(path, journal_entry);
  }
}

void require_own_data(const std::string& path) {
  for (const char* const entry : {data_entry, copied_data_entry}) {
    if (const std::string data = path + entry;
        is_there(data) && !(is_own_directory(data) ? holds_segments_alone(data) : begins_as(data, heap_magic))) {
      refuse_as_foreign(path, entry);
    }
  }
}

void require_no_link(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    throw StoreError(EINVAL, path + " is a symbolic link, and is left as it is: remove the heap where it is");
  }
}

/// Before anything is gone.
void require_nothing_else(const std::string& path) {
  for (const std::string& name : names_in(path)) {
    const std::string entry = "/" + name;
    if (entry != data_entry && entry != copied_data_entry && entry != journal_entry) {
      throw StoreError(ENOTEMPTY, "heap " + path + " holds " + name +
                                      ", which is not of it, and is left as it is: move that elsewhere");
    }
  }
}

/// Under both locks.
void take_away(const std::string& path) {
  std::error_code error;
  // The journal last: what has one can be removed again.
  for (const char* const entry : {data_entry, copied_data_entry, journal_entry}) {
    std::filesystem::remove_all(path + entry, error);
    if (error) {
      throw_file_error(error.value(), path + entry, "cannot be removed");
    }
  }
  if (::rmdir(path.c_str()) != 0) {
    throw_file_error(errno, "heap " + path, "is gone, but not its directory, which cannot be removed");
  }
}

}  // namespace

bool remove_heap_files(const std::string& path) {
  require_path(path);
  require_no_link(path);
  const std::optional<DirectoryLock> lock = DirectoryLock::existing(path);
  const HeapPresence presence = heap_presence(path);
  if (!lock && presence != HeapPresence::something) {
    return false;  // What is there now came later.
  }
  switch (presence) {
    case HeapPresence::nothing:
    case HeapPresence::empty_directory:
      return false;
    case HeapPresence::heap:
    case HeapPresence::in_part:
      break;
    case HeapPresence::something:
      throw StoreError(EINVAL, path + " is not a heap, and is left as it is: check the path");
  }
  require_nothing_else(path);
  require_own_journal(path);
  // One that is missing is made, to be locked: where directories cannot be, nobody begins a heap beside it.
  const std::shared_ptr<Store> journal =
      open_journal_file(path + journal_entry, is_there(path + journal_entry) ? OpenMode::read_write : OpenMode::create);
  require_own_data(path);
  take_away(path);
  return true;
}

void remove_own_files(const std::string& path, int directory) noexcept {
  try {
    if (const auto lock = DirectoryLock::existing(path); lock && lock->is_of(directory)) {
      require_nothing_else(path);
      take_away(path);
    }
  } catch (...) {
  }
}

}  // namespace tiermap
