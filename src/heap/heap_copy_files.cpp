#include "heap/heap_copy_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "heap/file_copy.hpp"
#include "heap/heap_data.hpp"
#include "heap/heap_entries.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
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

}  // namespace

HeapCopyFiles::HeapCopyFiles(const std::string& from, const std::string& to,
                             const std::function<void(std::uint64_t)>& copied)
    : making_(free_for_copy(from, to)) {
  try {
    copy(from, copied);
  } catch (const std::filesystem::filesystem_error& error) {
    throw_file_error(error.code().value(), from, "cannot be copied");
  }
}

void HeapCopyFiles::copy(const std::string& from, const std::function<void(std::uint64_t)>& copied) const {
  const std::string source = from + data_entry;
  const std::string target = making_.path() + copied_data_entry;
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
  return open_heap_data(making_.path(), copied_data_entry, true, DamagedData::taken);
}

void HeapCopyFiles::finish() {
  finish_update(making_.path());
  make_durable(parent_of(making_.path()));
  making_.keep();
}

void begin_update(const std::string& copy) {
  give_name(copy, data_entry, copied_data_entry, "cannot be given another name");
}

void finish_update(const std::string& copy) {
  give_name(copy, copied_data_entry, data_entry, "cannot be given its name");
}

}  // namespace tiermap
