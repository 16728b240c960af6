// Who makes or removes a heap in a directory, and who looks whether that is being done, take turns.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "store/file_descriptor.hpp"

namespace tiermap {

/// Of the directory that is at a path, for a moment: until its journal is there and locked, what is there has been
/// looked at, or all of it is gone. The kernel releases it when the process dies.
class DirectoryLock {
 public:
  /// So long others are waited for. What they do takes a moment, unless it is a large heap that is removed.
  static constexpr std::chrono::milliseconds patience{5000};

  /// Nothing if there is no directory at `path`, also when it went while others were waited for. Throws StoreError,
  /// EBUSY if they were waited for in vain.
  static std::optional<DirectoryLock> existing(const std::string& path, std::chrono::milliseconds wait = patience);
  /// Makes the directory, if it is missing. Throws StoreError if that cannot be, EEXIST if something else is there.
  static DirectoryLock making(const std::string& path, std::chrono::milliseconds wait = patience);

  ~DirectoryLock();
  DirectoryLock(DirectoryLock&&) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&&) noexcept = delete;

  /// Whether it is of the directory that is open there.
  bool is_of(int directory) const noexcept;

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit DirectoryLock(FileDescriptor directory) : directory_(std::move(directory)) {}
  void lock(const std::string& path, Deadline deadline) const;
  bool is_at(const std::string& path) const noexcept;

  FileDescriptor directory_;
};

}  // namespace tiermap
