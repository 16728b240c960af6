// Who makes a heap in a directory, and who looks whether one is being made there, take turns.
#pragma once

#include <string>
#include <utility>

#include "store/file_descriptor.hpp"

namespace tiermap {

/// Of one directory, for a moment: until its journal is there and locked, or what is there has been looked at. The
/// kernel releases it when the process dies.
class DirectoryLock {
 public:
  /// Waits for others. Throws StoreError if there is no such directory.
  explicit DirectoryLock(const std::string& path);
  /// Makes the directory, if it is missing. Throws StoreError if that cannot be, EEXIST if something else is there.
  static DirectoryLock making(const std::string& path);

  ~DirectoryLock();
  DirectoryLock(DirectoryLock&&) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&&) noexcept = delete;

 private:
  explicit DirectoryLock(FileDescriptor directory) : directory_(std::move(directory)) {}
  void lock() const noexcept;
  bool is_at(const std::string& path) const noexcept;

  FileDescriptor directory_;
};

}  // namespace tiermap
