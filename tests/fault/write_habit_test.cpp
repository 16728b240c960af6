// When pages that are read arrive writable.
#include "fault/write_habit.hpp"

#include <gtest/gtest.h>

namespace tiermap {
namespace {

/// As many ends as it takes to judge, several times over; of each hundred so many are writes.
void live_through(WriteHabit& habit, int written_of_a_hundred) {
  for (int page = 0; page < 2000; ++page) {
    habit.ended(page % 100 < written_of_a_hundred);
  }
}

TEST(WriteHabit, NothingIsExpectedUntilSomethingIsKnown) {
  WriteHabit habit;
  EXPECT_FALSE(habit.expects_writes());
  habit.ended(true);
  EXPECT_FALSE(habit.expects_writes());
}

TEST(WriteHabit, WhereMostAreWrittenThatIsExpectedAndNotWhereHalfAre) {
  WriteHabit habit;
  live_through(habit, 50);
  EXPECT_FALSE(habit.expects_writes());
  live_through(habit, 75);
  EXPECT_TRUE(habit.expects_writes());
}

TEST(WriteHabit, ItStaysUntilClearlyFewerAreWritten) {
  WriteHabit habit;
  live_through(habit, 100);
  live_through(habit, 50);
  EXPECT_TRUE(habit.expects_writes());
  live_through(habit, 25);
  EXPECT_FALSE(habit.expects_writes());
}

}  // namespace
}  // namespace tiermap
