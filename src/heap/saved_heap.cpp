#include "heap/saved_heap.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

#include "heap/allocator.hpp"
#include "heap/data_ranges.hpp"
#include "heap/journal.hpp"
#include "heap/store_bytes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t names_read_at_once = 1 << 20;

}  // namespace

std::string what_is_lost(const Store& journal) {
  return journal.size_bytes() == 0 ? "is empty" : "is zeros where its header (bytes 0 to 63) was";
}

HeapSuperblock read_superblock(Store& data, const std::string& path) {
  HeapBlock block;
  read_bytes(data, HeapLayout::superblock_offset, block);
  const HeapSuperblock superblock = decode_superblock(block, path);
  const std::uint64_t end = HeapLayout(superblock.capacity_bytes).end;
  if (data.size_bytes() < end) {
    throw StoreError(EINVAL, "heap " + path + " is truncated: its data has " + std::to_string(data.size_bytes()) +
                                 " bytes of " + std::to_string(end) + ": restore it from a snapshot");
  }
  return superblock;
}

HeapStateBlock read_state(Store& store, const HeapLayout& layout, const std::string& path) {
  HeapBlock block;
  read_bytes(store, HeapLayout::state_offset, block);
  return decode_state(block, layout, path);
}

void require_saved(const HeapStateBlock& state, const std::string& path) {
  if (state.state == HeapState::written_directly) {
    throw StoreError(EUCLEAN, "heap " + path +
                                  " was not closed, and was written without checkpoints, so what is in it may not go "
                                  "together: restore it from a snapshot, or see with 'tiermap heap check' what can be "
                                  "saved");
  }
}

std::vector<std::byte> read_names_area(Store& store, const HeapLayout& layout, std::uint64_t wanted_bytes) {
  std::vector<std::byte> bytes;
  while (bytes.size() < wanted_bytes) {
    const std::uint64_t begin = layout.names_offset + bytes.size();
    const std::uint64_t piece = std::min(names_read_at_once, wanted_bytes - bytes.size());
    if (piece == names_read_at_once && first_data(store, begin, begin + piece).begin == begin + piece) {
      break;
    }
    bytes.resize(bytes.size() + piece);
    read_bytes(store, begin, std::span(bytes).last(piece));
  }
  return bytes;
}

std::unique_ptr<ObjectNames> read_names(Store& store, const HeapLayout& layout, const HeapStateBlock& state,
                                        const std::string& path) {
  const std::vector<std::byte> bytes = read_names_area(store, layout, state.names_bytes);
  if (bytes.size() < state.names_bytes) {
    throw StoreError(EINVAL, "heap " + path + " is damaged: its state block, at byte 4096 of its data, speaks of " +
                                 std::to_string(state.names_bytes) + " bytes of names, and there are only " +
                                 std::to_string(bytes.size()) + ": restore it from a snapshot");
  }
  if (heap_checksum(bytes) != state.names_checksum) {
    throw StoreError(EINVAL, "heap " + path + " is damaged: its names, at byte " + std::to_string(layout.names_offset) +
                                 " of its data, are not what their checksum says: restore it from a snapshot");
  }
  auto names = std::make_unique<ObjectNames>(path, layout.names_capacity_bytes, layout.end - layout.data_offset);
  names->load(bytes);
  return names;
}

void require_journal(const HeapFiles& files, const HeapSuperblock& superblock, const std::string& path) {
  const HeapLayout layout(superblock.capacity_bytes);
  if (Journal::has_no_header(*files.journal) && read_state(*files.data, layout, path).needs_journal()) {
    throw StoreError(EUCLEAN,
                     "heap " + path + " may be a mixture of two states: its journal " + what_is_lost(*files.journal) +
                         ", and was not when it was written: put the journal back, restore it from a snapshot, or see "
                         "with 'tiermap heap check' what can be saved");
  }
}

SavedData saved_data(const HeapFiles& files, const HeapSuperblock& superblock, const std::string& path) {
  require_journal(files, superblock, path);
  if (files.journal->size_bytes() == 0) {
    return {files.data, nullptr, false};
  }
  const auto journal = std::make_shared<CheckpointedStore>(files.data, files.journal, superblock.identity, false,
                                                           HeapLayout(superblock.capacity_bytes).end);
  if (journal->journal_bytes_in_use() == 0) {
    return {files.data, nullptr, journal->was_left_open()};
  }
  return {journal, journal, journal->was_left_open()};
}

SavedHeap::SavedHeap(const std::string& path)
    : path_(path),
      files_(open_heap_files(path, false)),
      superblock_(read_superblock(*files_.data, path)),
      data_(saved_data(files_, superblock_, path)) {
  const HeapLayout layout(superblock_.capacity_bytes);
  state_ = read_state(*data_.store, layout, path);
  require_saved(state_, path);
  names_ = read_names(*data_.store, layout, state_, path);
}

AllocatorStatistics SavedHeap::space() const {
  StoreMetadataArea area(*data_.store, HeapLayout::metadata_offset);
  return naming_heap(
      path_, [&] { return Allocator(area, superblock_.capacity_bytes, Allocator::Content::saved).statistics(); });
}

}  // namespace tiermap
