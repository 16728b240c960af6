#include "heap/heap_remains.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "heap/heap_entries.hpp"
#include "heap/journal.hpp"
#include "heap/journal_check.hpp"
#include "heap/metadata_records.hpp"
#include "heap/saved_heap.hpp"
#include "heap/store_bytes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of a names area whose length is not known so much is looked at.
constexpr std::uint64_t most_guessed_names_bytes = 64 << 20;

/// The capacity of a heap whose data is so long; nothing if no heap's is.
std::optional<std::uint64_t> capacity_for(std::uint64_t data_bytes) {
  std::uint64_t low = 1;
  std::uint64_t high = most_heap_slabs;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (HeapLayout(middle * slab_bytes).end < data_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return HeapLayout(low * slab_bytes).end == data_bytes ? std::optional(low * slab_bytes) : std::nullopt;
}

/// The identity in a journal that is one; 0 if it does not say.
std::uint64_t journal_identity(Store& journal) {
  JournalBlock block;
  read_bytes(journal, 0, block);
  std::uint64_t identity = 0;
  for (std::size_t index = 0; index < 8; ++index) {
    identity |= std::to_integer<std::uint64_t>(block[16 + index]) << (8 * index);
  }
  try {
    check_journal_header(block, identity, "");
    return identity;
  } catch (const StoreError&) {
    return 0;
  }
}

}  // namespace

HeapRemains::HeapRemains(const std::string& path, HeapCheck& check)
    : path_(path), check_(check), files_(open_heap_files(path, false, DamagedData::taken)), store_(files_.data) {
  read_superblock();
  if (!superblock_) {
    return;
  }
  if (const std::uint64_t end = layout().end; files_.data->size_bytes() < end) {
    find(heap_data_file, files_.data->size_bytes(),
         "it ends here, and should have " + std::to_string(end) + " bytes: it was truncated",
         "what was behind reads as zeros now");
  }
  std::ranges::move(damaged_segments(path_, data_entry), std::back_inserter(check_.findings));
  read_journal();
  read_state();
  read_names();
}

void HeapRemains::find(const std::string& file, std::uint64_t byte, std::string what, std::string meaning) {
  check_.findings.push_back({file, byte, std::move(what), std::move(meaning)});
}

void HeapRemains::read_superblock() {
  HeapBlock block;
  read_bytes(*files_.data, HeapLayout::superblock_offset, block);
  try {
    superblock_ = decode_superblock(block, path_);
    return;
  } catch (const StoreError&) {
    superblock_ = guess_superblock();
    // One that is whole, or has nothing of a heap behind it, is not damaged but another thing.
    if (is_whole_block(block) || is_of_other_endianness(block) || !superblock_) {
      throw;
    }
  }
  find(heap_data_file, HeapLayout::superblock_offset, "the superblock is not what its checksum says",
       "the heap cannot be opened; its capacity of " + std::to_string(superblock_->capacity_bytes) +
           " bytes is known from elsewhere");
}

/// From the metadata's header, or else from the length of the data.
std::optional<HeapSuperblock> HeapRemains::guess_superblock() {
  HeapSuperblock guessed;
  guessed.page_size_bytes = 64 << 10;
  guessed.identity = journal_identity(*files_.journal);
  try {
    std::array<std::byte, metadata_header_bytes> header;
    read_bytes(*files_.data, HeapLayout::metadata_offset, header);
    guessed.capacity_bytes = decode_metadata_header(header).slabs * slab_bytes;
    return guessed;
  } catch (const StoreError&) {
  }
  HeapBlock block;
  read_bytes(*files_.data, HeapLayout::state_offset, block);
  const auto capacity = capacity_for(files_.data->size_bytes());
  if (!capacity || !is_whole_block(block)) {
    return std::nullopt;
  }
  guessed.capacity_bytes = *capacity;
  return guessed;
}

/// By the data alone: there is nothing else.
bool HeapRemains::lost_its_journal() const {
  HeapBlock block;
  read_bytes(*files_.data, HeapLayout::state_offset, block);
  try {
    return Journal::has_no_header(*files_.journal) && decode_state(block, layout(), path_).needs_journal();
  } catch (const StoreError&) {
    return false;
  }
}

void HeapRemains::read_journal() {
  if (files_.journal->size_bytes() == 0 || lost_its_journal()) {
    return;  // For read_state() to say.
  }
  try {
    check_commit_records(*files_.journal, superblock_->identity, check_);
    const SavedData data = saved_data(files_, *superblock_, path_);
    check_.journal_bytes_to_apply = data.bytes_to_apply();
    journal_needed_ = data.journal != nullptr;
    left_open_ = data.left_open;
    store_ = data.store;
  } catch (const StoreError& error) {
    check_damaged_journal(files_.journal, *files_.data, superblock_->identity, error.what(), check_);
  }
}

void HeapRemains::read_state() {
  HeapBlock block;
  try {
    read_bytes(*store_, HeapLayout::state_offset, block);
    state_ = decode_state(block, layout(), path_);
  } catch (const StoreError&) {
    find(heap_data_file, HeapLayout::state_offset, "the state block is not what its checksum says",
         "the heap cannot be opened, and it is not known whether it was closed");
    return;
  }
  check_.checkpoints = state_->generation;
  if (lost_its_journal()) {
    find(heap_journal_file, 0, "it " + what_is_lost(*files_.journal) + ", and was not when the heap was written",
         "the heap cannot be opened: blocks may be of two checkpoints");
  }
  switch (state_->state) {
    case HeapState::closed:
      check_.condition = left_open_ ? HeapCondition::checkpoint : HeapCondition::closed;
      break;
    case HeapState::checkpoint:
      check_.condition = HeapCondition::checkpoint;
      break;
    case HeapState::written_directly:
      check_.condition = HeapCondition::unsaved;
      find(heap_data_file, HeapLayout::state_offset, "the heap was written without checkpoints, and not closed",
           "it cannot be opened: blocks may hold what came after the names and the metadata, or have lost it");
      break;
  }
}

void HeapRemains::read_names() {
  const HeapLayout where = layout();
  const std::uint64_t wanted =
      state_ ? state_->names_bytes : std::min(where.names_capacity_bytes, most_guessed_names_bytes);
  std::vector<std::byte> bytes;
  try {
    bytes = read_names_area(*store_, where, wanted);
  } catch (const StoreError& error) {
    find(heap_data_file, where.names_offset, error.what(), "no object with a name can be found");
    return;
  }
  take_names(bytes);
  if (state_) {
    judge_names(bytes, wanted);
  }
}

void HeapRemains::judge_names(std::span<const std::byte> bytes, std::uint64_t wanted) {
  const std::uint64_t begin = layout().names_offset;
  const std::uint64_t end = names_.empty() ? 0 : names_.back().byte - begin;
  const std::string readable = std::to_string(names_.size()) + " names can be read, and any of them may be wrong";
  const bool as_saved = bytes.size() == wanted && heap_checksum(bytes) == state_->names_checksum;
  if (bytes.size() < wanted) {
    find(heap_data_file, HeapLayout::state_offset,
         "the state block speaks of " + std::to_string(wanted) + " bytes of names, and there are only " +
             std::to_string(bytes.size()),
         "the heap cannot be opened; " + readable);
  } else if (!as_saved) {
    find(heap_data_file, begin,
         "the names, " + std::to_string(bytes.size()) + " bytes from here on, are not what their checksum says",
         "the heap cannot be opened; " + readable);
  } else if (!names_intact_) {
    find(heap_data_file, begin + end, "the record of a name here, or the one behind it, cannot be",
         "the heap cannot be opened");
  }
  names_intact_ = names_intact_ && as_saved;
}

void HeapRemains::take_names(std::span<const std::byte> bytes) {
  const std::uint64_t begin = layout().names_offset;
  const std::size_t all = bytes.size();
  while (!bytes.empty()) {
    FoundName found{{}, begin + (all - bytes.size())};
    if (!take_name_record(bytes, superblock_->capacity_bytes, found.record)) {
      return;
    }
    names_.push_back(std::move(found));
  }
  names_intact_ = true;
}

}  // namespace tiermap
