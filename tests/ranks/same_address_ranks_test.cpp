// Processes that mpiexec starts, and that have nothing in common: pointers mean the same in all of them.
#include "ranks/ranked_program_fixture.hpp"

namespace tiermap::test {
namespace {

class SameAddressRanksTest : public RankedProgramTest {};

TEST_F(SameAddressRanksTest, AListIsFollowedByAllRanks) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  for (const int ranks : {1, 2, 3, 4}) {
    const Outcome outcome = run_ranks(ranks, "shared-list", {});
    EXPECT_EQ(outcome.exit_code, 0) << ranks << " ranks: " << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
  }
}

}  // namespace
}  // namespace tiermap::test
