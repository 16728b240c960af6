// Committing, recovering and closing: the steps are numbered in checkpointed_store.hpp.
#include <algorithm>
#include <cerrno>
#include <tuple>

#include "heap/block_transfer.hpp"
#include "heap/checkpointed_store.hpp"
#include "heap/data_ranges.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// A free tail of the journal shorter than this, or than what is before it, is kept for the next commit.
constexpr std::uint64_t least_cut_slots = 16384;

/// Blocks that are to be zeros, and are holes in the base, need not be made so nor be remembered: a few bytes of an
/// index can say it of all of a heap.
std::vector<JournalEntry> without_holes(const std::vector<JournalEntry>& entries, const Store& base) {
  constexpr std::uint64_t block_bytes = CheckpointedStore::block_bytes;
  std::vector<JournalEntry> left;
  for (const JournalEntry& entry : entries) {
    if (!entry.zeros()) {
      left.push_back(entry);
      continue;
    }
    const std::uint64_t end = std::min((entry.block + entry.count) * block_bytes, base.size_bytes());
    for (std::uint64_t at = entry.block * block_bytes; at < end;) {
      const DataRange data = first_data(base, at, end);
      const std::uint64_t first = data.begin / block_bytes;
      const std::uint64_t last = (data.end + block_bytes - 1) / block_bytes;
      if (data.begin < data.end) {
        left.push_back({first, no_slot, static_cast<std::uint32_t>(last - first), 0});
      }
      at = std::max(data.end, last * block_bytes);
    }
  }
  return left;
}

}  // namespace

/// What the disk needs for as long as the commit's record is the last.
std::vector<std::uint32_t> CheckpointedStore::slots_of(const Commit& commit) {
  std::vector<std::uint32_t> slots = commit.index_slots;
  for (const JournalEntry& entry : commit.entries) {
    if (!entry.zeros()) {
      slots.push_back(entry.slot);
    }
  }
  return slots;
}

int CheckpointedStore::commit() {
  if (!writable_) {
    return -EROFS;
  }
  std::unique_lock lock(commit_mutex_);
  unpaused_.wait(lock, [this] { return pauses_ == 0; });
  try {
    if (const int result = finish(); result != 0) {
      return result;
    }
    seal();
    const int result = finish();
    leave_open_ = leave_open_ && result != 0;
    return result;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

std::uint64_t CheckpointedStore::generation() const {
  const std::lock_guard lock(commit_mutex_);
  return journal_.record().generation;
}

/// Everything written so far becomes the commit under way, if there is anything.
void CheckpointedStore::seal() {
  const std::uint64_t size = size_bytes();
  if (!changes_.has_changes() && size == committed_size_) {
    return;
  }
  Commit commit;
  commit.record = journal_.record();
  commit.record.state = CommitState::committed;
  commit.record.size_bytes = size;
  std::tie(commit.entries, commit.record.generation) = changes_.seal();
  under_way_ = std::move(commit);
}

/// Goes on with the commit under way, if there is one, from the step at which it stopped.
int CheckpointedStore::finish() {
  if (!under_way_) {
    return 0;
  }
  int result = 0;
  if (under_way_->stage == Stage::sealed) {
    result = write_index();
  }
  if (result == 0 && under_way_->stage == Stage::indexed) {
    result = record();
  }
  if (result == 0) {
    result = apply();
  }
  return result;
}

/// Steps 1 and 2.
int CheckpointedStore::write_index() {
  Commit& commit = *under_way_;
  const std::size_t wanted = Journal::index_blocks_for(commit.entries.size());
  while (commit.index_slots.size() < wanted) {
    const SlotRun run = changes_.take_slots(static_cast<std::uint32_t>(wanted - commit.index_slots.size()));
    for (std::uint32_t index = 0; index < run.count; ++index) {
      commit.index_slots.push_back(run.first + index);
    }
    if (run.count == 0) {
      return -ENOSPC;
    }
  }
  int result = journal_.write_index(commit.entries, commit.index_slots, commit.record);
  result = result == 0 ? journal_.flush() : result;
  if (result == 0) {
    commit.stage = Stage::indexed;
  }
  return result;
}

/// Steps 3 and 4.
int CheckpointedStore::record() {
  Commit& commit = *under_way_;
  std::vector<std::uint32_t> slots = slots_of(commit);
  if (const int result = journal_.write_record(commit.record); result != 0) {
    return result;
  }
  commit.stage = Stage::recorded;
  committed_size_ = commit.record.size_bytes;
  changes_.retire(last_slots_);
  last_slots_ = std::move(slots);
  changes_.recycle([this](std::uint32_t end) {
    if (journal_.slots() > end + std::max<std::uint64_t>(end, least_cut_slots)) {
      journal_.cut(end);  // One that fails costs room and nothing else.
    }
  });
  return 0;
}

/// Steps 5 and 6.
int CheckpointedStore::apply() {
  const Commit& commit = *under_way_;
  const std::uint64_t size = commit.record.size_bytes;
  int result = base_->size_bytes() < size ? base_->resize(size) : 0;
  result = result == 0 ? copy_to_base(journal_, commit.entries, *base_, size) : result;
  if (result == 0 && base_->size_bytes() > size) {
    result = base_->resize(size);
  }
  result = result == 0 ? base_->flush() : result;
  if (result == 0) {
    changes_.settle(commit.entries);
    under_way_.reset();
  }
  return result;
}

/// What the base is to be as long as.
std::uint64_t CheckpointedStore::recorded_size(std::uint64_t needed_bytes) const {
  const std::uint64_t recorded = journal_.record().size_bytes;
  if (needed_bytes != 0 && recorded != needed_bytes && recorded != base_->size_bytes()) {
    throw StoreError(EINVAL, journal_.name() + " is damaged: its commit record speaks of " + std::to_string(recorded) +
                                 " bytes of data, and the heap has " + std::to_string(needed_bytes) +
                                 ": restore heap and journal from a snapshot");
  }
  return recorded;
}

/// What the journal has of the last commit, checked.
void CheckpointedStore::load_commit(Commit& commit) {
  commit.record = journal_.record();
  commit.stage = Stage::recorded;
  commit.entries = journal_.load_index(commit.index_slots);
  // Holes past every end say nothing, and could be long.
  const std::uint64_t end = std::max(base_->size_bytes(), commit.record.size_bytes) / block_bytes + 1;
  std::erase_if(commit.entries, [end](const JournalEntry& entry) { return entry.block >= end; });
  commit.entries = without_holes(commit.entries, *base_);
  journal_.verify(commit.entries);
  if (!changes_.adopt(commit.entries, commit.index_slots)) {
    throw StoreError(EINVAL, journal_.name() +
                                 " is damaged: its index names a slot twice: restore heap and journal "
                                 "from a snapshot");
  }
  last_slots_ = slots_of(commit);
}

void CheckpointedStore::recover() {
  const CommitRecord& record = journal_.record();
  committed_size_ = record.size_bytes;
  // One that is closed says that its last commit was applied.
  was_left_open_ = record.state != CommitState::applied;
  leave_open_ = was_left_open_;
  if (record.state != CommitState::committed) {
    if (base_->size_bytes() != record.size_bytes) {
      throw StoreError(EINVAL, base_->name() + " has " + std::to_string(base_->size_bytes()) +
                                   " bytes and its journal " + journal_.name() + " speaks of " +
                                   std::to_string(record.size_bytes) + ": restore both from a snapshot");
    }
    if (const int result = writable_ ? note(CommitState::opened) : 0; result != 0) {
      throw_file_error(-result, journal_.name(), "cannot be written");
    }
    return;
  }
  Commit commit;
  load_commit(commit);
  if (!writable_) {
    return;
  }
  under_way_ = std::move(commit);
  // Who was killed in step 4 may have left a record that the disk has not: the base is not written before it has.
  int result = journal_.flush();
  result = result == 0 ? finish() : result;
  result = result == 0 ? note(CommitState::opened) : result;
  result = result == 0 ? journal_.cut(0) : result;
  if (result != 0) {
    throw_file_error(-result, base_->name(), "cannot be brought to its last commit");
  }
}

/// Says on the disk that there is nothing to do again, and whether the store is open.
int CheckpointedStore::note(CommitState state) {
  CommitRecord record = journal_.record();
  record.state = state;
  record.first_index_slot = no_slot;
  record.index_blocks = 0;
  record.entries = 0;
  record.index_checksum = 0;
  if (const int result = journal_.write_record(record); result != 0) {
    return result;
  }
  changes_.retire(last_slots_);
  last_slots_.clear();
  changes_.recycle([](std::uint32_t) {});
  return 0;
}

void CheckpointedStore::close_journal() noexcept {
  try {
    if (!under_way_ && note(leave_open_ ? CommitState::opened : CommitState::applied) == 0) {
      journal_.cut(0);  // With what was not committed.
    }
  } catch (...) {  // The next opening does it.
  }
}

CheckpointedStore::ApplyingPause::ApplyingPause(CheckpointedStore& store) : store_(store) {
  const std::lock_guard lock(store_.commit_mutex_);
  if (const int result = store_.pauses_ == 0 ? store_.finish() : 0; result != 0) {
    throw_file_error(-result, store_.name(), "cannot be brought to its last commit");
  }
  ++store_.pauses_;
  generation_ = store_.journal_.record().generation;
}

CheckpointedStore::ApplyingPause::~ApplyingPause() {
  const std::lock_guard lock(store_.commit_mutex_);
  if (--store_.pauses_ == 0) {
    store_.unpaused_.notify_all();
  }
}

}  // namespace tiermap
