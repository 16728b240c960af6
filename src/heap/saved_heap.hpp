// What a heap has saved, read from its files; and a heap that is looked at without mapping its data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heap/allocator_statistics.hpp"
#include "heap/checkpointed_store.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_layout.hpp"
#include "heap/object_names.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// These throw StoreError that names the heap at `path` for what is damaged.
HeapSuperblock read_superblock(Store& data, const std::string& path);
HeapStateBlock read_state(Store& store, const HeapLayout& layout, const std::string& path);
/// EUCLEAN for a heap that was written without checkpoints and not closed.
void require_saved(const HeapStateBlock& state, const std::string& path);
/// So many bytes of the names area, or fewer: it ends before the first whole MiB in which nothing was ever written, so
/// that a number that cannot be takes no memory.
std::vector<std::byte> read_names_area(Store& store, const HeapLayout& layout, std::uint64_t wanted_bytes);
std::unique_ptr<ObjectNames> read_names(Store& store, const HeapLayout& layout, const HeapStateBlock& state,
                                        const std::string& path);

/// Of a journal without a header, for messages.
std::string what_is_lost(const Store& journal);
/// EUCLEAN for a heap whose journal somebody emptied, or filled with zeros: what it was to bring to the data may be
/// there in part.
void require_journal(const HeapFiles& files, const HeapSuperblock& superblock, const std::string& path);

/// A heap's data as it would be opened, for reading.
struct SavedData {
  std::shared_ptr<Store> store;
  std::shared_ptr<CheckpointedStore> journal;  ///< The same, where that has what the data has not; else null.
  bool left_open = false;                      ///< Written last with checkpoints, by a process that did not close it.

  std::uint64_t bytes_to_apply() const { return journal != nullptr ? journal->journal_bytes_in_use() : 0; }
};
/// Throws StoreError, also as require_journal().
SavedData saved_data(const HeapFiles& files, const HeapSuperblock& superblock, const std::string& path);

/// A heap that nobody writes, in the state in which it would be opened. Needs neither cache nor fault mode.
class SavedHeap {
 public:
  /// Throws StoreError where Heap::open_read_only() would, but for what that says of fault modes.
  explicit SavedHeap(const std::string& path);

  bool closed() const noexcept { return state_.state == HeapState::closed && !data_.left_open; }
  std::uint64_t checkpoints() const noexcept { return state_.generation; }
  /// What a crash left to be applied, in bytes of the journal.
  std::uint64_t bytes_to_apply() const { return data_.bytes_to_apply(); }
  std::uint64_t page_size_bytes() const noexcept { return superblock_.page_size_bytes; }

  std::vector<HeapObject> objects() const { return names_->list(); }
  AllocatorStatistics space() const;

 private:
  const std::string path_;
  HeapFiles files_;
  HeapSuperblock superblock_;
  SavedData data_;
  HeapStateBlock state_;
  std::unique_ptr<ObjectNames> names_;
};

}  // namespace tiermap
