// Whose faults are served when threads take each other's pages.
#include "fault/fault_turns.hpp"

#include <gtest/gtest.h>

namespace tiermap {
namespace {

constexpr std::uint64_t moment = 1000;
constexpr std::uint64_t after_a_turn = 10'000'000;

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

TEST(FaultTurns, ATurnEndsInTime) {
  FaultTurns turns;
  starve(turns, 1);
  EXPECT_TRUE(turns.admits(2, 7, moment + after_a_turn));
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
