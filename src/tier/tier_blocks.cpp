#include "tier/tier_blocks.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "platform/clock.hpp"

namespace tiermap {
namespace {

/// Of a tier so much is kept free, so that what is new finds room without waiting.
constexpr std::uint64_t reserve_share = 16;

/// Of the time after which a tier that failed is tried again.
constexpr std::uint32_t most_doublings = 7;

/// Blocks in no tier that the organizer looks at in one round.
constexpr std::uint64_t most_wanted = 1 << 20;

/// Of what is so kept free, what only passes may take half.
constexpr std::uint64_t passing_share = 2;
/// Of what passed and is to leave: worth less than anything else.
constexpr double leaves_first = -1;

/// A part of the `spare` slots of all tiers, which is less by that then.
std::uint64_t reserve_of(const Tier& tier, std::uint64_t& spare) noexcept {
  const std::uint64_t usual = tier.slots() > 1 ? std::max<std::uint64_t>(tier.slots() / reserve_share, 1) : 0;
  const std::uint64_t reserve = std::min(usual, spare);
  spare -= reserve;
  return reserve;
}

}  // namespace

TierBlocks::TierBlocks(std::vector<std::unique_ptr<Tier>> tiers, std::uint64_t blocks, const ScoreTimes& times)
    : tiers_(std::move(tiers)),
      times_(times),
      opened_at_nanoseconds_(now_nanoseconds()),
      process_(::getpid()),
      changed_(std::make_unique<std::condition_variable>()),
      entries_(tiers_.empty() ? 0 : static_cast<std::size_t>(blocks)) {
  std::uint64_t slots = 0;
  for (const auto& tier : tiers_) {
    slots += tier->slots();
  }
  wanted_.reserve(static_cast<std::size_t>(std::min(slots, most_wanted)));
}

TierBlocks::~TierBlocks() {
  if (::getpid() != process_) {
    // NOLINTNEXTLINE(bugprone-unused-return-value): to destroy it is to wait for who waited there.
    static_cast<void>(changed_.release());
  }
}

std::uint32_t TierBlocks::now() const noexcept {
  return static_cast<std::uint32_t>((now_nanoseconds() - opened_at_nanoseconds_) / 1'000'000);
}

TierPlace TierBlocks::place(std::uint64_t block) const {
  const std::lock_guard held(mutex_);
  return place_of(entries_[block]);
}

void TierBlocks::score(std::uint64_t block, double value, std::uint64_t sharer) {
  const std::lock_guard held(mutex_);
  Entry& entry = entries_[block];
  set_score(entry.score, value, sharer, now(), times_);
  if (value > 0) {
    want(block, entry);
  }
}

void TierBlocks::want(std::uint64_t block) {
  const std::lock_guard held(mutex_);
  want(block, entries_[block]);
}

/// More than all tiers can hold is no use to the organizer. Allocates nothing.
void TierBlocks::want(std::uint64_t block, Entry& entry) {
  if (entry.tier_and_one == 0 && !entry.wanted && wanted_.size() < wanted_.capacity()) {
    wanted_.push_back(block);
    entry.wanted = true;
  }
}

/// Where all blocks fit nothing comes that would need room: what left for its sake would only come back, and in its
/// place what is read next would leave.
std::uint64_t TierBlocks::spare_slots(std::uint64_t blocks_in_all) const noexcept {
  std::uint64_t slots = 0;
  for (const auto& tier : tiers_) {
    slots += tier->failed ? 0 : tier->slots();
  }
  return slots < blocks_in_all ? slots : slots - blocks_in_all;
}

std::vector<TierBlocks::Room> TierBlocks::rooms(std::uint64_t blocks_in_all) const {
  std::uint64_t spare = spare_slots(blocks_in_all);
  std::vector<Room> rooms;
  for (const auto& tier : tiers_) {
    const std::uint64_t reserve = tier->failed ? 0 : reserve_of(*tier, spare);
    rooms.push_back({tier->failed ? 0 : tier->slots() - reserve, (reserve + passing_share - 1) / passing_share});
  }
  return rooms;
}

bool TierBlocks::is_full(std::uint64_t blocks_in_all) const {
  const std::lock_guard held(mutex_);
  std::uint64_t spare = spare_slots(blocks_in_all);
  return std::ranges::any_of(tiers_, [&](const auto& tier) {
    const std::uint64_t reserve = tier->failed ? 0 : reserve_of(*tier, spare);
    return tier->free_slots() < (newcomers_.keeps_settled() ? reserve / passing_share : reserve);
  });
}

bool TierBlocks::has_room() const {
  const std::lock_guard held(mutex_);
  return std::ranges::any_of(tiers_, [](const auto& tier) { return tier->free_slots() > 0; });
}

bool TierBlocks::has_room_for_changes() const {
  const std::lock_guard held(mutex_);
  return std::ranges::any_of(tiers_, [](const auto& tier) { return tier->holds_changes() && tier->free_slots() > 0; });
}

std::vector<ScoredBlock> TierBlocks::take_scored(std::uint64_t blocks_in_all) {
  const std::lock_guard held(mutex_);
  const std::uint32_t time = now();
  std::vector<ScoredBlock> scored;
  const auto add = [&](std::uint64_t block) {
    const Entry& entry = entries_[block];
    const double score = score_now(entry.score, time, times_);
    // In the midst of being read, piece by piece, it would else be thrown out after each of the first ones.
    scored.push_back({block, entry.passing ? std::max(score, most_by_touches) : score, place_of(entry).tier});
  };
  std::vector<std::vector<std::uint64_t>> held_by_tiers;
  for (const auto& tier : tiers_) {
    held_by_tiers.push_back(blocks_in(*tier));
  }
  for (const std::uint64_t block : settle_newcomers(held_by_tiers, rooms(blocks_in_all), time)) {
    scored.push_back({block, leaves_first, place_of(entries_[block]).tier});
  }
  for (const std::vector<std::uint64_t>& blocks : held_by_tiers) {
    for (const std::uint64_t block : blocks) {
      if (!entries_[block].passing || !newcomers_.keeps_settled()) {
        add(block);
      }
    }
  }
  for (const std::uint64_t block : wanted_) {
    entries_[block].wanted = false;
    if (entries_[block].tier_and_one == 0) {
      add(block);
    }
  }
  wanted_.clear();
  return scored;
}

std::vector<std::uint64_t> TierBlocks::blocks_in(const Tier& tier) const {
  std::vector<std::uint64_t> blocks;
  for (TierSlot slot = 0; slot < tier.used_slots(); ++slot) {
    // One that is being moved has two slots.
    const std::uint64_t block = tier.holder(slot);
    const TierPlace place = block == Tier::nobody ? TierPlace() : place_of(entries_[block]);
    if (place.tier != in_backing && place.slot == slot && tiers_[place.tier].get() == &tier) {
      blocks.push_back(block);
    }
  }
  return blocks;
}

/// Which of the blocks that pass have had their time, and do not settle: they do while there is room, or somebody has
/// done with what is there, and wherever what was used last is kept.
std::vector<std::uint64_t> TierBlocks::settle_newcomers(const std::vector<std::vector<std::uint64_t>>& held_by_tiers,
                                                        const std::vector<Room>& rooms, std::uint32_t time) {
  Room all = {0, 0};
  for (const Room& room : rooms) {
    all = {all.settled + room.settled, all.passing + room.passing};
  }
  newcomers_.set_room(all.settled, all.passing);
  std::vector<std::uint64_t> late;
  std::uint64_t settled = 0;
  for (std::size_t number = 0; number < rooms.size(); ++number) {
    std::vector<std::uint64_t> passing;
    for (const std::uint64_t block : held_by_tiers[number]) {
      Entry& entry = entries_[block];
      entry.passing = entry.passing && !is_said(entry.score, time, times_);
      settled += !entry.passing && entry.score.best.value > 0 ? 1 : 0;
      if (entry.passing) {
        passing.push_back(block);
      }
    }
    std::ranges::sort(passing, {}, [&](std::uint64_t block) { return newcomers_.since(entries_[block].visits); });
    const std::size_t stay = std::min<std::size_t>(passing.size(), rooms[number].passing);
    late.insert(late.end(), passing.begin() + static_cast<std::ptrdiff_t>(stay), passing.end());
  }
  const std::size_t settling = newcomers_.keeps_settled()
                                   ? std::min<std::size_t>(late.size(), all.settled - std::min(all.settled, settled))
                                   : late.size();
  for (std::size_t number = 0; number < settling; ++number) {
    entries_[late[number]].passing = false;
  }
  late.erase(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(settling));
  return late;
}

std::vector<std::uint64_t> TierBlocks::capacities(std::uint64_t blocks_in_all) const {
  const std::lock_guard held(mutex_);
  std::vector<std::uint64_t> capacities;
  for (const Room& room : rooms(blocks_in_all)) {
    capacities.push_back(room.settled);
  }
  return capacities;
}

std::vector<std::uint64_t> TierBlocks::dirty_blocks(double idle_milliseconds) const {
  const std::lock_guard held(mutex_);
  const std::uint32_t time = now();
  std::vector<std::uint64_t> dirty;
  for (const auto& tier : tiers_) {
    for (TierSlot slot = 0; slot < tier->used_slots() && tier->dirty_blocks > 0; ++slot) {
      const std::uint64_t block = tier->holder(slot);
      if (block != Tier::nobody && entries_[block].dirty && time - entries_[block].written_at >= idle_milliseconds) {
        dirty.push_back(block);
      }
    }
  }
  std::ranges::sort(dirty);
  dirty.erase(std::ranges::unique(dirty).begin(), dirty.end());
  return dirty;
}

std::vector<std::uint64_t> TierBlocks::cut_off_from(std::uint64_t first) {
  const std::lock_guard held(mutex_);
  ++cuts_;
  std::vector<std::uint64_t> found;
  for (const auto& tier : tiers_) {
    for (TierSlot slot = 0; slot < tier->used_slots(); ++slot) {
      if (const std::uint64_t block = tier->holder(slot); block != Tier::nobody && block >= first) {
        found.push_back(block);
      }
    }
  }
  return found;
}

void TierBlocks::count_move(TierNumber to, TierNumber from) {
  const std::lock_guard held(mutex_);
  if (to != in_backing) {
    ++(to < from ? tier(to).promoted_in : tier(to).demoted_in);
  }
}

bool TierBlocks::fail(TierNumber tier) {
  const std::lock_guard held(mutex_);
  Tier& failing = this->tier(tier);
  if (std::exchange(failing.failed, true)) {
    return false;
  }
  failing.failed_at = now();
  return true;
}

bool TierBlocks::has_failed(TierNumber tier) const {
  const std::lock_guard held(mutex_);
  return tier != in_backing && this->tier(tier).failed;
}

bool TierBlocks::limit(TierNumber number) {
  const std::lock_guard held(mutex_);
  return limit(tier(number));
}

bool TierBlocks::limit(Tier& tier) noexcept {
  if (!std::exchange(tier.full, true)) {
    tier.failed_at = now();
  }
  return !std::exchange(tier.told_full, true);
}

bool TierBlocks::take_to_try(TierNumber number, double retry_seconds, TierSlot& slot) {
  const std::lock_guard held(mutex_);
  Tier& tier = this->tier(number);
  const double wait_milliseconds = std::ldexp(retry_seconds * 1000, static_cast<int>(tier.tries));
  const bool due = (tier.failed || tier.full) && now() - tier.failed_at >= wait_milliseconds;
  return due && tier.take_to_try(slot);
}

bool TierBlocks::end_try(TierNumber number, TierSlot slot, bool works) {
  const std::lock_guard held(mutex_);
  Tier& tier = this->tier(number);
  tier.give_back_tried(slot);
  tier.failed_at = now();
  // Also where it works: one that fails again at once would be tried, and told of, all the time.
  tier.tries = std::min(tier.tries + 1, most_doublings);
  if (!works) {
    return false;
  }
  tier.reopen();
  return std::exchange(tier.failed, false);
}

void TierBlocks::report(TierNumber number, std::uint64_t block_bytes, TierReport& report) const {
  const std::lock_guard held(mutex_);
  const Tier& tier = this->tier(number);
  report.capacity_bytes = tier.slots() * block_bytes;
  report.used_bytes = (tier.used_slots() - tier.given_back_slots()) * block_bytes;
  report.dirty_bytes = tier.dirty_blocks * block_bytes;
  report.promoted_in = tier.promoted_in;
  report.demoted_in = tier.demoted_in;
  report.failed = tier.failed;
}

void TierBlocks::set_dirty(Entry& entry, bool dirty) noexcept {
  if (entry.tier_and_one != 0 && entry.dirty != dirty) {
    entry.dirty = dirty;
    tier(place_of(entry).tier).dirty_blocks += dirty ? 1 : std::uint64_t(-1);
  }
}

void TierBlocks::use(Entry& entry) noexcept {
  const std::uint32_t time = now();
  if (!is_said(entry.score, time, times_)) {
    newcomers_.use(entry.visits, entry.tier_and_one == 0 ? NewcomerRule::Where::behind
                                 : entry.passing         ? NewcomerRule::Where::passing
                                                         : NewcomerRule::Where::settled);
  }
  touch_score(entry.score, time, times_);
}

BlockUse::BlockUse(TierBlocks& blocks, std::uint64_t block) : blocks_(blocks), entry_(blocks.entries_[block]) {
  std::unique_lock held(blocks_.mutex_);
  blocks_.changed_->wait(held, [&] { return !entry_.owned; });
  ++entry_.users;
  blocks_.use(entry_);
  blocks_.want(block, entry_);
  place_ = blocks_.place_of(entry_);
}

void BlockUse::note_written() {
  const std::lock_guard held(blocks_.mutex_);
  blocks_.set_dirty(entry_, true);
  entry_.written_at = blocks_.now();
  place_.dirty = true;
}

BlockUse::~BlockUse() {
  {
    const std::lock_guard held(blocks_.mutex_);
    --entry_.users;
  }
  blocks_.changed_->notify_all();
}

BlockOwnership::BlockOwnership(TierBlocks& blocks, std::uint64_t block)
    : blocks_(blocks), block_(block), entry_(blocks.entries_[block]) {
  std::unique_lock held(blocks_.mutex_);
  blocks_.changed_->wait(held, [&] { return !entry_.owned; });
  entry_.owned = true;
  blocks_.changed_->wait(held, [&] { return entry_.users == 0; });
  place_ = blocks_.place_of(entry_);
  cuts_ = blocks_.cuts_;
}

BlockOwnership::~BlockOwnership() {
  {
    const std::lock_guard held(blocks_.mutex_);
    entry_.owned = false;
  }
  blocks_.changed_->notify_all();
}

bool BlockOwnership::reserve(TierNumber tier, TierSlot& slot) {
  const std::lock_guard held(blocks_.mutex_);
  if (blocks_.tier(tier).free_slots() == 0) {
    return false;
  }
  slot = blocks_.tier(tier).take(block_);
  return true;
}

void BlockOwnership::unreserve(TierNumber tier, TierSlot slot) {
  const std::lock_guard held(blocks_.mutex_);
  blocks_.tier(tier).give_back(slot);
}

bool BlockOwnership::unreserve_unfit(TierNumber tier, TierSlot slot) {
  const std::lock_guard held(blocks_.mutex_);
  blocks_.tier(tier).give_back_unfit(slot);
  return blocks_.limit(blocks_.tier(tier));
}

// In one step: a block that is dirty is seen to be, by whoever asks.
bool BlockOwnership::settle_in(TierNumber tier, TierSlot slot, bool dirty) {
  const std::lock_guard held(blocks_.mutex_);
  if (place_.tier == in_backing && !dirty && cuts_ != blocks_.cuts_) {
    return false;
  }
  give_up_slot(held);
  entry_.tier_and_one = static_cast<TierNumber>(tier + 1);
  entry_.slot = slot;
  entry_.written_at = dirty ? blocks_.now() : entry_.written_at;
  blocks_.set_dirty(entry_, dirty);
  place_ = blocks_.place_of(entry_);
  return true;
}

void BlockOwnership::note_passing() {
  const std::lock_guard held(blocks_.mutex_);
  entry_.passing = entry_.tier_and_one != 0;
}

void BlockOwnership::leave() {
  const std::lock_guard held(blocks_.mutex_);
  give_up_slot(held);
}

void BlockOwnership::give_up_slot(const std::lock_guard<std::mutex>&) {
  if (entry_.tier_and_one != 0) {
    blocks_.set_dirty(entry_, false);
    blocks_.tier(place_.tier).give_back(entry_.slot);
    entry_.tier_and_one = 0;
    entry_.passing = false;
  }
  place_ = {};
}

void BlockOwnership::set_dirty(bool dirty) {
  const std::lock_guard held(blocks_.mutex_);
  blocks_.set_dirty(entry_, dirty);
  place_.dirty = entry_.dirty;
}

bool BlockOwnership::can_move_to(TierNumber tier) const {
  const std::lock_guard held(blocks_.mutex_);
  const auto end =
      place_.tier > tier && place_.tier != in_backing ? blocks_.tiers_.begin() + place_.tier : blocks_.tiers_.end();
  return std::any_of(blocks_.tiers_.begin() + tier, end, [](const auto& other) { return other->free_slots() > 0; });
}

}  // namespace tiermap
