#include "heap/heap_data.hpp"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>

#include "heap/heap_entries.hpp"
#include "store/file_descriptor.hpp"
#include "store/file_open.hpp"
#include "store/file_store.hpp"
#include "store/sparse_metadata.hpp"
#include "store/sparse_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_segment_bytes_of_heaps = 256 << 20;
/// Each segment is a file that stays open: so many are below what most systems let a process have.
constexpr std::uint64_t most_segments = 2048;

std::uint64_t segment_bytes_for(std::uint64_t bytes) noexcept {
  std::uint64_t segment = least_segment_bytes_of_heaps;
  while ((bytes + segment - 1) / segment > most_segments) {
    segment *= 2;
  }
  return segment;
}

/// A sparse store gives every segment its whole length at once, and takes a shorter one for what a crash of the machine
/// left, whose end reads as zeros. Of a heap that would be lost data; one without any length holds nothing yet. To be
/// called first: opening it for writing makes them whole.
void require_whole_segments(const std::string& path, const char* entry) {
  const FileDescriptor directory(::open((path + entry).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    throw_file_error(errno, path + entry, "cannot be opened");
  }
  const std::uint64_t segment_bytes = load_sparse_metadata(directory.get(), path + entry).segment_bytes;
  std::error_code unreadable;
  for (const auto& segment : std::filesystem::directory_iterator(path + entry, unreadable)) {
    const std::string name = segment.path().filename().string();
    const std::uint64_t length = segment.is_regular_file(unreadable) ? segment.file_size(unreadable) : 0;
    if (name.starts_with("segment-") && name.find(".new") == std::string::npos && length != 0 &&
        length != segment_bytes) {
      throw StoreError(EINVAL, "heap " + path + " is truncated: " + name + " of its data has " +
                                   std::to_string(length) + " bytes of " + std::to_string(segment_bytes) +
                                   ": restore it from a snapshot");
    }
  }
}

}  // namespace

std::shared_ptr<Store> create_heap_data(const std::string& path, HeapBacking backing, std::uint64_t bytes) {
  const std::string data = path + data_entry;
  if (backing == HeapBacking::sparse) {
    SparseOptions options;
    options.segment_bytes = segment_bytes_for(bytes);
    return SparseStore::open(data, OpenMode::create, bytes, options);
  }
  try {
    return FileStore::open(data, OpenMode::create, bytes, FileOptions());
  } catch (const StoreError& error) {
    if (error.code().value() != EFBIG) {
      throw;
    }
    throw StoreError(EFBIG, "heap " + path + " cannot be made: its data, one file of up to " + std::to_string(bytes) +
                                " bytes, is more than the file system lets a file be: choose a smaller capacity, "
                                "HeapBacking::sparse, or another file system");
  }
}

std::shared_ptr<Store> open_heap_data(const std::string& path, const char* entry, bool writable) {
  const OpenMode mode = writable ? OpenMode::read_write : OpenMode::read_only;
  if (!is_directory(path + entry)) {
    return FileStore::open(path + entry, mode, 0, FileOptions());
  }
  require_whole_segments(path, entry);
  return SparseStore::open(path + entry, mode, 0, SparseOptions());
}

}  // namespace tiermap
