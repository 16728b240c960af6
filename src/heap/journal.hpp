// The journal file of a heap: slots, the commit record, and the index that a commit leaves. What is in the file is
// told in journal_layout.hpp; when it is written, in checkpointed_store.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "heap/journal_layout.hpp"
#include "heap/slot_space.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Reading and writing slots is thread-safe; the rest is for one thread at a time. Which slots are in use is the
/// caller's business. Functions return 0 or a negative errno value unless they throw.
class Journal {
 public:
  /// Whether the file is empty, or has zeros for a header, as one has that was never finished.
  static bool has_no_header(Store& file);

  /// `file` may be empty or what a creation cut short left: then it becomes the journal of a heap of `size_bytes` bytes
  /// if `writable`, and is taken for one otherwise. Whether it can be that is for the caller to know, of a heap that
  /// never had a journal. Throws StoreError for a journal of another version or heap, or one whose commit records are
  /// both damaged, or that has slots and no header.
  Journal(std::shared_ptr<Store> file, std::uint64_t identity, std::uint64_t size_bytes, bool writable);

  /// The last commit that is known to be durable.
  const CommitRecord& record() const noexcept { return record_; }
  std::string name() const { return file_->name(); }

  /// The blocks of neighbouring slots.
  int read(void* buffer, SlotRun slots) const;
  /// Writes as many of the slots as it can, and returns how many, at least 1.
  std::int64_t write(const void* buffer, SlotRun slots);
  std::uint32_t direct_alignment() const { return file_->direct_alignment(); }

  /// Makes all slots written so far durable.
  int flush() { return file_->flush(); }

  /// Writes the index to the slots, as many as index_blocks_for() says, and notes in `record` where it is.
  int write_index(std::span<const JournalEntry> entries, std::span<const std::uint32_t> slots, CommitRecord& record);
  static std::size_t index_blocks_for(std::size_t entries) noexcept {
    return (entries + most_index_entries - 1) / most_index_entries;
  }

  /// Replaces the commit record, durably. After a failure the old one or the new one may be what the disk has, and the
  /// slots of both have to stay as they are until this succeeds.
  int write_record(const CommitRecord& record);

  /// The entries of the record's index, and the slots that the index itself takes. Throws StoreError that names the
  /// place if anything in it cannot be.
  std::vector<JournalEntry> load_index(std::vector<std::uint32_t>& index_slots) const;
  /// Reads every block of the entries. Throws StoreError that names the slot if one is not what its checksum says.
  void verify(std::span<const JournalEntry> entries) const;

  /// How many slots the file has room for as it is.
  std::uint64_t slots() const noexcept {
    const std::uint64_t blocks = file_->size_bytes() / journal_block_bytes;
    return blocks - std::min(blocks, journal_header_blocks);
  }
  /// Cuts off the file what lies behind slot `end`.
  int cut(std::uint32_t end);

 private:
  void create(std::uint64_t size_bytes);
  void load_record();
  int read_block(std::uint64_t block, JournalBlock& content) const;
  int write_block(std::uint64_t block, const JournalBlock& content);
  int make_room(std::uint64_t blocks);
  [[noreturn]] void refuse(const std::string& what) const;

  const std::shared_ptr<Store> file_;
  const std::uint64_t identity_;
  CommitRecord record_;
  std::mutex growth_mutex_;  ///< Held by whoever makes the file longer.
};

}  // namespace tiermap
