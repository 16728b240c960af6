#include "heap/unfinished_creation.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "heap/heap_entries.hpp"
#include "heap/heap_layout.hpp"
#include "heap/journal_file.hpp"
#include "heap/journal_layout.hpp"
#include "store/file_descriptor.hpp"
#include "store/file_open.hpp"
#include "store/sparse_directory.hpp"

namespace tiermap {
namespace {

/// Superblock, state block and the metadata's header. A heap with any block or name has something behind them.
constexpr std::uint64_t written_by_creation = HeapLayout::metadata_offset + heap_block_bytes;
/// A commit record's number of commits.
constexpr std::uint64_t generation_at = 16;

FileDescriptor open_regular(const std::string& path, struct stat& status) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.valid() && (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))) {
    return FileDescriptor();
  }
  return file;
}

/// Whether eight bytes are zero, or not there.
bool is_zero(const FileDescriptor& file, std::uint64_t at) {
  std::array<char, 8> bytes{};
  return ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) >= 0 &&
         std::ranges::all_of(bytes, [](char byte) { return byte == 0; });
}

/// Of a plain file, or of the first segment: no superblock, which is what makes it a heap, and nothing after it.
bool holds_no_heap(const std::string& path) {
  struct stat status = {};
  const FileDescriptor file = open_regular(path, status);
  return file.valid() && is_zero(file, HeapLayout::superblock_offset) &&
         ::lseek(file.get(), off_t{written_by_creation}, SEEK_DATA) < 0 && errno == ENXIO;
}

bool holds_no_heap_in_segments(const std::string& path) {
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(path, unreadable)) {
    const std::string name = entry.path().filename().string();
    const bool before_any_segment = name == "lock" || name.starts_with("metadata");
    const bool first = name == SparseDirectory::segment_name(0) || name.starts_with("segment-0.new.");
    if (!before_any_segment && !(first && holds_no_heap(entry.path().string()))) {
      return false;
    }
  }
  return !unreadable;
}

/// Empty, or one with which nothing was ever committed.
bool holds_no_commit(const std::string& path, std::uint64_t& bytes) {
  struct stat status = {};
  const FileDescriptor file = open_regular(path, status);
  bytes = static_cast<std::uint64_t>(status.st_size);
  return file.valid() && bytes <= journal_header_blocks * journal_block_bytes &&
         is_zero(file, journal_block_bytes + generation_at) && is_zero(file, 2 * journal_block_bytes + generation_at);
}

}  // namespace

bool is_unfinished_creation(const std::string& path) {
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(path, unreadable)) {
    const std::string name = "/" + entry.path().filename().string();
    if (name != journal_entry && name != data_entry) {
      return false;
    }
  }
  std::uint64_t journal_bytes = 0;
  if (unreadable || !holds_no_commit(path + journal_entry, journal_bytes)) {
    return false;
  }
  const std::string data = path + data_entry;
  struct stat status = {};
  if (::lstat(data.c_str(), &status) != 0) {
    return errno == ENOENT && journal_bytes == 0;  // The journal has no content before there is data.
  }
  return S_ISDIR(status.st_mode) ? holds_no_heap_in_segments(data) : holds_no_heap(data);
}

void remove_unfinished_creation(const std::string& path) {
  const std::shared_ptr<Store> lock = open_journal_file(path + journal_entry, OpenMode::read_write);
  if (!is_unfinished_creation(path)) {
    return;
  }
  for (const char* const entry : {data_entry, journal_entry}) {
    std::error_code error;
    std::filesystem::remove_all(path + entry, error);
    if (error) {
      throw_file_error(error.value(), path + entry, "was left by a creation that was cut short, and cannot be removed");
    }
  }
}

}  // namespace tiermap
