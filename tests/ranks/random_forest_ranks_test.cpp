// tiermap-random-forest under mpiexec: the same forest and the same predictions, byte for byte, for every number of
// ranks.
#include <functional>

#include "ranks/ranked_program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-random-forest";

class RandomForestRanksTest : public RankedProgramTest {
 protected:
  /// What all runs are to agree about. `ranks` 0: without mpiexec.
  nlohmann::json forest(int ranks, std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--budget", "16MiB", "--json", "--forest", path("forest"), "--predictions",
                                       path("predictions"), "--trees", "5"});
    const Outcome outcome = ranks == 0 ? run(program, arguments) : run_ranks(ranks, program, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    nlohmann::json kept;
    if (outcome.exit_code == 0) {
      EXPECT_EQ(outcome.json().at("verified"), true);
      for (const char* name :
           {"rows", "classes", "trees", "splits", "depth", "measured_rows", "accuracy", "operations"}) {
        kept[name] = outcome.json().at(name);
      }
    }
    for (const char* file : {"forest", "predictions"}) {
      kept[file] = std::hash<std::string>()(bytes_of(path(file)));
      std::filesystem::remove(path(file));
    }
    EXPECT_TRUE(left_behind().empty());
    return kept;
  }
};

TEST_F(RandomForestRanksTest, TheSameForEveryNumberOfRanks) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const std::string table = path("table");
  ASSERT_EQ(run(program, {"generate", "--bytes", "1MB", "--file", table}).exit_code, 0);
  const nlohmann::json expected = forest(0, {table, "--threads", "2"});
  for (const int ranks : {2, 3, 4, 8}) {
    EXPECT_EQ(forest(ranks, {table, "--threads", "1"}), expected) << ranks;
  }
  const std::vector<std::string> drawn = {table, "--bagging", "drawn", "--hold-out", "0", "--exact-rows", "40000"};
  std::vector<std::string> checked = drawn;
  checked.push_back("--check-in-memory");
  EXPECT_EQ(forest(2, checked), forest(0, drawn));
}

TEST_F(RandomForestRanksTest, RanksPredictByAForestThatIsThere) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const std::string table = path("table");
  ASSERT_EQ(run(program, {"generate", "--bytes", "1MB", "--file", table}).exit_code, 0);
  ASSERT_EQ(run(program, {table, "--forest", path("forest"), "--predictions", path("one")}).exit_code, 0);
  const Outcome outcome = run_ranks(
      3, program, {"predict", table, "--forest", path("forest"), "--predictions", path("three"), "--budget", "16MiB"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(bytes_of(path("three")), bytes_of(path("one")));
}

}  // namespace
}  // namespace tiermap::test
