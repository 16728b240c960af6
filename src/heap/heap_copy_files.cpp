#include "heap/heap_copy_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "heap/heap_data.hpp"
#include "heap/heap_entries.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// A copy within the heap would be an entry that is not of it. Whatever links lead there.
void require_outside(const std::string& heap, const std::string& copy) {
  std::error_code unreadable;
  std::filesystem::path path = std::filesystem::absolute(copy);
  path = path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
  for (path = std::filesystem::weakly_canonical(path);; path = path.parent_path()) {
    if (std::filesystem::equivalent(path, heap, unreadable) ||
        std::filesystem::equivalent(path, heap + data_entry, unreadable)) {
      throw StoreError(EINVAL, copy + " is within the heap that is copied: choose another path");
    }
    if (!path.has_relative_path()) {
      return;
    }
  }
}

/// Returns `to`, if a copy can be made there.
const std::string& free_for_copy(const std::string& from, const std::string& to) {
  if (to.empty()) {
    throw StoreError(ENOENT, "the path for a copy of a heap is empty: name one");
  }
  if (is_there(to)) {
    throw StoreError(EEXIST, to + " is there already: choose another path for the snapshot");
  }
  try {
    require_outside(from, to);
  } catch (const std::filesystem::filesystem_error& error) {
    throw_file_error(error.code().value(), to, "cannot be made");
  }
  return to;
}

void give_name(const std::string& copy, const char* before, const char* name, const char* what) {
  if (::rename((copy + before).c_str(), (copy + name).c_str()) != 0) {
    throw_file_error(errno, copy + data_entry, what);
  }
  make_durable(copy);
}

constexpr mode_t all_of_mode = 07777;

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & all_of_mode : 0600;
}

}  // namespace

HeapCopyFiles::HeapCopyFiles(const CopySource& from, const std::string& to,
                             const std::function<void(std::uint64_t)>& copied)
    : making_(free_for_copy(from.path, to)), directory_mode_(mode_of(from.path)) {
  try {
    copy(from, copied);
  } catch (const std::filesystem::filesystem_error& error) {
    throw_file_error(error.code().value(), from.called, "cannot be copied");
  }
}

void HeapCopyFiles::copy(const CopySource& from, const std::function<void(std::uint64_t)>& copied) {
  const std::string source = from.path + data_entry;
  const std::string target = making_.path() + copied_data_entry;
  modes_.emplace_back(making_.path() + journal_entry, mode_of(from.path + journal_entry));
  modes_.emplace_back(target, mode_of(source));
  if (!is_directory(source)) {
    copy_sparse_file({source, from.called + data_entry}, target, copied);
    return;
  }
  if (::mkdir(target.c_str(), modes_.back().second | S_IRWXU) != 0) {
    throw_file_error(errno, target, "cannot be made");
  }
  for (const auto& entry : std::filesystem::directory_iterator(source)) {
    const std::string name = "/" + entry.path().filename().string();
    if (name != "/lock") {  // The copy gets its own.
      copy_sparse_file({source + name, from.called + data_entry + name}, target + name, copied);
    }
    modes_.emplace_back(target + name, mode_of(source + name));
  }
  make_durable(target);
}

/// Who may read what was copied may read the copy, and nobody else, whatever the umask. Where a file system has no
/// modes the copy is one without.
void HeapCopyFiles::give_modes() const {
  for (const auto& [path, mode] : modes_) {
    static_cast<void>(::chmod(path.c_str(), mode));
  }
}

std::shared_ptr<Store> HeapCopyFiles::open_data() const {
  return open_heap_data(making_.path(), copied_data_entry, true, DamagedData::taken);
}

void HeapCopyFiles::finish() {
  give_modes();
  finish_update(making_.path());
  static_cast<void>(::chmod(making_.path().c_str(), directory_mode_));
  make_durable(making_.path() + "/..");
  making_.keep();
}

void begin_update(const std::string& copy) {
  try {
    give_name(copy, data_entry, copied_data_entry, "cannot be given another name");
  } catch (const StoreError&) {
    // Nothing of it was changed so far: it is what it was.
    if (!is_there(copy + data_entry)) {
      static_cast<void>(::rename((copy + copied_data_entry).c_str(), (copy + data_entry).c_str()));
    }
    throw;
  }
}

void finish_update(const std::string& copy) {
  give_name(copy, copied_data_entry, data_entry, "cannot be given its name");
}

}  // namespace tiermap
