// A store that a crash takes back to its last commit, whole: any writable store as the base, and a journal beside it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heap/changed_blocks.hpp"
#include "heap/journal.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Blocks of 4 KiB written since the last commit are in the journal, each in a slot that nothing committed uses; the
/// base is written by commits alone. A commit goes
///
///   1. blocks and index to free slots of the journal     (blocks have been there since write())
///   2. fdatasync of the journal
///   3. the commit record, twice, over the last one       <- from here on a crash leads to the new state
///   4. fdatasync of the journal                             the last commit's slots are free now
///   5. blocks to the base
///   6. fdatasync of the base                                the blocks' place is the base now
///
/// and opening does 4, 5 and 6 again if the record does not say that they were done. Why that is enough:
///
/// - A record is never on the disk before what it speaks of (2 is before 3), so one that can be read is to be applied,
///   and a wrong checksum below it is damage, not a torn write. Of its two copies a crash in 3 may leave the old one
///   and the new: the newer counts.
/// - Until 3 the base holds the last commit, whole, and so does what is in the journal for it: what is written since
///   goes to other slots. A crash before 4 may lead to either state, each complete.
/// - From 3 until the next 4 the slots of this commit stay as they are, so applying it can be done again after any
///   crash, also one while it is being done again. That it was done is therefore noted only when the store is closed
///   or has been recovered; then the journal is cut.
/// - What is written while a commit is under way goes to slots of its own and belongs to the next.
///
/// A commit that failed is in doubt: a crash may lead to it or to the one before. The next commit() finishes it first.
///
/// Thread-safe. `changes_` has its own mutex; commit_mutex_ is held for the whole of a commit and guards what belongs
/// to it; block locks order writers of parts of one block. Neither reads nor writes ever wait for a commit.
class CheckpointedStore final : public Store {
 public:
  static constexpr std::uint64_t block_bytes = journal_block_bytes;

  /// Opens `base` in the state of the last commit: one that was cut short is finished, what was not committed is
  /// dropped. `journal` may be an empty file (of a base that nothing was written to through another journal). Both
  /// belong to this object until it is destroyed; `identity` tells heaps apart. Read-only, neither is written: what is
  /// committed and not yet applied is read from the journal. Unless `needed_bytes` is 0, a commit that would give the
  /// base another size is refused: a journal may come from anywhere. Throws StoreError.
  CheckpointedStore(std::shared_ptr<Store> base, std::shared_ptr<Store> journal, std::uint64_t identity,
                    bool writable = true, std::uint64_t needed_bytes = 0);
  /// Drops what was not committed, and notes that nothing is left to recover.
  ~CheckpointedStore() override;
  CheckpointedStore(const CheckpointedStore&) = delete;
  CheckpointedStore& operator=(const CheckpointedStore&) = delete;

  std::uint64_t size_bytes() const override { return size_.load(std::memory_order_acquire); }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// -ENOSPC at the end of the store, or when the journal's disk is full; what was there before is there then.
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// Does nothing: what is not committed does not outlast a crash, wherever it is, and commit() makes all of it
  /// durable. So sync() of a region over this store promises that what was written is part of the next commit.
  int flush() override { return 0; }
  /// A change like any other: not committed, it does not outlast a crash. Up to twice the first size, at least 1 TiB.
  int resize(std::uint64_t bytes) override;
  /// The range reads as zeros, and the next commit gives its room in the base back.
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  std::uint32_t direct_alignment() const override { return alignment_; }
  std::uint32_t max_reads_in_flight() const override { return base_->max_reads_in_flight(); }
  std::uint32_t max_writes_in_flight() const override { return base_->max_writes_in_flight(); }
  std::string name() const override { return base_->name(); }

  /// Makes everything that was written by the time of the call the state that a crash returns to, in one step. Writes
  /// that run at the same time are in this commit or in the next. Returns 0, or a negative errno value: then nothing is
  /// lost, a crash leads to this commit or to the one before, and the next call tries again. -EROFS if read-only.
  int commit();

  /// Whether the process that wrote it last ended without destroying its store: what it had not committed is lost.
  bool was_left_open() const noexcept { return was_left_open_; }
  /// What the next one is told of this. Without a call: that it was closed, if anything was committed; else as this one
  /// was told.
  void leave_open(bool open) noexcept { leave_open_ = open; }

  /// How many commits there have been since the heap was made.
  std::uint64_t generation() const;

  /// While one lives, the base is not written and holds the state of the last commit, for a snapshot to copy; commit()
  /// waits, writes do not.
  class ApplyingPause {
   public:
    explicit ApplyingPause(CheckpointedStore& store);
    ~ApplyingPause();
    ApplyingPause(const ApplyingPause&) = delete;
    ApplyingPause& operator=(const ApplyingPause&) = delete;
    /// What the base holds.
    std::uint64_t generation() const noexcept { return generation_; }

   private:
    CheckpointedStore& store_;
    std::uint64_t generation_ = 0;
  };

  /// Throws StoreError if a commit that failed half-way cannot be finished now.
  std::unique_ptr<ApplyingPause> pause_applying() { return std::make_unique<ApplyingPause>(*this); }

  /// Bytes in slots of the journal: content not committed, and that of the last commit.
  std::uint64_t journal_bytes_in_use() const { return changes_.slots_in_use() * block_bytes; }

 private:
  /// How far a commit has come, and where the next attempt goes on.
  enum class Stage : std::uint8_t { sealed, indexed, recorded };
  struct Commit {
    CommitRecord record;
    std::vector<JournalEntry> entries;
    std::vector<std::uint32_t> index_slots;
    Stage stage = Stage::sealed;
  };

  std::int64_t read_base(char* buffer, std::size_t bytes, std::uint64_t offset);
  int read_piece(char* buffer, std::uint64_t begin, std::uint64_t end, std::uint64_t& stop);
  std::int64_t write_blocks(const char* buffer, std::size_t bytes, std::uint64_t offset);
  std::int64_t write_part(const char* buffer, std::size_t bytes, std::uint64_t offset);
  void punch_base(std::uint64_t first, std::uint64_t last);
  int punch_parts(std::uint64_t offset, std::uint64_t end);
  bool align(std::uint64_t offset, Extent& extent) const noexcept;

  // checkpointed_commit.cpp; under commit_mutex_, but for those of the constructor and destructor.
  static std::vector<std::uint32_t> slots_of(const Commit& commit);
  std::uint64_t recorded_size(std::uint64_t needed_bytes) const;
  void load_commit(Commit& commit);
  void recover();
  void seal();
  int finish();
  int write_index();
  int record();
  int apply();
  int note(CommitState state);
  void close_journal() noexcept;

  const std::shared_ptr<Store> base_;
  const bool writable_;
  bool was_left_open_ = false;
  std::atomic<bool> leave_open_{false};
  Journal journal_;
  const std::uint32_t alignment_;
  std::atomic<std::uint64_t> size_;
  ChangedBlocks changes_;
  std::array<std::mutex, 64> block_locks_;
  std::mutex resize_mutex_;

  mutable std::mutex commit_mutex_;
  std::condition_variable unpaused_;
  unsigned pauses_ = 0;                    ///< Guarded by commit_mutex_, as what follows.
  std::optional<Commit> under_way_;        ///< Also one that failed.
  std::vector<std::uint32_t> last_slots_;  ///< What the record on the disk needs: blocks and index.
  std::uint64_t committed_size_ = 0;
};

}  // namespace tiermap
