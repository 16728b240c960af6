// The directory of a sparse store: its lock, its segment files, what a crash may have left in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/file_descriptor.hpp"

namespace tiermap {

/// One segment file found in the directory.
struct FoundSegment {
  std::uint64_t index;
  std::uint64_t bytes;  ///< Less than a segment after a crash while it was made.
};

/// Throws StoreError wherever it says so; the messages name the directory and the remedy.
class SparseDirectory {
 public:
  /// Opens an existing directory, or with `create` makes it when it is missing (its parent must exist). Throws.
  SparseDirectory(std::string path, bool create);

  int descriptor() const noexcept { return directory_.get(); }
  const std::string& path() const noexcept { return path_; }
  /// Whether the constructor made it.
  bool made() const noexcept { return made_; }

  bool has_metadata() const;
  /// Whether nothing but what a creation cut short may leave (lock and temporary files) is in it.
  bool is_empty() const;

  /// Excludes other writers, and readers, until this object is gone; a reader excludes writers. The kernel releases the
  /// lock of a process that dies; a child made by fork() keeps it. Throws (EBUSY) when it is taken.
  void lock(bool exclusive);

  /// Removes temporary files. Only under the exclusive lock.
  void remove_leftovers() const;

  static std::string segment_name(std::uint64_t index);
  /// The segment files. Throws for one that is no regular file or longer than `segment_bytes`.
  std::vector<FoundSegment> find_segments(std::uint64_t segment_bytes) const;

  /// Opens a segment, with O_DIRECT when `direct` and the file system takes it. Returns a descriptor or a negative
  /// errno value.
  int open_segment(std::uint64_t index, bool writable, bool direct) const noexcept;

  /// Makes a segment of `bytes` bytes that take no room; it appears under its name at once and whole. One that exists
  /// by then is left as it is. Returns 0 or a negative errno value.
  int make_segment(std::uint64_t index, std::uint64_t bytes) const noexcept;

  /// Takes back a creation that failed: temporary files, the lock file, and the directory if the constructor made it.
  void undo_creation() noexcept;

 private:
  std::string path_;
  bool made_ = false;
  FileDescriptor directory_;
  FileDescriptor lock_;
};

}  // namespace tiermap
