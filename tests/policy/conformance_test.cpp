// What every policy must do, whatever it prefers: name only frames that are in the right state, each once; lose none;
// always find a victim while there is one, in the smallest cache too; allow any call for a frame in any state; never
// allocate.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "cache/policy/make_policy.hpp"
#include "policy/engine_model.hpp"

namespace tiermap {
namespace {

class Conformance : public testing::TestWithParam<std::string_view> {
 protected:
  static std::unique_ptr<EvictionPolicy> make(FrameId max_frames, std::uint64_t capacity_units) {
    PolicyOptions options;
    options.max_frames = max_frames;
    options.capacity_units = capacity_units;
    return make_eviction_policy(GetParam(), options);
  }
};

/// Random calls, valid or merely allowed, on frames in every state.
class RandomCalls {
 public:
  RandomCalls(CheckedPolicy& checked, FrameId max_frames, std::uint64_t seed)
      : checked_(checked), max_frames_(max_frames), random_(seed) {}

  void run(int calls) {
    for (int call = 0; call < calls && !testing::Test::HasFailure(); ++call) {
      one();
    }
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  FrameId any_frame() { return static_cast<FrameId>(below(max_frames_)); }
  void settle_named(FrameId frame) {
    switch (below(8)) {
      case 0:
        return;  // Stays named, for a later call to find.
      case 1:
        return checked_.refused(frame);
      case 2:
        return checked_.rescued(frame);
      case 3:
        return checked_.removed(frame, below(2) == 0);
      case 4:
        return checked_.advised(frame, below(2) == 0 ? Hotness::cold : Hotness::hot);
      default:
        return checked_.unmapped(frame);
    }
  }
  void one() {
    const FrameId frame = any_frame();
    switch (below(16)) {
      case 0:
        return checked_.rescued(frame);
      case 1:
        return checked_.removed(frame, below(2) == 0);
      case 2:
        return checked_.advised(frame, below(2) == 0 ? Hotness::cold : Hotness::hot);
      case 3:
        return checked_.unmapped(frame);
      case 4:
        return checked_.refused(frame);
      case 5:
        return below(50) == 0 ? checked_.capacity_changed(below(4000)) : void();
      case 6:
      case 7:
        for (const FrameId named : checked_.choose_to_unmap(1 + below(8))) {
          settle_named(named);
        }
        return;
      case 8:
      case 9:
      case 10:
        if (const FrameId named = checked_.choose_to_free(); named != no_frame && below(8) != 0) {
          below(8) == 0 ? checked_.rescued(named) : checked_.removed(named, true);
        }
        return;
      default:
        if (checked_.state(frame) == FrameState::gone) {
          checked_.filled(frame, {static_cast<std::uint32_t>(1 + below(3)), below(400)}, 1U << below(8),
                          below(3) == 0 ? FillKind::prefetch : FillKind::fault);
        }
    }
  }

  CheckedPolicy& checked_;
  FrameId max_frames_;
  std::mt19937_64 random_;
};

TEST_P(Conformance, RandomCallsOnFramesInAnyStateLoseNoneAndNameNoneWrongly) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const FrameId max_frames = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 17 : 200;
    const std::unique_ptr<EvictionPolicy> policy = make(max_frames, max_frames * 16);
    CheckedPolicy checked(*policy, max_frames);
    RandomCalls(checked, max_frames, seed).run(3000);
    ASSERT_FALSE(HasFailure());
    // Nothing may be lost: what is left must come out, all of it, each frame once.
    for (const FrameId frame : checked.frames_in(FrameState::named_to_unmap)) {
      checked.refused(frame);
    }
    for (const FrameId frame : checked.frames_in(FrameState::named_to_free)) {
      checked.rescued(frame);
    }
    for (const FrameId frame : checked.choose_to_unmap(max_frames)) {
      checked.unmapped(frame);
    }
    while (checked.choose_to_free() != no_frame) {
    }
    EXPECT_EQ(checked.frames_in(FrameState::named_to_free).size() + checked.frames_in(FrameState::gone).size(),
              max_frames);
  }
}

TEST_P(Conformance, OneOrTwoFramesServeMoreThreePages) {
  for (const std::uint32_t capacity : {1U, 2U, 3U}) {
    const std::unique_ptr<EvictionPolicy> policy = make(capacity, capacity);
    SmallEngine engine(*policy, capacity);
    for (std::uint64_t step = 0; step < 200; ++step) {
      engine.touch(step % 7 * 1000 + step % 3);
    }
    EXPECT_GE(engine.misses(), 20U);
  }
}

// An instruction that touches two pages must get both: with two frames, the page filled last is not the one to go.
TEST_P(Conformance, TwoFramesHoldTheTwoPagesOfOneInstruction) {
  for (std::uint64_t first = 0; first < 64; ++first) {
    const std::unique_ptr<EvictionPolicy> policy = make(2, 2);
    SmallEngine engine(*policy, 2);
    engine.touch(1000);
    engine.touch(1001);
    for (int attempt = 0; attempt < 3; ++attempt) {
      engine.touch(first);
      engine.touch(first + 1);
    }
    const std::uint64_t misses_until_both_are_there = engine.misses();
    engine.touch(first);
    engine.touch(first + 1);
    EXPECT_EQ(engine.misses(), misses_until_both_are_there) << "pages " << first << " and " << first + 1;
  }
}

TEST_P(Conformance, PinnedPagesNeverHideTheOthers) {
  constexpr FrameId frames = 256;
  for (const FrameId pinned : {1U, 30U, 128U, 255U}) {
    const std::unique_ptr<EvictionPolicy> policy = make(frames, frames);
    CheckedPolicy checked(*policy, frames);
    for (FrameId frame = 0; frame < frames; ++frame) {
      checked.filled(frame, {1, frame}, 1);
    }
    // The first `pinned` to be named are the pinned ones. Asking for one at a time, the others must all come next.
    for (FrameId count = 0; count < pinned; ++count) {
      for (const FrameId frame : checked.choose_to_unmap(1)) {
        checked.refused(frame);
      }
    }
    std::set<FrameId> refused(checked.victims().begin(), checked.victims().end());
    EXPECT_EQ(refused.size(), pinned) << "a refused frame was named again while others were left";
    for (FrameId count = pinned; count < frames; ++count) {
      for (const FrameId frame : checked.choose_to_unmap(1)) {
        EXPECT_FALSE(refused.contains(frame)) << "a refused frame was named again while others were left";
        checked.unmapped(frame);
      }
    }
    // Then the pinned ones again: there is nothing else.
    EXPECT_EQ(checked.choose_to_unmap(frames).size(), pinned);
  }
}

TEST_P(Conformance, PinnedPagesInAFullCacheCostOneRefusalAFillAtMost) {
  constexpr FrameId frames = 128;
  const std::unique_ptr<EvictionPolicy> policy = make(frames, frames);
  CheckedPolicy checked(*policy, frames);
  for (FrameId frame = 0; frame < frames; ++frame) {
    checked.filled(frame, {1, frame}, 1);
  }
  std::size_t refusals = 0;
  for (std::uint64_t page = frames; page < 5000; ++page) {
    FrameId freed = no_frame;
    for (std::size_t futile = 0; freed == no_frame && futile <= frames; ++futile) {
      const FrameId frame = checked.choose_to_unmap(1).at(0);
      if (frame < 64) {
        checked.refused(frame);
        ++refusals;
        continue;
      }
      checked.unmapped(frame);
      freed = checked.choose_to_free();
    }
    ASSERT_NE(freed, no_frame);
    checked.removed(freed, true);
    checked.filled(freed, {1, page}, 1);
  }
  EXPECT_LE(refusals, 5000U + 64U);
}

TEST_P(Conformance, ColdPagesGoBeforeHotOnes) {
  const std::unique_ptr<EvictionPolicy> policy = make(20, 20);
  CheckedPolicy checked(*policy, 20);
  for (FrameId frame = 0; frame < 20; ++frame) {
    checked.filled(frame, {1, frame}, 1);
  }
  checked.advised(0, Hotness::hot);
  checked.advised(13, Hotness::cold);
  const std::vector<FrameId> victims = checked.choose_to_unmap(20);
  EXPECT_EQ(victims.front(), 13U);
  EXPECT_GE(std::find(victims.begin(), victims.end(), 0U) - victims.begin(), 15);
}

TEST_P(Conformance, TheUnmappedPageThatWasAdvisedColdIsFreedFirst) {
  const std::unique_ptr<EvictionPolicy> policy = make(8, 8);
  CheckedPolicy checked(*policy, 8);
  for (FrameId frame = 0; frame < 8; ++frame) {
    checked.filled(frame, {1, frame}, 1);
  }
  for (const FrameId frame : checked.choose_to_unmap(8)) {
    checked.unmapped(frame);
  }
  checked.advised(5, Hotness::cold);
  EXPECT_EQ(checked.choose_to_free(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Policies, Conformance, testing::ValuesIn(policy_names().begin(), policy_names().end()),
                         [](const testing::TestParamInfo<std::string_view>& tested) {
                           std::string name(tested.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tiermap
