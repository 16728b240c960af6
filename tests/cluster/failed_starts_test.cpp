// Who is told that a job failed before he came, and who begins a new one.
#include "cluster/job/failed_starts.hpp"

#include <gtest/gtest.h>

namespace tiermap {
namespace {

const FailedStarts::Key job{"ann", "job"};

/// Ranks 0 and 2 have come to it.
FailedStarts failed_at(std::uint64_t when) {
  FailedStarts starts;
  starts.remember(job, {{0, 2}, when}, "rank 0 is gone");
  return starts;
}

TEST(FailedStartsTest, WhoWasWaitedForIsToldOnce) {
  FailedStarts starts = failed_at(1000);
  EXPECT_EQ(starts.why({"bob", "job"}, 1, 9000, 5000), std::nullopt);
  EXPECT_EQ(starts.why(job, 1, 4000, 5000), "rank 0 is gone");
  EXPECT_EQ(starts.why(job, 3, 4000, 5000), "rank 0 is gone");
  EXPECT_EQ(starts.why(job, 1, 4000, 5000), std::nullopt);  // It tries once more: a new job.
  EXPECT_EQ(starts.why(job, 4, 4000, 5000), std::nullopt);
}

TEST(FailedStartsTest, WhoBeganAfterwardsBeginsANewJob) {
  FailedStarts starts = failed_at(1000);
  EXPECT_EQ(starts.why(job, 1, 3999, 5000), std::nullopt);
  EXPECT_EQ(starts.why(job, 3, 4000, 5000), std::nullopt);
}

TEST(FailedStartsTest, WhoHadComeBeginsANewJob) {
  FailedStarts starts = failed_at(1000);
  EXPECT_EQ(starts.why(job, 2, 9000, 5000), std::nullopt);
  EXPECT_EQ(starts.why(job, 1, 9000, 5000), std::nullopt);
}

TEST(FailedStartsTest, TheOldestAreForgotten) {
  FailedStarts starts;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    starts.remember({"ann", std::to_string(number)}, {{0}, number}, "gone");
  }
  EXPECT_EQ(starts.why({"ann", "0"}, 1, 9000, 2000), std::nullopt);
  EXPECT_EQ(starts.why({"ann", "999"}, 1, 9000, 2000), "gone");
}

}  // namespace
}  // namespace tiermap
