// tiermap-kmeans under mpiexec: the same clusters, bit for bit, for every number of ranks and of threads, wherever the
// points lie.
#include <algorithm>
#include <functional>
#include <limits>

#include "ranks/ranked_program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-kmeans";

class KMeansRanksTest : public RankedProgramTest {
 protected:
  /// 50,000 points and the clusters that they were planted in.
  std::string generated() const {
    const Outcome outcome =
        run(program, {"generate", "--bytes", "600000", "--file", path("points"), "--truth", path("truth"), "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return path("points");
  }
  /// What all runs are to agree about. `ranks` 0: without mpiexec.
  nlohmann::json clustering(int ranks, std::vector<std::string> arguments) const {
    const std::string assignments = path("assignments");
    arguments.insert(arguments.end(), {"--budget", "16MiB", "--json", "--assignments", assignments});
    const Outcome outcome = ranks == 0 ? run(program, arguments) : run_ranks(ranks, program, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    nlohmann::json kept;
    if (outcome.exit_code == 0) {
      const nlohmann::json report = outcome.json();
      EXPECT_EQ(report.at("verified"), true);
      EXPECT_EQ(report.value("ranks", 1), std::max(ranks, 1));
      for (const char* name : {"points", "dimensions", "clusters", "rounds", "candidates", "iterations", "converged",
                               "operations", "inertia", "sizes", "centroids", "adjusted_rand_index"}) {
        kept[name] = report.value(name, nlohmann::json());
      }
    }
    kept["assignments"] = std::hash<std::string>()(bytes_of(assignments));
    EXPECT_EQ(std::filesystem::file_size(assignments), kept.value("points", 0U) * 4);
    std::filesystem::remove(assignments);
    EXPECT_TRUE(left_behind().empty());
    return kept;
  }
};

TEST_F(KMeansRanksTest, TheSameForEveryNumberOfRanksAndThreads) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const std::string points = generated();
  const nlohmann::json expected = clustering(0, {points, "--truth", path("truth"), "--threads", "3"});
  EXPECT_EQ(expected.at("points"), 50'000);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const char* threads : {"1", "2"}) {
      EXPECT_EQ(clustering(ranks, {points, "--truth", path("truth"), "--threads", threads}), expected)
          << ranks << " ranks of " << threads << " threads";
    }
  }
  EXPECT_EQ(clustering(2, {points, "--truth", path("truth"), "--system", "mmap", "--check-in-memory"}), expected);
}

TEST_F(KMeansRanksTest, TheSameWhereSumsAreSoLargeThatTheyAreReadTogether) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const std::vector<std::string> arguments = {generated(), "--clusters", "600", "--iterations", "3", "--threads", "2"};
  EXPECT_EQ(clustering(3, arguments), clustering(0, arguments));
}

TEST_F(KMeansRanksTest, TheSameFromMemoryServers) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const std::string points = generated();
  const std::string url = server.url("points");
  ASSERT_EQ(run("tiermap", {"serve", "load", points, url}).exit_code, 0);
  EXPECT_EQ(clustering(2, {url, "--truth", path("truth")}), clustering(0, {points, "--truth", path("truth")}));
}

TEST_F(KMeansRanksTest, MoreRanksThanPoints) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const float coordinates[] = {0, 0, 0, 1, 1, 1, 9, 9, 9};
  const std::string points = write_file("few", {reinterpret_cast<const char*>(coordinates), sizeof(coordinates)});
  EXPECT_EQ(clustering(5, {points, "--clusters", "2"}), clustering(0, {points, "--clusters", "2"}));
}

TEST_F(KMeansRanksTest, TheSameAsOtherLaunchersStartThem) {
  const std::string points = generated();
  nlohmann::json expected = clustering(0, {points}).at("centroids");
  const std::vector<std::pair<std::string, std::string>> variables = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                                      {"SLURM_PROCID", "SLURM_NTASKS"},
                                                                      {"TIERMAP_RANK", "TIERMAP_RANKS"}};
  for (const auto& [rank, ranks] : variables) {
    const Outcome outcome = run_with_variables(3, rank, ranks, program, {points, "--budget", "16MiB", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.json().at("centroids"), expected) << rank;
  }
}

TEST_F(KMeansRanksTest, RanksThatAreToldDifferentThingsSaySo) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const std::string points = generated();
  const std::string binary = std::string(TIERMAP_BINARY_FOLDER) + "/" + program;
  const auto two_ranks = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"-n", "1", binary, points, "--budget", "16MiB", ":"};
    arguments.insert(arguments.end(), {"-n", "1", binary, points, "--budget", "24MiB"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(mpiexec(), arguments);
  };
  EXPECT_EQ(two_ranks({"--threads", "2"}).exit_code, 0);
  const Outcome outcome = two_ranks({"--clusters", "5"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("rank 0 was given nothing more, but rank 1 '--clusters 5'"), std::string::npos)
      << outcome.errors;
}

TEST_F(KMeansRanksTest, APointWithoutAPlaceIsTheFirstOneOfAll) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  std::vector<float> coordinates(3000, 1);
  coordinates[601] = coordinates[2996] = std::numeric_limits<float>::infinity();
  const std::string points = write_file("infinite", {reinterpret_cast<const char*>(coordinates.data()), 12000});
  const Outcome outcome = run_ranks(4, program, {points, "--budget", "16MiB"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("point 200 has no place: its coordinate 1 is inf"), std::string::npos)
      << outcome.errors;
}

}  // namespace
}  // namespace tiermap::test
