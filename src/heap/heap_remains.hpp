// What can be read of a heap whose files may be damaged: where its parts are, its state, its names. Blocks are
// heap/block_check.hpp's matter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heap/heap_data.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_layout.hpp"
#include "heap/name_records.hpp"
#include "tiermap/heap_check.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

struct FoundName {
  NameRecord record;
  std::uint64_t byte = 0;  ///< Of `data`.
};

class HeapRemains {
 public:
  /// Opens the files for reading and reads what there is; what is wrong goes to `check`. Throws StoreError as
  /// Heap::check().
  HeapRemains(const std::string& path, HeapCheck& check);

  /// Nothing if it cannot be told where anything is.
  const std::optional<HeapSuperblock>& superblock() const noexcept { return superblock_; }
  HeapLayout layout() const { return HeapLayout(superblock_->capacity_bytes); }
  const HeapFiles& files() const noexcept { return files_; }
  /// The data, in the state of the last checkpoint if the journal has what that takes; else as it is.
  Store& store() noexcept { return *store_; }
  /// Whether that state is in part in the journal.
  bool journal_needed() const noexcept { return journal_needed_; }
  /// The state block, if it is intact.
  const std::optional<HeapStateBlock>& state() const noexcept { return state_; }
  /// The names area, as far as it can be read.
  const std::vector<FoundName>& names() const noexcept { return names_; }
  /// Whether that is all of it.
  bool names_intact() const noexcept { return names_intact_; }
  std::uint64_t generation() const noexcept { return state_ ? state_->generation : 0; }

 private:
  void find(const std::string& file, std::uint64_t byte, std::string what, std::string meaning);
  void read_superblock();
  std::optional<HeapSuperblock> guess_superblock();
  bool lost_its_journal() const;
  void read_journal();
  void read_state();
  void read_names();
  void judge_names(std::span<const std::byte> bytes, std::uint64_t wanted);
  void take_names(std::span<const std::byte> bytes);

  const std::string path_;
  HeapCheck& check_;
  HeapFiles files_;
  std::shared_ptr<Store> store_;
  std::optional<HeapSuperblock> superblock_;
  std::optional<HeapStateBlock> state_;
  bool journal_needed_ = false;
  bool left_open_ = false;  ///< With checkpoints.
  bool names_intact_ = false;
  std::vector<FoundName> names_;
};

}  // namespace tiermap
