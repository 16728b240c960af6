// Whole transfers from system calls that may do a part, be interrupted, or want aligned pieces; and a file opened
// twice, with O_DIRECT for what is aligned and without for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "store/file_descriptor.hpp"

namespace tiermap {

/// Direct writes are handed out in whole blocks of this size, though the disk may take less: a direct and a buffered
/// write that share a page of the kernel's page cache could undo one another, and no two pieces share a page this way.
inline constexpr std::uint64_t write_block_bytes = 4096;

/// The largest offset that file systems know.
inline constexpr std::uint64_t largest_file_bytes = 0x7fff'ffff'ffff'f000;

/// pread() and pwrite() until all is done; fewer bytes come back only at the end of the file or when an error follows
/// what was done already (asking again for the rest reports it). Otherwise a negative errno value.
std::int64_t read_fully(int descriptor, void* buffer, std::size_t bytes, std::uint64_t offset) noexcept;
std::int64_t write_fully(int descriptor, const void* buffer, std::size_t bytes, std::uint64_t offset) noexcept;

/// fdatasync(), or fsync() when `whole`; 0 or a negative errno value.
int synchronise(int descriptor, bool whole) noexcept;

/// Gives the room of a range back and leaves zeros there; the length stays. 0 or a negative errno value, -ENOTSUP where
/// the file system has no holes.
int punch_hole(int descriptor, std::uint64_t offset, std::uint64_t bytes) noexcept;

/// Makes a file that ends before `end` that long, for a write of [offset, end). Never shorter, as others may be making
/// it longer (where the file system has no call for that: unless they do so in that very moment). 0 or a negative errno
/// value.
int lengthen(int descriptor, std::uint64_t offset, std::uint64_t end) noexcept;

/// Opens for direct I/O the file that `like` has open, by its `path` seen from `directory` (AT_FDCWD for none). Invalid
/// where the file system refuses, where it wants an alignment above 4096, or when the path names another file by now.
FileDescriptor open_direct(int directory, const std::string& path, int like, bool writable);

/// The least alignment of offset, length and address that direct I/O on `direct` takes: 512 to 4096, or 0 when it is
/// more or when there is no direct I/O.
std::uint32_t probe_direct_alignment(int direct);

/// One file opened twice. Thread-safe as far as the system calls are: all but move is const.
class DirectFile {
 public:
  DirectFile() = default;
  /// `direct` may be invalid: then all I/O goes through the page cache.
  DirectFile(FileDescriptor buffered, FileDescriptor direct);

  /// The one to hand out in an Extent.
  int descriptor() const noexcept { return direct_.valid() ? direct_.get() : buffered_.get(); }
  int buffered() const noexcept { return buffered_.get(); }
  /// Negative without direct I/O.
  int direct() const noexcept { return direct_.get(); }
  /// What direct reads must be multiples of; 1 without direct I/O.
  std::uint32_t read_alignment() const noexcept { return alignment_; }
  /// What pieces of writes must be multiples of to go to descriptor().
  std::uint64_t write_alignment() const noexcept { return direct_.valid() ? write_block_bytes : 1; }

  /// Any offset, length and address; as read_fully() and write_fully().
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) const noexcept;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) const noexcept;

 private:
  FileDescriptor buffered_;
  FileDescriptor direct_;
  std::uint32_t alignment_ = 1;
};

}  // namespace tiermap
