#include "heap/heap_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "heap/block_check.hpp"
#include "heap/block_transfer.hpp"
#include "heap/disk_use.hpp"
#include "heap/heap_copy_files.hpp"
#include "heap/heap_data.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_remains.hpp"
#include "heap/heap_removal.hpp"
#include "heap/journal.hpp"
#include "heap/salvage.hpp"
#include "heap/store_bytes.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// So many entries of a journal are copied before that is told.
constexpr std::size_t entries_at_once = 16384;

/// What a crash left in the journal of the heap that was copied goes to the copy at once. `told` of each piece.
void apply_journal(const HeapRemains& remains, Store& data, const std::function<void(std::uint64_t)>& told) {
  const Journal journal(remains.files().journal, remains.superblock()->identity, data.size_bytes(), false);
  std::vector<std::uint32_t> index_slots;
  const std::vector<JournalEntry> entries = journal.load_index(index_slots);
  for (std::span<const JournalEntry> left = entries; !left.empty();) {
    const auto piece = left.first(std::min(left.size(), entries_at_once));
    if (const int result = copy_to_base(journal, piece, data, journal.record().size_bytes); result != 0) {
      throw_file_error(-result, data.name(), "cannot be brought to the last checkpoint");
    }
    told(piece.size() * journal_block_bytes);
    left = left.subspan(piece.size());
  }
}

struct CopyCallbacks {
  const HeapProgress& progress;
  const std::function<void()>& verified;
};

/// `change` sees the data of the copy before it becomes a heap, and closes it.
void copy_and_change(const std::string& from, const std::string& to, const HeapRemains& remains,
                     const CopyCallbacks& callbacks, const std::function<void(Store&)>& change) {
  if (callbacks.verified) {
    callbacks.verified();
  }
  std::uint64_t done = 0;
  const std::uint64_t total = bytes_on_disk(from);
  const auto told = [&](std::uint64_t bytes) {
    done += bytes;
    if (callbacks.progress) {
      callbacks.progress(done, std::max(done, total));
    }
  };
  HeapCopyFiles copy(from, to, told);
  {
    const std::shared_ptr<Store> data = copy.open_data();
    if (remains.journal_needed()) {
      apply_journal(remains, *data, told);
    }
    change(*data);
  }
  told(0);  // What came since the last piece may have taken long: the last chance to stop.
  copy.finish();
}

void require_nothing_at(const std::string& to) {
  if (heap_presence(to) != HeapPresence::nothing) {
    throw StoreError(EEXIST, to + " is there already: choose another path for the copy");
  }
}

}  // namespace

void write_closed(Store& data, HeapSuperblock superblock, HeapStateBlock state) {
  std::random_device random;
  superblock.origin = superblock.identity;
  superblock.origin_generation = state.generation;
  superblock.identity = std::uint64_t{random()} << 32 | random();
  state.state = HeapState::closed;
  state.has_journal = false;
  state.segments = segments_of(data);
  HeapBlock block;
  encode_state(state, block);
  write_bytes(data, HeapLayout::state_offset, block);
  encode_superblock(superblock, block);
  write_bytes(data, HeapLayout::superblock_offset, block);
  if (const int result = data.flush(); result != 0) {
    throw_file_error(-result, data.name(), "cannot be written as a copy");
  }
}

void copy_heap(const std::string& from, const std::string& to, const HeapProgress& progress,
               const std::function<void()>& verified) {
  require_nothing_at(to);
  HeapCheck check;
  HeapRemains remains(from, check);
  BlockCheck(remains, check, {}).run();
  if (!check.sound()) {
    const HeapFinding& first = check.findings.front();
    throw StoreError(EUCLEAN, "heap " + from + " is not sound (" + first.file + ", byte " + std::to_string(first.byte) +
                                  ": " + first.what + "), and is not copied: 'tiermap heap check' says what can be " +
                                  "saved, and 'tiermap heap copy --salvage' saves it");
  }
  copy_and_change(from, to, remains, {progress, verified},
                  [&](Store& data) { write_closed(data, *remains.superblock(), *remains.state()); });
}

HeapSalvage salvage_heap(const std::string& from, const std::string& to, const HeapProgress& progress,
                         const std::function<void()>& verified) {
  require_nothing_at(to);
  HeapCheck check;
  HeapRemains remains(from, check);
  BlockCheck blocks(remains, check, {});
  blocks.run();
  HeapSalvage salvage;
  salvage.was_sound = check.sound();
  copy_and_change(from, to, remains, {progress, verified}, [&](Store& data) {
    const HeapStateBlock state = write_salvaged(data, remains, blocks, salvage);
    write_closed(data, *remains.superblock(), state);
  });
  HeapCheck after;
  try {
    after = check_heap(to, progress);
  } catch (...) {
    remove_heap_files(to);
    throw;
  }
  if (!after.sound()) {
    remove_heap_files(to);
    throw StoreError(EUCLEAN, "heap " + from + " cannot be salvaged: the copy is not sound either (" +
                                  after.findings.front().what + "): restore it from a snapshot");
  }
  return salvage;
}

}  // namespace tiermap
