// Every policy against a plain model of it, on the same recorded traces: the same victims in the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cache/policy/make_policy.hpp"
#include "policy/cyclic_model.hpp"
#include "policy/engine_model.hpp"
#include "policy/reference_models.hpp"

namespace tiermap {
namespace {

/// Passes every call on to two policies and compares what they answer.
class Pair final : public EvictionPolicy {
 public:
  Pair(EvictionPolicy& tested, EvictionPolicy& model) : tested_(tested), model_(model) {}
  void capacity_changed(std::uint64_t units) override {
    both([&](EvictionPolicy& policy) { policy.capacity_changed(units); });
  }
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) override {
    both([&](EvictionPolicy& policy) { policy.filled(frame, key, units, kind); });
  }
  void rescued(FrameId frame) override {
    both([&](EvictionPolicy& policy) { policy.rescued(frame); });
  }
  void removed(FrameId frame, bool evicted) override {
    both([&](EvictionPolicy& policy) { policy.removed(frame, evicted); });
  }
  void advised(FrameId frame, Hotness hotness) override {
    both([&](EvictionPolicy& policy) { policy.advised(frame, hotness); });
  }
  void unmapped(FrameId frame) override {
    both([&](EvictionPolicy& policy) { policy.unmapped(frame); });
  }
  void refused(FrameId frame) override {
    both([&](EvictionPolicy& policy) { policy.refused(frame); });
  }
  std::size_t choose_to_unmap(std::span<FrameId> victims) override {
    std::vector<FrameId> expected(victims.size());
    expected.resize(model_.choose_to_unmap(expected));
    const std::size_t count = tested_.choose_to_unmap(victims);
    EXPECT_EQ(std::vector<FrameId>(victims.begin(), victims.begin() + static_cast<std::ptrdiff_t>(count)), expected);
    compared_ += count;
    return count;
  }
  FrameId choose_to_free() override {
    const FrameId frame = tested_.choose_to_free();
    EXPECT_EQ(frame, model_.choose_to_free());
    compared_ += frame == no_frame ? 0 : 1;
    return frame;
  }
  std::uint32_t unmapped_share_percent() const override { return tested_.unmapped_share_percent(); }
  std::string_view name() const override { return tested_.name(); }
  std::size_t compared() const { return compared_; }

 private:
  template <typename Calling>
  void both(Calling call) {
    call(tested_);
    call(model_);
  }
  EvictionPolicy& tested_;
  EvictionPolicy& model_;
  std::size_t compared_ = 0;
};

/// A recorded trace: which page is touched, step by step, and a number that decides what else happens then. Cyclic
/// scans, popular pages and single passes take turns.
class Accesses {
 public:
  explicit Accesses(std::uint64_t seed) : random_(seed) {}

  struct Step {
    std::uint64_t page;
    std::uint64_t dice;
  };
  std::vector<Step> record(std::size_t steps) {
    std::vector<Step> trace;
    while (trace.size() < steps) {
      switch (random_() % 3) {
        case 0:
          for (std::uint64_t round = 0, pages = 100 + random_() % 200; round < 4 * pages; ++round) {
            trace.push_back({round % pages, random_()});
          }
          break;
        case 1:
          for (int count = 0; count < 400; ++count) {
            const std::uint64_t bound = 1 + random_() % 600;
            trace.push_back({random_() % bound, random_()});
          }
          break;
        default:
          for (std::uint64_t page = random_() % 1000, count = 0; count < 100; ++count) {
            trace.push_back({page + count, random_()});
          }
      }
    }
    return trace;
  }

 private:
  std::mt19937_64 random_;
};

/// Replays accesses on a cache of `capacity` units under the pair; one in `odds` steps does something out of the
/// ordinary.
class Replay {
 public:
  Replay(Pair& pair, std::uint64_t capacity, std::uint64_t odds, bool reads_ahead)
      : pair_(pair), capacity_(capacity), frames_(capacity), odds_(odds), reads_ahead_(reads_ahead) {}

  void step(Accesses::Step step) {
    const auto found = std::find_if(frames_.begin(), frames_.end(),
                                    [&](const Frame& frame) { return frame.used && frame.page == step.page; });
    if (found == frames_.end()) {
      fill(step);
    } else if (!found->mapped) {
      found->mapped = true;
      pair_.rescued(id(*found));
    }
    if (step.dice % odds_ == 0) {
      surprise(step);
    }
    while (used(true) > 0 && used(false) + 8 >= capacity_ &&
           used(false) - used(true) < capacity_ * pair_.unmapped_share_percent() / 100) {
      if (!unmap(1 + step.dice / 7 % 5)) {
        break;
      }
    }
  }

 private:
  struct Frame {
    bool used = false;
    bool mapped = false;
    std::uint64_t page = 0;
    std::uint32_t units = 0;
  };
  FrameId id(const Frame& frame) const { return static_cast<FrameId>(&frame - frames_.data()); }
  std::uint64_t used(bool mapped_only) const {
    std::uint64_t sum = 0;
    for (const Frame& frame : frames_) {
      sum += frame.used && (frame.mapped || !mapped_only) ? frame.units : 0;
    }
    return sum;
  }
  bool unmap(std::size_t wanted) {
    std::vector<FrameId> victims(wanted);
    victims.resize(pair_.choose_to_unmap(victims));
    for (const FrameId frame : victims) {
      if (mix_bits(++unmaps_) % (odds_ * 2) == 0) {
        pair_.refused(frame);
      } else if (unmaps_ / 2000 % 2 == 1 && unmaps_ % 16 != 0) {  // For a while most are dropped.
        frames_[frame].used = false;
        pair_.removed(frame, true);
      } else {
        frames_[frame].mapped = false;
        pair_.unmapped(frame);
      }
    }
    return !victims.empty();
  }
  void fill(Accesses::Step step) {
    const std::uint32_t units = 1U << (step.page % 3);
    while (used(false) + units > capacity_) {
      const FrameId frame = pair_.choose_to_free();
      if (frame != no_frame) {
        frames_[frame].used = false;
        pair_.removed(frame, true);
      } else if (!unmap(1)) {
        return;
      }
    }
    const auto place = std::find_if(frames_.begin(), frames_.end(), [](const Frame& frame) { return !frame.used; });
    *place = {true, true, step.page, units};
    pair_.filled(id(*place), {1, step.page}, units,
                 reads_ahead_ && step.dice % 5 == 0 ? FillKind::prefetch : FillKind::fault);
  }
  void surprise(Accesses::Step step) {
    Frame& frame = frames_[step.dice / odds_ % frames_.size()];
    switch (step.dice / 1000 % 4) {
      case 0:
        return pair_.advised(id(frame), Hotness::hot);
      case 1:
        return pair_.advised(id(frame), Hotness::cold);
      case 2:
        frame.used = false;
        return pair_.removed(id(frame), false);
      default:
        if (step.dice / 4000 % 8 == 0) {
          pair_.capacity_changed(capacity_ - step.dice / 50000 % (capacity_ / 4));
        }
    }
  }

  Pair& pair_;
  std::uint64_t capacity_;
  std::vector<Frame> frames_;
  std::uint64_t odds_;
  bool reads_ahead_;
  std::uint64_t unmaps_ = 0;
};

std::unique_ptr<EvictionPolicy> plain_model(std::string_view name, PolicyOptions options) {
  if (name == "hot-fifo") {
    return std::make_unique<PlainHotFifo>(options);
  }
  if (name == "small-main") {
    return std::make_unique<PlainSmallMain>(options);
  }
  if (name == "cyclic") {
    return std::make_unique<PlainCyclic>(options);
  }
  return std::make_unique<PlainQueue>(options);
}

class Reference : public testing::TestWithParam<std::string_view> {};

// Both are given the same accesses, and have to name the same victims.
void compare(std::string_view name, PolicyOptions options, std::uint64_t capacity, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity));
  options.max_frames = static_cast<FrameId>(capacity);
  options.capacity_units = capacity;
  const std::unique_ptr<EvictionPolicy> tested = make_eviction_policy(name, options);
  const std::unique_ptr<EvictionPolicy> model = plain_model(name, options);
  Pair pair(*tested, *model);
  Replay replay(pair, capacity, 40, seed == 2);
  for (const Accesses::Step step : Accesses(seed).record(6000)) {
    replay.step(step);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(pair.compared(), 1000U);
}

TEST_P(Reference, NamesTheSameVictimsInTheSameOrderAsThePlainModel) {
  for (const std::uint64_t capacity : {4U, 30U, 120U, 300U}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      compare(GetParam(), {}, capacity, seed);
    }
  }
}

TEST_P(Reference, AlsoWithOtherShares) {
  for (const std::uint32_t hot : {0U, 25U, 75U}) {
    for (const std::uint32_t unmapped : {0U, 10U, 50U, 75U}) {
      SCOPED_TRACE(std::to_string(hot) + " % hot, " + std::to_string(unmapped) + " % unmapped");
      PolicyOptions options;
      options.hot_share_percent = hot;
      options.unmapped_share_percent = unmapped;
      compare(GetParam(), options, 120, 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Reference, testing::ValuesIn(policy_names().begin(), policy_names().end()),
                         [](const testing::TestParamInfo<std::string_view>& tested) {
                           std::string name(tested.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tiermap
