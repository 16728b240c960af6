#include "heap/heap_data.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "heap/heap_entries.hpp"
#include "store/file_descriptor.hpp"
#include "store/file_store.hpp"
#include "store/sparse_directory.hpp"
#include "store/sparse_metadata.hpp"
#include "store/sparse_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_segment_bytes_of_heaps = 256 << 20;

std::uint64_t segment_bytes_for(std::uint64_t bytes) noexcept {
  std::uint64_t segment = least_segment_bytes_of_heaps;
  while ((bytes + segment - 1) / segment > most_heap_segments) {
    segment *= 2;
  }
  return segment;
}

/// What the state block says, wherever the last crash has left it: segments come before the state that speaks of them.
HeapSegments segments_that_were(const SparseDirectory& directory) {
  HeapBlock block{};
  const FileDescriptor first(directory.open_segment(0, false, false));
  const ssize_t got =
      first.valid() ? ::pread(first.get(), block.data(), block.size(), off_t{HeapLayout::state_offset}) : 0;
  return got == static_cast<ssize_t>(block.size()) ? segments_of_state(block) : HeapSegments();
}

/// What a creation that was cut short has not: it comes before anything is written.
void require_metadata(const std::string& path, const char* entry) {
  if (!SparseDirectory(path + entry, false).has_metadata()) {
    throw StoreError(EINVAL, "heap " + path +
                                 " was made only in part, or has lost the file metadata of its data: put that back, or "
                                 "create it anew, which replaces only what nothing is in");
  }
}

void require_whole_segments(const std::string& path, const char* entry) {
  if (const std::vector<HeapFinding> damaged = damaged_segments(path, entry); !damaged.empty()) {
    throw StoreError(EINVAL, "heap " + path + " is truncated: " + damaged.front().what +
                                 ": restore it from a snapshot, or save what can be by 'tiermap heap copy --salvage'");
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

std::shared_ptr<Store> open_heap_data(const std::string& path, const char* entry, bool writable, DamagedData damaged) {
  const OpenMode mode = writable ? OpenMode::read_write : OpenMode::read_only;
  if (!is_directory(path + entry)) {
    return FileStore::open(path + entry, mode, 0, FileOptions());
  }
  require_metadata(path, entry);
  if (damaged == DamagedData::refused) {
    require_whole_segments(path, entry);  // First: opening it for writing makes those that are short longer.
  }
  return SparseStore::open(path + entry, mode, 0, SparseOptions());
}

/// A sparse store gives every segment its whole length at once, and takes a shorter one for what a crash of the machine
/// left, whose end reads as zeros. Of a heap that would be lost data, unless the segment was not to be there yet.
std::vector<HeapFinding> damaged_segments(const std::string& path, const char* entry) {
  std::vector<HeapFinding> damaged;
  if (!is_directory(path + entry)) {
    return damaged;
  }
  const SparseDirectory directory(path + entry, false);
  const std::uint64_t segment_bytes = load_sparse_metadata(directory.descriptor(), path + entry).segment_bytes;
  HeapSegments missing = segments_that_were(directory);
  for (const FoundSegment& found : directory.find_segments(segment_bytes)) {
    const bool known = found.index < most_heap_segments && missing.test(found.index);
    if (found.bytes != segment_bytes && (found.bytes != 0 || known)) {
      damaged.push_back({heap_data_file, found.index * segment_bytes + found.bytes,
                         SparseDirectory::segment_name(found.index) + " of its data has " +
                             std::to_string(found.bytes) + " bytes of " + std::to_string(segment_bytes),
                         "what was behind reads as zeros now"});
    }
    if (known) {
      missing.reset(found.index);
    }
  }
  for (std::size_t segment = 0; segment < most_heap_segments; ++segment) {
    if (missing.test(segment)) {
      damaged.push_back({heap_data_file, segment * segment_bytes,
                         SparseDirectory::segment_name(segment) + " of its data is missing",
                         "what was in it reads as zeros now"});
    }
  }
  std::ranges::sort(damaged, {}, &HeapFinding::byte);
  return damaged;
}

HeapSegments segments_of(const Store& data) {
  HeapSegments segments;
  if (const auto* const sparse = dynamic_cast<const SparseStore*>(&data); sparse != nullptr) {
    const std::uint64_t count = (sparse->size_bytes() + sparse->segment_bytes() - 1) / sparse->segment_bytes();
    for (std::size_t segment = 0; segment < std::min<std::uint64_t>(count, most_heap_segments); ++segment) {
      segments.set(segment, sparse->has_segment(segment));
    }
  }
  return segments;
}

}  // namespace tiermap
