#include "replay/simulation.hpp"

#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tiermap::simulation {
namespace {

/// One cache of `capacity` frames under a policy: the engine without its threads, its kernel and its store.
class Engine {
 public:
  Engine(EvictionPolicy& policy, const Trace& trace, std::uint32_t capacity, std::uint32_t batch,
         SecondChance second_chance)
      : policy_(policy),
        trace_(trace),
        second_chance_(second_chance),
        frames_of_pages_(trace.pages, no_frame),
        frames_(capacity),
        victims_(batch) {
    for (FrameId frame = capacity; frame > 0; --frame) {
      free_frames_.push_back(frame - 1);
    }
  }

  void touch(std::uint32_t page) {
    const FrameId frame = frames_of_pages_[page];
    if (frame == no_frame) {
      fill(page);
    } else if (!frames_[frame].mapped) {
      ++outcome_.rescues;
      map(frame);
      policy_.rescued(frame);
    } else {
      return;
    }
    keep_share_unmapped();
  }
  void discard(std::uint32_t page) {
    const FrameId frame = std::exchange(frames_of_pages_[page], no_frame);
    if (frame != no_frame) {
      unmapped_ -= frames_[frame].mapped ? 0U : 1U;
      policy_.removed(frame, false);
      free_frames_.push_back(frame);
    }
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  struct Frame {
    std::uint32_t page = 0;
    bool mapped = false;
  };

  void map(FrameId frame) {
    frames_[frame].mapped = true;
    --unmapped_;
  }
  std::size_t unmap(std::size_t wanted) {
    const std::size_t count = policy_.choose_to_unmap(std::span(victims_).first(std::min(wanted, victims_.size())));
    for (const FrameId frame : std::span(victims_).first(count)) {
      frames_[frame].mapped = false;
      ++unmapped_;
      if (second_chance_.all || ++turns_ % second_chance_.one_in == 0) {
        policy_.unmapped(frame);
      } else {
        free(frame);
      }
    }
    return count;
  }
  void free(FrameId frame) {
    frames_of_pages_[frames_[frame].page] = no_frame;
    --unmapped_;
    policy_.removed(frame, true);
    free_frames_.push_back(frame);
  }
  // The engine's evictors rest when the share is reached, and start again when a twentieth of the budget is missing.
  void keep_share_unmapped() {
    full_ = full_ || free_frames_.empty();
    const std::size_t share =
        frames_.size() * (second_chance_.all ? policy_.unmapped_share_percent() : share_at_hand_percent) / 100;
    const std::size_t start = share - std::min(share, frames_.size() / 20);
    if (!full_ || at_hand() >= std::max<std::size_t>(start, 1)) {
      return;
    }
    while (at_hand() < share && unmap(share - at_hand()) > 0) {
    }
  }
  std::size_t at_hand() const { return free_frames_.size() + unmapped_; }
  void free_one() {
    FrameId frame = policy_.choose_to_free();
    if (frame == no_frame) {
      unmap(1);
      if (!free_frames_.empty()) {
        return;
      }
      frame = policy_.choose_to_free();
    }
    if (frame == no_frame) {
      throw std::logic_error("policy " + std::string(policy_.name()) + " names no victim");
    }
    free(frame);
  }
  void fill(std::uint32_t page) {
    ++outcome_.misses;
    if (free_frames_.empty()) {
      free_one();
    }
    const FrameId frame = free_frames_.back();
    free_frames_.pop_back();
    frames_[frame] = {page, true};
    frames_of_pages_[page] = frame;
    policy_.filled(frame, trace_.key(page), 1, FillKind::fault);
  }

  /// Of the budget, that the engine has at hand for what is dropped: what the watermarks leave free.
  static constexpr std::size_t share_at_hand_percent = 10;

  EvictionPolicy& policy_;
  const Trace& trace_;
  SecondChance second_chance_;
  std::vector<FrameId> frames_of_pages_;
  std::vector<Frame> frames_;
  std::vector<FrameId> free_frames_;
  std::vector<FrameId> victims_;
  std::size_t unmapped_ = 0;
  std::uint32_t turns_ = 0;
  bool full_ = false;
  Outcome outcome_;
};

/// Misses of a cache that always gives up the page with the least rank; a touched page gets the rank that `rank_of`
/// says.
template <typename RankOf>
std::uint64_t ranked_misses(const Trace& trace, std::uint32_t capacity, RankOf rank_of) {
  constexpr std::int64_t absent = INT64_MAX;
  std::vector<std::int64_t> ranks(trace.pages, absent);
  std::set<std::pair<std::int64_t, std::uint32_t>> resident;
  std::uint64_t misses = 0;
  for (std::size_t time = 0; time < trace.touches.size(); ++time) {
    const std::uint32_t page = trace.touches[time] & ~Trace::discarded_bit;
    const bool present = ranks[page] != absent;
    if (present) {
      resident.erase({ranks[page], page});
    }
    if (page != trace.touches[time]) {
      ranks[page] = absent;
      continue;
    }
    if (!present) {
      ++misses;
      if (resident.size() == capacity) {
        ranks[resident.begin()->second] = absent;
        resident.erase(resident.begin());
      }
    }
    ranks[page] = rank_of(time);
    resident.insert({ranks[page], page});
  }
  return misses;
}

}  // namespace

Outcome run_policy(const Trace& trace, std::string_view name, std::uint32_t capacity, const PolicyOptions& wishes,
                   std::uint32_t batch, SecondChance second_chance) {
  PolicyOptions options = wishes;
  options.max_frames = capacity;
  options.capacity_units = capacity;
  const std::unique_ptr<EvictionPolicy> policy = make_eviction_policy(name, options);
  Engine engine(*policy, trace, capacity, batch, second_chance);
  for (const std::uint32_t touch : trace.touches) {
    if ((touch & Trace::discarded_bit) != 0) {
      engine.discard(touch & ~Trace::discarded_bit);
    } else {
      engine.touch(touch);
    }
  }
  return engine.outcome();
}

std::uint64_t lru_misses(const Trace& trace, std::uint32_t capacity) {
  return ranked_misses(trace, capacity, [](std::size_t time) { return static_cast<std::int64_t>(time); });
}

std::uint64_t optimal_misses(const Trace& trace, std::uint32_t capacity) {
  const auto never = static_cast<std::int64_t>(trace.touches.size());
  std::vector<std::int64_t> next_touch(trace.touches.size());
  std::vector<std::int64_t> upcoming(trace.pages, never);
  for (std::size_t time = trace.touches.size(); time-- > 0;) {
    const std::uint32_t page = trace.touches[time] & ~Trace::discarded_bit;
    // A page that is discarded before it is touched again is as good as never touched again.
    const bool discarded = page != trace.touches[time];
    next_touch[time] = std::exchange(upcoming[page], discarded ? never : static_cast<std::int64_t>(time));
  }
  return ranked_misses(trace, capacity, [&](std::size_t time) { return -next_touch[time]; });
}

}  // namespace tiermap::simulation
