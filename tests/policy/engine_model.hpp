// A cache without threads, kernel and store, that drives a policy the way the engine does, and checks each answer
// against what it knows of every frame. Shared by the conformance, reference and hit-ratio tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "cache/eviction_policy.hpp"
#include "policy/allocation_count.hpp"

namespace tiermap {

enum class FrameState : std::uint8_t { gone, mapped, named_to_unmap, unmapped, named_to_free };

/// What is known of every frame, and every call passed on to the policy under test. Names that the policy gives must be
/// of frames in the right state. No call may allocate.
class CheckedPolicy {
 public:
  CheckedPolicy(EvictionPolicy& policy, FrameId max_frames)
      : policy_(policy), states_(max_frames), units_(max_frames) {}

  FrameState state(FrameId frame) const { return states_[frame]; }
  std::uint32_t units(FrameId frame) const { return units_[frame]; }
  /// Every frame that a choose_* call named, in order.
  const std::vector<FrameId>& victims() const { return victims_; }
  std::vector<FrameId> frames_in(FrameState state) const {
    std::vector<FrameId> frames;
    for (FrameId frame = 0; frame < states_.size(); ++frame) {
      if (states_[frame] == state) {
        frames.push_back(frame);
      }
    }
    return frames;
  }

  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind = FillKind::fault) {
    states_[frame] = FrameState::mapped;
    units_[frame] = units;
    unchanged_heap([&] { policy_.filled(frame, key, units, kind); });
  }
  void rescued(FrameId frame) {
    states_[frame] = states_[frame] == FrameState::gone ? FrameState::gone : FrameState::mapped;
    unchanged_heap([&] { policy_.rescued(frame); });
  }
  void removed(FrameId frame, bool evicted) {
    states_[frame] = FrameState::gone;
    unchanged_heap([&] { policy_.removed(frame, evicted); });
  }
  void advised(FrameId frame, Hotness hotness) {
    unchanged_heap([&] { policy_.advised(frame, hotness); });
  }
  void unmapped(FrameId frame) {
    states_[frame] = states_[frame] == FrameState::gone ? FrameState::gone : FrameState::unmapped;
    unchanged_heap([&] { policy_.unmapped(frame); });
  }
  void refused(FrameId frame) {
    states_[frame] = states_[frame] == FrameState::gone ? FrameState::gone : FrameState::mapped;
    unchanged_heap([&] { policy_.refused(frame); });
  }
  void capacity_changed(std::uint64_t units) {
    unchanged_heap([&] { policy_.capacity_changed(units); });
  }
  /// As many as the policy names, which must be as many as asked for while enough frames are mapped.
  std::vector<FrameId> choose_to_unmap(std::size_t wanted) {
    std::vector<FrameId> chosen(wanted, no_frame);
    const std::size_t mapped = frames_in(FrameState::mapped).size();
    std::size_t count = 0;
    unchanged_heap([&] { count = policy_.choose_to_unmap(chosen); });
    EXPECT_EQ(count, std::min(wanted, mapped)) << "mapped frames were held back";
    chosen.resize(std::min(count, wanted));
    for (const FrameId frame : chosen) {
      named(frame, FrameState::mapped, FrameState::named_to_unmap);
    }
    return chosen;
  }
  FrameId choose_to_free() {
    const bool any = !frames_in(FrameState::unmapped).empty();
    FrameId frame = no_frame;
    unchanged_heap([&] { frame = policy_.choose_to_free(); });
    EXPECT_EQ(frame != no_frame, any) << "unmapped frames were held back, or one was made up";
    if (frame != no_frame) {
      named(frame, FrameState::unmapped, FrameState::named_to_free);
    }
    return frame;
  }

 private:
  void named(FrameId frame, FrameState must_be, FrameState becomes) {
    ASSERT_LT(frame, states_.size());
    ASSERT_EQ(static_cast<int>(states_[frame]), static_cast<int>(must_be)) << "frame " << frame << " was named";
    states_[frame] = becomes;
    victims_.push_back(frame);
  }
  template <typename Call>
  void unchanged_heap(Call call) {
    const std::uint64_t before = allocation_count();
    call();
    EXPECT_EQ(allocation_count(), before) << "a policy's call allocated";
  }

  EvictionPolicy& policy_;
  std::vector<FrameState> states_;
  std::vector<std::uint32_t> units_;
  std::vector<FrameId> victims_;
};

/// Pages of one unit each in a full cache: faults, rescues, evictors that keep the policy's share unmapped; or evictors
/// that drop what is to go, as with small pages, and keep a twentieth to a tenth of memory free.
class SmallEngine {
 public:
  SmallEngine(EvictionPolicy& policy, std::uint32_t capacity, bool drops = false)
      : policy_(policy), checked_(policy, capacity), capacity_(capacity), drops_(drops) {
    for (FrameId frame = capacity; frame > 0; --frame) {
      free_.push_back(frame - 1);
    }
  }

  void touch(std::uint64_t page) {
    const auto found = frame_of_page_.find(page);
    if (found == frame_of_page_.end()) {
      ++misses_;
      if (free_.empty()) {
        free_one();
      }
      const FrameId frame = free_.back();
      free_.pop_back();
      frame_of_page_[page] = frame;
      page_of_frame_[frame] = page;
      checked_.filled(frame, {1, page}, 1);
    } else if (checked_.state(found->second) == FrameState::unmapped) {
      --unmapped_;
      ++rescues_;
      checked_.rescued(found->second);
    }
    drops_ ? keep_some_free() : keep_share_unmapped();
  }
  std::uint64_t misses() const { return misses_; }
  std::uint64_t rescues() const { return rescues_; }
  const CheckedPolicy& checked() const { return checked_; }

 private:
  void remove(FrameId frame) {
    checked_.removed(frame, true);
    frame_of_page_.erase(page_of_frame_.at(frame));
    free_.push_back(frame);
  }
  void free_one() {
    if (unmapped_ == 0) {
      unmap(1);
    }
    --unmapped_;
    remove(checked_.choose_to_free());
  }
  void keep_some_free() {
    if (frame_of_page_.size() > capacity_ - capacity_ / 20) {
      for (const FrameId frame : checked_.choose_to_unmap(std::max(capacity_ / 20, 1U))) {
        remove(frame);
      }
    }
  }
  void unmap(std::size_t wanted) {
    for (const FrameId frame : checked_.choose_to_unmap(wanted)) {
      checked_.unmapped(frame);
      ++unmapped_;
    }
  }
  void keep_share_unmapped() {
    const std::uint32_t share = capacity_ * policy_.unmapped_share_percent() / 100;
    if (frame_of_page_.size() == capacity_ && unmapped_ < share - std::min(share, capacity_ / 20)) {
      unmap(share - unmapped_);
    }
  }

  EvictionPolicy& policy_;
  CheckedPolicy checked_;
  std::uint32_t capacity_;
  bool drops_;
  std::vector<FrameId> free_;
  std::uint32_t unmapped_ = 0;
  std::uint64_t misses_ = 0;
  std::uint64_t rescues_ = 0;
  std::map<std::uint64_t, FrameId> frame_of_page_;
  std::map<FrameId, std::uint64_t> page_of_frame_;
};

}  // namespace tiermap
