// Which block is in which tier, and who is at work on it.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "platform/lazy_array.hpp"
#include "tier/block_score.hpp"
#include "tier/newcomer_rule.hpp"
#include "tier/tier.hpp"

namespace tiermap {

/// Counted from the fastest; `in_backing` is behind them all.
using TierNumber = std::uint8_t;
inline constexpr TierNumber in_backing = 255;
/// What a TierNumber can count.
inline constexpr std::size_t most_tiers = 16;

struct TierPlace {
  TierNumber tier = in_backing;
  TierSlot slot = 0;
  bool dirty = false;  ///< Newer than the backing store.
};

/// A block that is in a tier, or is wanted there.
struct ScoredBlock {
  std::uint64_t number = 0;
  double score = 0;
  TierNumber tier = in_backing;
};

/// One mutex guards all of it, and is held for no input or output. A block is either used, by any number of threads at
/// once, and stays where it is; or owned, by one thread, which may move it: then nobody else reads or writes it. A
/// thread has one block at a time. Order of locks: whoever owns or uses a block may take the mutex, never the other
/// way.
class TierBlocks {
 public:
  /// For blocks below `blocks`; those behind stay in the backing store.
  TierBlocks(std::vector<std::unique_ptr<Tier>> tiers, std::uint64_t blocks, const ScoreTimes& times);
  /// Waits for nobody in a child of fork(): its parent's threads, which may have waited then, did not come along.
  ~TierBlocks();
  TierBlocks(const TierBlocks&) = delete;
  TierBlocks& operator=(const TierBlocks&) = delete;

  std::uint64_t blocks() const noexcept { return entries_.size(); }
  std::size_t tier_count() const noexcept { return tiers_.size(); }
  Tier& tier(TierNumber number) const noexcept { return *tiers_[number]; }
  TierPlace place(std::uint64_t block) const;

  void score(std::uint64_t block, double value, std::uint64_t sharer);
  /// Whether some tier is so full that the organizer should look after it, of so many blocks in all.
  bool is_full(std::uint64_t blocks_in_all) const;
  bool has_room() const;
  /// The same of tiers that may have what is nowhere else.
  bool has_room_for_changes() const;

  // --- For the organizer.
  /// All blocks in tiers, and those that were scored or touched and are in none; these are forgotten then. Where the
  /// NewcomerRule keeps what is there, what came last, and only passes, is not among them, and what did so before has a
  /// score below 0; where it does not, what came last is worth as much as anything that nobody says anything of.
  std::vector<ScoredBlock> take_scored(std::uint64_t blocks_in_all);
  /// To be looked at again, if it is in none.
  void want(std::uint64_t block);
  /// How many blocks each tier has room for, those that it has included, of so many in all.
  std::vector<std::uint64_t> capacities(std::uint64_t blocks_in_all) const;
  /// In order; with `idle_milliseconds`, those that were not written to for so long.
  std::vector<std::uint64_t> dirty_blocks(double idle_milliseconds = 0) const;
  /// What the backing store, which has become shorter, has no more of what tiers have. What was read of it before is
  /// settled in none any more.
  std::vector<std::uint64_t> cut_off_from(std::uint64_t first);

  /// A block came from `from` to `to`.
  void count_move(TierNumber to, TierNumber from);
  /// Takes nothing more from now on. True the first time.
  bool fail(TierNumber tier);
  bool has_failed(TierNumber tier) const;
  /// Has no room for more slots than were used so far. True the first time ever.
  bool limit(TierNumber tier);
  /// A slot of a tier that failed or is full, and is to be tried again by writing to it; false if there is none such
  /// now. `retry_seconds` after it failed, and twice as long after each time.
  bool take_to_try(TierNumber tier, double retry_seconds, TierSlot& slot);
  /// That slot is given back. If it `works` the tier takes blocks again, as many as its capacity says. True if it had
  /// failed, and works.
  bool end_try(TierNumber tier, TierSlot slot, bool works);
  /// A TierReport's numbers.
  void report(TierNumber tier, std::uint64_t block_bytes, TierReport& report) const;

 private:
  friend class BlockUse;
  friend class BlockOwnership;

  struct Entry {
    BlockScore score;
    std::uint32_t written_at;
    BlockVisits visits;
    TierSlot slot;
    std::uint16_t users;
    TierNumber tier_and_one;  ///< 0: in the backing store, as all are at first.
    bool owned : 1;
    bool dirty : 1;
    bool wanted : 1;   ///< In wanted_.
    bool passing : 1;  ///< Read or written into a tier, and not settled there yet.
  };
  static_assert(sizeof(Entry) == 48, "docs/tiers.md says so");
  /// Of a tier, in blocks.
  struct Room {
    std::uint64_t settled;  ///< The rest is kept free,
    std::uint64_t passing;  ///< but for so much of it.
  };

  TierPlace place_of(const Entry& entry) const noexcept {
    return {entry.tier_and_one == 0 ? in_backing : static_cast<TierNumber>(entry.tier_and_one - 1), entry.slot,
            entry.dirty};
  }
  std::uint64_t spare_slots(std::uint64_t blocks_in_all) const noexcept;
  std::vector<Room> rooms(std::uint64_t blocks_in_all) const;
  std::vector<std::uint64_t> blocks_in(const Tier& tier) const;
  void use(Entry& entry) noexcept;
  std::vector<std::uint64_t> settle_newcomers(const std::vector<std::vector<std::uint64_t>>& held_by_tiers,
                                              const std::vector<Room>& rooms, std::uint32_t time);
  bool limit(Tier& tier) noexcept;
  void set_dirty(Entry& entry, bool dirty) noexcept;
  void want(std::uint64_t block, Entry& entry);
  std::uint32_t now() const noexcept;

  const std::vector<std::unique_ptr<Tier>> tiers_;
  const ScoreTimes times_;
  const std::uint64_t opened_at_nanoseconds_;
  const pid_t process_;
  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> changed_;  ///< A block is owned no more, or used no more.
  LazyArray<Entry> entries_;
  std::uint64_t cuts_ = 0;             ///< How often the backing store has become shorter.
  std::vector<std::uint64_t> wanted_;  ///< Never more than it has room for.
  NewcomerRule newcomers_;
};

/// While it lives the block stays where it is.
class BlockUse {
 public:
  /// Waits while somebody owns it.
  BlockUse(TierBlocks& blocks, std::uint64_t block);
  BlockUse(const BlockUse&) = delete;
  BlockUse& operator=(const BlockUse&) = delete;
  ~BlockUse();
  const TierPlace& place() const noexcept { return place_; }
  /// It was written to in its tier, which has what is nowhere else now. Not before: where the tier does not take it,
  /// what was only a copy still is.
  void note_written();

 private:
  TierBlocks& blocks_;
  TierBlocks::Entry& entry_;
  TierPlace place_;
};

/// While it lives nobody else reads, writes or moves the block.
class BlockOwnership {
 public:
  /// Waits for everybody else.
  BlockOwnership(TierBlocks& blocks, std::uint64_t block);
  BlockOwnership(const BlockOwnership&) = delete;
  BlockOwnership& operator=(const BlockOwnership&) = delete;
  ~BlockOwnership();
  std::uint64_t block() const noexcept { return block_; }
  /// As it was taken, or changed since by this.
  const TierPlace& place() const noexcept { return place_; }

  /// A free slot of the tier; false if there is none. It is given back unless settle_in() is called.
  bool reserve(TierNumber tier, TierSlot& slot);
  void unreserve(TierNumber tier, TierSlot slot);
  /// And the tier is full, as TierBlocks::limit() says: this slot found no room.
  bool unreserve_unfit(TierNumber tier, TierSlot slot);
  /// Its bytes are in the slot now; where they were before is given back. False, and nothing is done, for a copy of
  /// what the backing store had, and may have no more: it has become shorter since this was taken.
  bool settle_in(TierNumber tier, TierSlot slot, bool dirty);
  /// It was brought into its tier by being read or written: whether it stays is to be seen.
  void note_passing();
  /// Its bytes are in the backing store now, or not wanted.
  void leave();
  void set_dirty(bool dirty);
  /// Whether it would get nearer to that tier than it is, or, if it comes from a faster one, into any behind that.
  bool can_move_to(TierNumber tier) const;

 private:
  void give_up_slot(const std::lock_guard<std::mutex>& held);

  TierBlocks& blocks_;
  const std::uint64_t block_;
  TierBlocks::Entry& entry_;
  TierPlace place_;
  std::uint64_t cuts_ = 0;  ///< As many as there had been.
};

}  // namespace tiermap
