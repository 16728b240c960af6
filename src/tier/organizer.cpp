#include "tier/organizer.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <tuple>
#include <utility>

#include "platform/clock.hpp"
#include "platform/engine_thread.hpp"

namespace tiermap {
namespace {

/// What a block has to be worth more to take a faster tier from another: moving costs both tiers a transfer.
constexpr double moving_worth = 0.1;
/// Blocks that nobody will need for so long are not fetched in advance.
constexpr double least_score_to_come = 0.05;
/// After so many, or such a part of all blocks, the scores are looked at again.
constexpr std::size_t least_moves_a_round = 64;
constexpr std::size_t moves_share = 64;
/// To look at the blocks takes no more than a fifth of the thread's time.
constexpr double rest_share = 4;

TierNumber slower(TierNumber one, TierNumber other) noexcept {
  return std::max(one, other);
}

}  // namespace

std::vector<BlockMove> plan_moves(std::vector<ScoredBlock> blocks, const std::vector<std::uint64_t>& capacities,
                                  double least_score) {
  const auto worth = [](const ScoredBlock& block) {
    return block.score + (block.tier == in_backing ? 0 : moving_worth / (1 + block.tier));
  };
  std::ranges::sort(blocks, [&](const ScoredBlock& one, const ScoredBlock& other) {
    return std::make_tuple(-worth(one), one.tier, one.number) <
           std::make_tuple(-worth(other), other.tier, other.number);
  });
  std::vector<BlockMove> leaving;
  std::vector<BlockMove> coming;  // In the order of their scores.
  TierNumber tier = 0;
  std::uint64_t placed = 0;
  for (const ScoredBlock& block : blocks) {
    while (tier < capacities.size() && placed >= capacities[tier]) {
      ++tier;
      placed = 0;
    }
    const bool fits = tier < capacities.size();
    if (block.tier == in_backing && (!fits || block.score < least_score)) {
      continue;
    }
    ++placed;
    const TierNumber to = fits ? tier : in_backing;
    if (to != block.tier) {
      (to > block.tier ? leaving : coming).push_back({block.number, block.tier, to});
    }
  }
  std::ranges::sort(leaving, {}, [](const BlockMove& move) {
    return std::make_tuple(-static_cast<int>(slower(move.from, move.to)), move.block);
  });
  leaving.insert(leaving.end(), coming.begin(), coming.end());
  return leaving;
}

Organizer::Organizer(TierBlocks& blocks, BlockMover& mover, const OrganizerOptions& options,
                     std::function<void()> after_round)
    : blocks_(blocks),
      mover_(mover),
      options_(options),
      after_round_(std::move(after_round)),
      thread_(start_engine_thread("tiermap-tiers", [this] { run(); })) {}

Organizer::~Organizer() {
  stop_.store(true);
  wake();
  thread_.join();
}

void Organizer::wake() noexcept {
  {
    const std::lock_guard held(mutex_);
    wake_ = true;
  }
  woken_.notify_one();
}

void Organizer::run() noexcept {
  double looked_seconds = 0;
  while (!stop_.load()) {
    await_next_round(rest_share * looked_seconds);
    try {
      looked_seconds = organize();
      write_down_idle();
      if (options_.retry_seconds > 0) {
        mover_.try_failed(options_.retry_seconds);
      }
    } catch (const std::exception&) {  // No memory for a buffer or a list: the next round may have it.
    }
    after_round_();
  }
}

/// Of many blocks not even a wake is a reason to look at them all the time.
void Organizer::await_next_round(double rest_seconds) {
  std::unique_lock held(mutex_);
  woken_.wait_for(held, std::chrono::duration<double>(rest_seconds), [&] { return stop_.load(); });
  woken_.wait_for(held, std::chrono::duration<double>(options_.organize_seconds), [&] { return wake_; });
  wake_ = false;
}

/// How long it took to find out what is to be moved.
double Organizer::organize() {
  const std::uint64_t begun = now_nanoseconds();
  std::vector<ScoredBlock> scored = blocks_.take_scored(mover_.blocks_in_all());
  const std::size_t most_moves = std::max(least_moves_a_round, scored.size() / moves_share);
  std::vector<BlockMove> moves =
      plan_moves(std::move(scored), blocks_.capacities(mover_.blocks_in_all()), least_score_to_come);
  if (moves.size() > most_moves) {
    // What failed comes last: where a tier cannot be read there may be more of it than moves in a round.
    const std::vector<BlockMove> planned = std::exchange(moves, {});
    for (const bool failed : {false, true}) {
      std::ranges::copy_if(planned, std::back_inserter(moves),
                           [&](const BlockMove& move) { return failed_.contains(move.block) == failed; });
    }
  } else {
    failed_.clear();
  }
  for (; moves.size() > most_moves; moves.pop_back()) {
    blocks_.want(moves.back().block);  // The next round, then.
  }
  const double looked_seconds = static_cast<double>(now_nanoseconds() - begun) / 1e9;
  for (const BlockMove& move : moves) {
    if (stop_.load()) {
      break;
    }
    if (make(move)) {
      failed_.erase(move.block);
    } else {
      failed_.insert(move.block);
      blocks_.want(move.block);
    }
  }
  return looked_seconds;
}

/// Whether it is done: somebody else may have moved it meanwhile.
bool Organizer::make(const BlockMove& move) {
  BlockOwnership owned(blocks_, move.block);
  if (owned.place().tier != move.from || mover_.move(owned, move.to) != 0) {
    return false;
  }
  blocks_.count_move(owned.place().tier, move.from);
  return true;
}

void Organizer::write_down_idle() {
  std::vector<std::uint64_t> idle = blocks_.dirty_blocks(options_.write_down_seconds * 1000);
  // From behind that one on: it may be all that the backing store does not take.
  std::ranges::rotate(idle, std::ranges::upper_bound(idle, refused_));
  for (const std::uint64_t block : idle) {
    if (stop_.load()) {
      return;
    }
    BlockOwnership owned(blocks_, block);
    const TierNumber tier = owned.place().tier;
    if (mover_.write_down(owned) != 0 && !blocks_.has_failed(tier)) {
      refused_ = block;  // It stays dirty. The backing store does not take it now.
      return;
    }
  }
}

}  // namespace tiermap
