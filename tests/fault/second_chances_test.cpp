// When clean pages that came by copy are kept, and when they are dropped.
#include "fault/second_chances.hpp"

#include <gtest/gtest.h>

namespace tiermap {
namespace {

constexpr int some_pages = 640;

/// As many as it takes to judge, several times over; of each hundred so many are rescued.
void live_through(SecondChances& chances, int rescued_of_a_hundred) {
  for (int page = 0; page < 4000; ++page) {
    chances.unmapped(true);
    if (page % 100 < rescued_of_a_hundred) {
      chances.rescued(chances.turns(), some_pages);
    }
  }
}

int kept_of_some(SecondChances& chances) {
  int kept = 0;
  for (int page = 0; page < some_pages; ++page) {
    kept += chances.keeps_next() ? 1 : 0;
  }
  return kept;
}

TEST(SecondChances, EveryPageIsKeptUntilSomethingIsKnown) {
  SecondChances chances;
  EXPECT_EQ(kept_of_some(chances), some_pages);
}

TEST(SecondChances, WhereFewAreRescuedASampleIsKeptThatShrinks) {
  SecondChances chances;
  while (chances.pay()) {
    chances.unmapped(true);
  }
  EXPECT_EQ(kept_of_some(chances), some_pages / static_cast<int>(SecondChances::first_sampling));
  live_through(chances, 8);
  EXPECT_FALSE(chances.pay());
  EXPECT_EQ(kept_of_some(chances), some_pages / static_cast<int>(SecondChances::last_sampling));
}

TEST(SecondChances, AfterBetterTimesTheSampleIsLargeAgain) {
  SecondChances chances;
  live_through(chances, 8);
  live_through(chances, 60);
  EXPECT_TRUE(chances.pay());
  while (chances.pay()) {
    chances.unmapped(true);
  }
  EXPECT_EQ(kept_of_some(chances), some_pages / static_cast<int>(SecondChances::first_sampling));
}

TEST(SecondChances, WhereManyAreRescuedAllAreKept) {
  SecondChances chances;
  live_through(chances, 8);
  live_through(chances, 60);
  EXPECT_TRUE(chances.pay());
  EXPECT_EQ(kept_of_some(chances), some_pages);
}

TEST(SecondChances, InBetweenNothingChanges) {
  SecondChances chances;
  live_through(chances, 25);
  EXPECT_TRUE(chances.pay());
  live_through(chances, 8);
  live_through(chances, 25);
  EXPECT_FALSE(chances.pay());
}

TEST(SecondChances, ARescueThatComesTooLateProvesNothing) {
  SecondChances chances;
  live_through(chances, 8);
  for (int page = 0; page < 4000; ++page) {
    chances.unmapped(true);
    const std::uint32_t since = chances.turns();
    kept_of_some(chances);
    chances.rescued(since, some_pages - 1);
  }
  EXPECT_FALSE(chances.pay());
}

TEST(SecondChances, ThePagesOfOthersEndIt) {
  SecondChances chances;
  live_through(chances, 8);
  for (int page = 0; page < 10'000; ++page) {
    chances.unmapped(false);
  }
  EXPECT_TRUE(chances.pay());
}

}  // namespace
}  // namespace tiermap
