// When clean pages that came by copy are kept, and when they are dropped.
#include "fault/second_chances.hpp"

#include <gtest/gtest.h>

namespace tiermap {
namespace {

/// As many as it takes to judge, several times over; of each hundred so many are rescued.
void live_through(SecondChances& chances, int rescued_of_a_hundred) {
  for (int page = 0; page < 4000; ++page) {
    chances.unmapped(true);
    if (page % 100 < rescued_of_a_hundred) {
      chances.rescued();
    }
  }
}

int kept_of_eighty(SecondChances& chances) {
  int kept = 0;
  for (int page = 0; page < 80; ++page) {
    kept += chances.keeps_next() ? 1 : 0;
  }
  return kept;
}

TEST(SecondChances, EveryPageIsKeptUntilSomethingIsKnown) {
  SecondChances chances;
  EXPECT_EQ(kept_of_eighty(chances), 80);
}

TEST(SecondChances, WhereFewAreRescuedASampleIsKept) {
  SecondChances chances;
  live_through(chances, 8);
  EXPECT_FALSE(chances.pay());
  EXPECT_EQ(kept_of_eighty(chances), 80 / static_cast<int>(SecondChances::sampling));
}

TEST(SecondChances, WhereManyAreRescuedAllAreKept) {
  SecondChances chances;
  live_through(chances, 8);
  live_through(chances, 60);
  EXPECT_TRUE(chances.pay());
  EXPECT_EQ(kept_of_eighty(chances), 80);
}

TEST(SecondChances, InBetweenNothingChanges) {
  SecondChances chances;
  live_through(chances, 25);
  EXPECT_TRUE(chances.pay());
  live_through(chances, 8);
  live_through(chances, 25);
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
