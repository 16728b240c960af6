// Whose faults are served when threads take each other's pages.
#include "fault/fault_turns.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tiermap {
namespace {

constexpr std::uint64_t moment = 1000;
constexpr std::uint64_t after_the_longest_service = 2'000'000'000;
constexpr std::uint64_t after_a_run = 50'000'000;

/// Faults on two pages in turn until the thread has its turn; the time is always the same.
void starve(FaultTurns& turns, std::uint32_t thread) {
  for (std::uint64_t fault = 0; fault < 6; ++fault) {
    EXPECT_TRUE(turns.admits(thread, fault % 2, moment));
  }
}

TEST(FaultTurns, ThreadsThatGoOnDoNotWaitForEachOther) {
  FaultTurns turns;
  for (std::uint64_t page = 0; page < 100; ++page) {
    EXPECT_TRUE(turns.admits(1, page, moment));
    EXPECT_TRUE(turns.admits(2, page, moment));
  }
}

TEST(FaultTurns, WhoAsksForTheSameAgainGetsATurn) {
  FaultTurns turns;
  starve(turns, 1);
  EXPECT_FALSE(turns.admits(2, 7, moment));
  EXPECT_TRUE(turns.admits(1, 0, moment));
}

TEST(FaultTurns, ATurnEndsWithSomethingNew) {
  FaultTurns turns;
  starve(turns, 1);
  EXPECT_TRUE(turns.admits(1, 99, moment));
  EXPECT_TRUE(turns.admits(2, 7, moment));
}

TEST(FaultTurns, ATurnLastsAsLongAsItsPageTakesAndAWhile) {
  FaultTurns turns;
  starve(turns, 1);  // Its last fault is on page 1.
  EXPECT_FALSE(turns.admits(2, 7, moment + after_a_run));
  EXPECT_FALSE(turns.awaits(7));
  EXPECT_TRUE(turns.awaits(1));
  turns.served(1, moment);
  EXPECT_FALSE(turns.admits(2, 7, moment));
  EXPECT_TRUE(turns.admits(2, 7, moment + after_a_run));
}

TEST(FaultTurns, ATurnEndsInTimeThoughItsPageNeverComes) {
  FaultTurns turns;
  starve(turns, 1);
  EXPECT_TRUE(turns.admits(2, 7, moment + after_the_longest_service));
}

TEST(FaultTurns, WhoAsksForTheSameForEverDoesNotKeepOthersWaiting) {
  FaultTurns turns;
  int refused_in_a_row = 0;
  int most = 0;
  for (std::uint64_t fault = 0; fault < 1000; ++fault) {
    EXPECT_TRUE(turns.admits(1, 0, moment));
    turns.served(0, moment);
    refused_in_a_row = turns.admits(2, fault + 100, moment) ? 0 : refused_in_a_row + 1;
    most = std::max(most, refused_in_a_row);
  }
  EXPECT_LE(most, 20);
}

TEST(FaultTurns, ThreadsWhoseNumbersAreAlikeAreToldApart) {
  FaultTurns turns;
  for (std::uint64_t fault = 0; fault < 4; ++fault) {
    for (std::uint32_t thread = 0; thread < 8; ++thread) {
      EXPECT_TRUE(turns.admits(256 * (thread + 1), fault % 2, moment));
    }
  }
  starve(turns, 256);
  EXPECT_FALSE(turns.admits(2, 7, moment));
}

TEST(FaultTurns, EachInItsTurn) {
  FaultTurns turns;
  starve(turns, 1);
  EXPECT_TRUE(turns.admits(1, 99, moment));
  starve(turns, 2);
  EXPECT_FALSE(turns.admits(1, 5, moment));
}

}  // namespace
}  // namespace tiermap
