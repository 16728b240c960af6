// The choice between page sizes alone: who excludes whom, and what is learnt from misses.
#include "fault/page_size_choice.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace tiermap {
namespace {

constexpr std::uint64_t bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t much_memory = std::uint64_t{1} << 30;

class PageSizeChoiceUnit : public testing::Test {
 protected:
  PageSizeChoiceUnit() {
    prepare(large_, 64 << 10);
    prepare(small_, 4 << 10);
    prepare(wide_, 1 << 20);
  }
  static void prepare(PagedRegion& region, std::uint64_t page_bytes) {
    region.page_bytes = page_bytes;
    region.page_shift = static_cast<unsigned>(std::countr_zero(page_bytes));
    region.length.store(bytes);
    region.table = PageTable(region.page_count());
  }
  static void become(PagedRegion& region, std::uint64_t page, PageState state) {
    PageWord word = region.table.load(page);
    ASSERT_TRUE(region.table.change(page, word, word.with_state(state)));
  }
  bool would_be_large(std::uint64_t offset) { return &choice_.serving(small_.memory + offset, false) == &large_; }

  PagedRegion large_, small_, wide_;
  PageSizeChoice choice_{large_, small_, wide_};
};

TEST_F(PageSizeChoiceUnit, WhatIsThereExcludesOtherSizesWhereItLies) {
  become(small_, 16 * 5 + 3, PageState::filling);
  EXPECT_FALSE(choice_.excludes(small_, 16 * 5 + 3));
  EXPECT_FALSE(choice_.excludes(small_, 16 * 5 + 4));
  EXPECT_TRUE(choice_.excludes(large_, 5));
  EXPECT_FALSE(choice_.excludes(large_, 4));
  EXPECT_TRUE(choice_.excludes(wide_, 0));
  become(large_, 16 * 7, PageState::clean);
  EXPECT_TRUE(choice_.excludes(small_, 16 * 16 * 7 + 15));
  EXPECT_TRUE(choice_.excludes(wide_, 7));
  become(wide_, 9, PageState::unmapped);
  EXPECT_TRUE(choice_.excludes(small_, 256 * 9));
  EXPECT_TRUE(choice_.excludes(large_, 16 * 9 + 15));
  EXPECT_FALSE(choice_.excludes(large_, 16 * 10));
  EXPECT_EQ(&choice_.serving(wide_.memory + (9 << 20) + 5, true), &wide_);
}

TEST_F(PageSizeChoiceUnit, AfterItsEndASmallPageComesOnlyBesideOthers) {
  become(small_, 3, PageState::clean);
  become(small_, 40, PageState::filling);
  choice_.end();
  become(small_, 4, PageState::filling);
  EXPECT_FALSE(choice_.excludes(small_, 4));
  EXPECT_TRUE(choice_.excludes(small_, 40)) << "it is alone, and not there yet";
  EXPECT_TRUE(choice_.excludes(wide_, 5));
  EXPECT_TRUE(would_be_large(200 << 10));
  EXPECT_FALSE(would_be_large(0)) << "small pages are there";
}

TEST_F(PageSizeChoiceUnit, MissesNearEachOtherLeadToLargePagesAndOthersBack) {
  std::mt19937_64 random(1);
  const auto share_of_large = [&] {
    int count = 0;
    for (std::uint64_t page = 0; page < 1024; ++page) {
      count += choice_.prefers_large(page, false) ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(share_of_large(), 0);
  const auto miss_all_of_some = [&](int pages) {
    for (int page = 0; page < pages; ++page) {
      const std::uint64_t first = random() % 1024 * 16;
      for (std::uint64_t index = 0; index < 16; ++index) {
        choice_.missed_small(first + index, much_memory);
      }
    }
  };
  miss_all_of_some(20);
  const int first_share = share_of_large();
  EXPECT_GT(first_share, 1024 * 14 / 16);
  EXPECT_LT(first_share, 1024) << "some are always looked at in small pages";
  miss_all_of_some(200);
  EXPECT_GT(share_of_large(), first_share) << "fewer, as nothing changes";
  for (int miss = 0; miss < 1000; ++miss) {
    choice_.missed_small(random() % (1024 * 16), much_memory);
  }
  EXPECT_EQ(share_of_large(), 0);
}

TEST_F(PageSizeChoiceUnit, APageThatComesBackIsNoNeighbour) {
  for (int miss = 0; miss < 1000; ++miss) {
    choice_.missed_small(static_cast<std::uint64_t>(miss % 2), much_memory);  // Two pages that take each other's place.
  }
  EXPECT_FALSE(choice_.prefers_large(100, false));
}

TEST_F(PageSizeChoiceUnit, WhereMemoryHoldsFewLargePagesAVisitIsShort) {
  std::mt19937_64 random(1);
  const auto miss_among_large_pages = [&](std::uint64_t budget_bytes) {
    for (int miss = 0; miss < 1000; ++miss) {
      choice_.missed_small(random() % (30 * 16), budget_bytes);
    }
    return choice_.prefers_large(100, false);
  };
  EXPECT_FALSE(miss_among_large_pages(4 << 20));
  EXPECT_TRUE(miss_among_large_pages(much_memory));
}

TEST_F(PageSizeChoiceUnit, MissesOfLargePagesEndAVisitToo) {
  const auto miss_one_after_the_other = [&](int larger_ones_between) {
    for (std::uint64_t page = 0; page < 512; ++page) {
      choice_.missed_small(page, much_memory);
      for (int time = 0; time < larger_ones_between; ++time) {
        choice_.missed_larger();
      }
    }
    return choice_.prefers_large(100, false);
  };
  EXPECT_FALSE(miss_one_after_the_other(200));
  EXPECT_TRUE(miss_one_after_the_other(0));
}

TEST_F(PageSizeChoiceUnit, WhatIsWholeIsSplitIntoWidePages) {
  std::vector<std::pair<const PagedRegion*, std::pair<std::uint64_t, std::uint64_t>>> parts;
  const auto take = [&](const PagedRegion& region, std::uint64_t first, std::uint64_t count) {
    parts.push_back({&region, {first, count}});
  };
  choice_.split(10, 50, take);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0],
            (std::pair{static_cast<const PagedRegion*>(&large_), std::pair<std::uint64_t, std::uint64_t>{10, 6}}));
  EXPECT_EQ(parts[1],
            (std::pair{static_cast<const PagedRegion*>(&wide_), std::pair<std::uint64_t, std::uint64_t>{1, 2}}));
  EXPECT_EQ(parts[2],
            (std::pair{static_cast<const PagedRegion*>(&large_), std::pair<std::uint64_t, std::uint64_t>{48, 12}}));
  parts.clear();
  choice_.split(17, 20, take);
  ASSERT_EQ(parts.size(), 1U);
}

TEST_F(PageSizeChoiceUnit, AdviceAndRoomDecideWhereNothingIsKnown) {
  EXPECT_TRUE(choice_.prefers_large(5, true));
  choice_.advise(Advice::random);
  EXPECT_FALSE(choice_.prefers_large(5, true));
  choice_.advise(Advice::sequential);
  EXPECT_TRUE(choice_.prefers_large(5, false));
}

}  // namespace
}  // namespace tiermap
