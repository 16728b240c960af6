#include "heap/heap_directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "heap/directory_lock.hpp"
#include "heap/heap_data.hpp"
#include "heap/heap_entries.hpp"
#include "heap/heap_removal.hpp"
#include "heap/journal_file.hpp"
#include "heap/unfinished_creation.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// So often a heap may be made and removed by others while one is to be made here.
constexpr int most_attempts = 100;

FileDescriptor open_directory(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    throw_file_error(errno, "heap " + path, "cannot be opened");
  }
  return directory;
}

/// Of what is no whole heap. By all entries at once, as others may be making or removing them.
HeapPresence presence_by_entries(const std::string& path) {
  bool empty = true;
  bool part = false;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(path, unreadable)) {
    const std::string name = "/" + entry.path().filename().string();
    part = part || name == journal_entry || name == copied_data_entry;
    empty = false;
  }
  if (unreadable && unreadable.value() != ENOENT && unreadable.value() != ENOTDIR) {
    throw_file_error(unreadable.value(), "heap " + path, "cannot be looked at");
  }
  if (unreadable) {
    return is_there(path) ? HeapPresence::something : HeapPresence::nothing;
  }
  if (empty) {
    return HeapPresence::empty_directory;
  }
  return part ? HeapPresence::in_part : HeapPresence::something;
}

OpenMode mode_of(bool writable) noexcept {
  return writable ? OpenMode::read_write : OpenMode::read_only;
}

const char* what_is_in_part(const std::string& path) {
  if (is_unfinished_creation(path)) {
    return " was made only in part, and nothing is in it: create it anew, or remove it";
  }
  return is_there(path + copied_data_entry)
             ? " was made only in part, as a copy, or while it was brought up to date: remove it, and copy again"
             : " was made or removed only in part, or has lost its data: put that back, or remove what there is";
}

/// The journal of a heap that nobody makes or removes, locked; else null, and what is wrong is for
/// journal_when_settled() to say.
std::shared_ptr<Store> journal_at_once(const std::string& path, bool writable) {
  if (heap_presence(path) != HeapPresence::heap) {
    return nullptr;
  }
  try {
    std::shared_ptr<Store> journal = open_journal_file(path + journal_entry, mode_of(writable));
    return heap_presence(path) == HeapPresence::heap ? journal : nullptr;
  } catch (const StoreError&) {
    return nullptr;
  }
}

/// The same, once who makes or removes a heap there has come to an end. What is there then stays.
std::shared_ptr<Store> journal_when_settled(const std::string& path, bool writable) {
  const std::optional<DirectoryLock> lock = DirectoryLock::existing(path);
  std::shared_ptr<Store> journal;
  if (lock && is_there(path + journal_entry)) {
    journal = open_journal_file(path + journal_entry, mode_of(writable));
  }
  const HeapPresence presence = heap_presence(path);
  if (presence == HeapPresence::heap && journal != nullptr) {
    return journal;
  }
  if (presence == HeapPresence::in_part && journal != nullptr) {
    throw StoreError(EINVAL, "heap " + path + what_is_in_part(path));
  }
  if (presence == HeapPresence::empty_directory) {
    throw StoreError(ENOENT, path + " is not a heap: it is an empty directory: check the path, or create it");
  }
  if (presence == HeapPresence::something) {
    throw StoreError(EINVAL, path + " is not a heap: a heap is a directory with a journal and data: check the path");
  }
  throw StoreError(ENOENT, "heap " + path + " is missing: there is no such directory: check the path, or create it");
}

/// What there is keeps a heap from being made, but for what a creation left that was cut short. Returns if it is gone
/// by now.
void make_way(const std::string& path) {
  const std::optional<DirectoryLock> lock = DirectoryLock::existing(path);
  std::shared_ptr<Store> journal;
  if (lock && is_unfinished_creation(path)) {
    remove_unfinished_creation(path);
  } else if (lock && heap_presence(path) == HeapPresence::in_part && is_there(path + journal_entry)) {
    journal = open_journal_file(path + journal_entry, OpenMode::read_only);  // EBUSY if somebody is making it.
  }
  switch (heap_presence(path)) {
    case HeapPresence::nothing:
    case HeapPresence::empty_directory:
      return;
    case HeapPresence::heap:
      throw StoreError(EEXIST, "heap " + path + " exists already: open it, remove it, or choose another path");
    case HeapPresence::in_part:
      throw StoreError(EEXIST, "heap " + path + what_is_in_part(path));
    case HeapPresence::something:
      throw StoreError(EEXIST, path + " is there and no heap: choose another path for the heap");
  }
}

bool replaces_nothing(const std::string& path) {
  const HeapPresence presence = heap_presence(path);
  return presence == HeapPresence::nothing || presence == HeapPresence::empty_directory;
}

/// Begins a heap, which is locked from then on. Throws StoreError.
std::pair<std::shared_ptr<Store>, FileDescriptor> make_directory_and_journal(const std::string& path) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    if (replaces_nothing(path)) {
      const DirectoryLock lock = DirectoryLock::making(path);
      try {
        if (replaces_nothing(path)) {
          FileDescriptor directory = open_directory(path);
          return {open_journal_file(path + journal_entry, OpenMode::create), std::move(directory)};
        }
      } catch (const StoreError&) {
        ::rmdir(path.c_str());
        throw;
      }
    }
    make_way(path);
  }
  throw StoreError(EBUSY, "heap " + path + " is made and removed by others all the time: choose another path");
}

}  // namespace

HeapPresence heap_presence(const std::string& path) {
  require_path(path);
  if (!is_there(path)) {
    // A directory on the way that may not be searched hides what there is.
    if (errno != ENOENT && errno != ENOTDIR) {
      throw_file_error(errno, "heap " + path, "cannot be looked at");
    }
    return HeapPresence::nothing;
  }
  if (is_there(path + journal_entry) && is_there(path + data_entry)) {
    return HeapPresence::heap;
  }
  return presence_by_entries(path);
}

HeapFiles open_heap_files(const std::string& path, bool writable, DamagedData damaged) {
  HeapFiles files;
  files.journal = journal_at_once(path, writable);
  if (files.journal == nullptr) {
    files.journal = journal_when_settled(path, writable);
  }
  files.directory = open_directory(path);
  files.data = open_heap_data(path, data_entry, writable, damaged);
  return files;
}

std::string HeapFiles::lasting_path() const {
  return "/proc/self/fd/" + std::to_string(directory.get());
}

HeapInTheMaking::HeapInTheMaking(std::string path) : path_(std::move(path)) {
  for (FileDescriptor& reserved : reserved_) {
    reserved = FileDescriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!reserved.valid()) {
      throw_file_error(errno, "heap " + path_, "cannot be made");
    }
  }
  std::tie(journal_, directory_) = make_directory_and_journal(path_);
}

HeapInTheMaking::~HeapInTheMaking() {
  if (journal_ != nullptr) {
    reserved_ = {};
    remove_own_files(path_, directory_.get());
  }
}

HeapFiles HeapInTheMaking::create_files(HeapBacking backing, const HeapLayout& layout) const {
  HeapFiles files;
  files.journal = journal_;
  files.directory = open_directory(path_);
  files.data = create_heap_data(path_, backing, layout.end);
  make_durable(path_);
  make_durable(path_ + "/..");
  return files;
}

}  // namespace tiermap
