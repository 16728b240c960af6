// tiermap-dbscan as several ranks: the same labels, whatever their number and wherever clusters are cut; and the plain
// MPI program, which finds the same.
#include <filesystem>
#include <random>

#include "ranks/ranked_program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-dbscan";
const char* const plain_program = "tiermap-dbscan-mpi";

class DbscanRanksTest : public TwoServersTest {
 protected:
  static std::string floats(const std::vector<float>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
  }
  /// Clusters that reach over all slabs: lines along each axis, noise between them, and points that are there twice.
  std::string crossing_lines() const {
    std::mt19937 random(7);
    std::vector<float> points;
    for (int index = 0; index < 6000; ++index) {
      const auto along = static_cast<float>(random() % 10000) / 10;
      const auto away = static_cast<float>(random() % 100) / 50;
      const float beside = 200 * static_cast<float>(random() % 5);
      switch (index % 4) {
        case 0:
          points.insert(points.end(), {along, beside, away});
          break;
        case 1:
          points.insert(points.end(), {500 + beside, along, away + 100});
          break;
        case 2:
          points.insert(points.end(), {static_cast<float>(random() % 1000), static_cast<float>(random() % 1000), 50});
          break;
        default:
          points.insert(points.end(), {400, 400, 200});
      }
    }
    return write_file("points", floats(points));
  }
  std::vector<std::string> arguments(const std::string& points, const std::string& labels) const {
    return {points, "--reach", "6", "--neighbours", "5", "--labels", labels};
  }
  std::vector<std::string> with(std::vector<std::string> some, const std::vector<std::string>& more) const {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  }
  static void expect_same_counts(const nlohmann::json& report, const nlohmann::json& expected) {
    for (const char* name : {"clusters", "core_points", "border_points", "noise_points"}) {
      EXPECT_EQ(report.value(name, nlohmann::json()), expected.at(name)) << name;
    }
  }
};

TEST_F(DbscanRanksTest, TheSameLabelsWhateverTheNumberOfRanks) {
  const std::string points = crossing_lines();
  const nlohmann::json expected =
      verified_report(program, with(arguments(points, path("alone")), {"--check-in-memory", "--json"}));
  EXPECT_GT(expected.at("clusters"), 3);
  EXPECT_GT(expected.at("border_points"), 10);
  EXPECT_GT(expected.at("noise_points"), 10);
  two_servers();
  for (const int ranks : {1, 2, 4, 8}) {
    const std::string labels = path(std::to_string(ranks));
    const nlohmann::json report = report_of_ranks(ranks, program, with(arguments(points, labels), {"--json"}));
    EXPECT_EQ(report.value("verified", false), true);
    expect_same_counts(report, expected);
    EXPECT_TRUE(bytes_of(labels) == bytes_of(path("alone"))) << ranks << " ranks";
  }
}

TEST_F(DbscanRanksTest, InLessMemoryThanTheirPointsAndWithSeveralThreads) {
  const std::string points = crossing_lines();
  verified_report(program, with(arguments(points, path("alone")), {"--json"}));
  report_of_ranks(
      3, program,
      with(arguments(points, path("three")), {"--json", "--threads", "2", "--page-size", "4KiB", "--budget", "64KiB"}));
  EXPECT_TRUE(bytes_of(path("three")) == bytes_of(path("alone")));
}

TEST_F(DbscanRanksTest, FewerPointsThanRanks) {
  const std::string points = write_file("few", floats({1, 1, 1, 2, 2, 2, 900, 900, 900}));
  const nlohmann::json report = report_of_ranks(
      4, program, {points, "--neighbours", "2", "--labels", path("labels"), "--json", "--check-in-memory"});
  EXPECT_EQ(report.value("clusters", 0), 1);
  EXPECT_EQ(bytes_of(path("labels")), std::string("\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 12));
}

TEST_F(DbscanRanksTest, RefuseInOneLineWhatRanksCannotDo) {
  const auto expect_refusal = [&](const std::vector<std::string>& all, const std::string& part) {
    const Outcome outcome = run_ranks(2, program, all);
    EXPECT_NE(outcome.exit_code, 0) << part;
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
    EXPECT_FALSE(std::filesystem::exists(path("labels"))) << part;
  };
  expect_refusal({"--labels", path("labels")}, "points are made by one process, and there are 2 ranks");
  const std::string points = write_file("odd", floats({1, 1, 1, 2, 2, 2, 3, NAN, 3, 4, 4, 4}));
  expect_refusal({points, "--labels", path("labels")}, "point 2 has no place: its coordinate 1 is nan");
}

TEST_F(DbscanRanksTest, ThePlainMpiProgramFindsTheSameClusters) {
  if (!is_built(plain_program)) {
    GTEST_SKIP() << "there was no MPI when this was built: install libmpich-dev";
  }
  set_environment("UCX_TLS", "all");  // Over TCP alone MPICH 4.0.2 hangs in MPI_Finalize() now and then.
  const std::string points = crossing_lines();
  const nlohmann::json expected = verified_report(program, with(arguments(points, path("alone")), {"--json"}));
  for (const int ranks : {1, 2, 4}) {
    const std::string labels = path(std::to_string(ranks));
    const nlohmann::json report = report_of_ranks(ranks, plain_program, arguments(points, labels));
    expect_same_counts(report, expected);
    EXPECT_TRUE(bytes_of(labels) == bytes_of(path("alone"))) << ranks << " ranks";
    EXPECT_EQ(report.value("sent_bytes", 0) > 0, ranks > 1);
  }
}

}  // namespace
}  // namespace tiermap::test
