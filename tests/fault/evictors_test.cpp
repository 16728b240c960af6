// The evictors and pages that cannot go: however many these are, the others are found.
#include "fault/evictors.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace tiermap {
namespace {

/// A region of pages in memory of which none is mapped anywhere: as far as those go that cannot be evicted.
class EvictorsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t pages = 5000;

  EvictorsTest() {
    region_.id = 1;
    region_.pager = &pager_;
    region_.length.store(pages * page_bytes);
    region_.page_bytes = page_bytes;
    region_.page_shift = 12;
    region_.table = PageTable(pages);
    region_.counters = &counters_;
    region_.arena = &arena_;
    pager_.writable_regions.store(1);  // Else who waits evicts pages itself.
  }

  void add(std::uint64_t page, PageState state, std::uint32_t pins) {
    const FrameId frame = frames_.try_take(arena_);
    ASSERT_NE(frame, no_frame);
    frames_.record(frame).region = &region_;
    frames_.record(frame).page = page;
    policy_->filled(frame, {region_.id, page}, 1, FillKind::fault);
    PageWord word;
    ASSERT_TRUE(region_.table.change(page, word, PageWord{}.with_state(state).with_frame(frame).with_pins(pins)));
    region_.table.mark_used(page);
  }

  CounterBlock counters_{};
  FramePool frames_{pages * FramePool::cost(page_bytes), pages* FramePool::cost(page_bytes), 1};
  FrameArena& arena_ = frames_.arena(page_bytes, 0, [](void*, std::size_t) {});
  std::unique_ptr<EvictionPolicy> policy_ = make_eviction_policy("fifo", {.max_frames = frames_.max_frames()});
  PagedRegion region_;
  Pager pager_{frames_, *policy_, counters_, {.self_serving = true}};
};

TEST_F(EvictorsTest, LookAtAllPagesBeforeTheySayThatNoneCanGo) {
  for (std::uint64_t page = 0; page + 1 < pages; ++page) {
    add(page, PageState::clean, 1);
  }
  add(pages - 1, PageState::unmapped, 0);
  Evictors evictors(pager_, 1);
  FillFrames frames;
  EXPECT_TRUE(pager_.obtain_frames(region_, frames));
  // Once they may say so when they have let that one go, and it has not been taken yet.
  EXPECT_LE(pager_.exhausted_passes.load(), 2U);
  pager_.return_frames(frames);
}

TEST_F(EvictorsTest, SayThatNoneCanGo) {
  for (std::uint64_t page = 0; page < pages; ++page) {
    add(page, PageState::clean, 1);
  }
  Evictors evictors(pager_, 1);
  FillFrames frames;
  EXPECT_FALSE(pager_.obtain_frames(region_, frames));
}

}  // namespace
}  // namespace tiermap
