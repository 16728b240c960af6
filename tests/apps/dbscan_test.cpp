// tiermap-dbscan from outside: the same labels as by a plain search of all neighbours, on every system, with any number
// of threads, in a tenth of the memory; whatever the points are like; what are no points is refused.
#include <array>
#include <atomic>
#include <fstream>
#include <limits>
#include <random>
#include <span>

#include "apps/program_fixture.hpp"
#include "command_line/plain_bytes.hpp"
#include "dbscan/density_check.hpp"
#include "dbscan/point_tree.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-dbscan";
using Words = std::vector<std::string>;

class DbscanTest : public ProgramTest {
 protected:
  std::string write_points(const std::string& name, std::span<const float> coordinates) const {
    return write_file(name, {reinterpret_cast<const char*>(coordinates.data()), coordinates.size_bytes()});
  }
  /// The labels of a run that was checked.
  std::vector<std::uint32_t> labels_of(Words arguments) const {
    const std::string file = path("labels");
    arguments.insert(arguments.end(), {"--labels", file, "--json"});
    verified_report(program, arguments);
    std::vector<std::uint32_t> labels(std::filesystem::file_size(file) / sizeof(std::uint32_t));
    std::ifstream(file, std::ios::binary)
        .read(reinterpret_cast<char*>(labels.data()), static_cast<std::streamsize>(labels.size() * 4));
    std::filesystem::remove(file);
    return labels;
  }
};

/// Clumps, a string between two of them, and points that are nowhere: borders, noise and bridges.
std::vector<float> uneven_points(std::uint32_t dimensions, std::size_t count) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> anywhere(0, 100);
  std::normal_distribution<float> around(0, 3);
  std::vector<float> points;
  for (std::size_t point = 0; point < count; ++point) {
    const auto clump = static_cast<float>(point % 4);
    const float along = anywhere(random);
    for (std::uint32_t axis = 0; axis < dimensions; ++axis) {
      points.push_back(point % 5 == 0 ? anywhere(random) : point % 7 == 0 ? along : 25 * clump + around(random));
    }
  }
  return points;
}

TEST_F(DbscanTest, FindsWhatAPlainSearchFinds) {
  for (const std::uint32_t dimensions : {1U, 2U, 3U, 6U}) {
    const std::string points = write_points("points", uneven_points(dimensions, 1500));
    for (const auto& [reach, neighbours] : {std::pair("2.5", "6"), {"0.4", "1"}, {"1", "2"}, {"9", "40"}}) {
      for (const char* threads : {"1", "4"}) {
        const nlohmann::json report = verified_report(
            program, {points, "--dimensions", std::to_string(dimensions), "--reach", reach, "--neighbours", neighbours,
                      "--threads", threads, "--budget", "64KiB", "--page-size", "4KiB", "--check-in-memory", "--json"});
        EXPECT_EQ(report.at("core_points").get<int>() + report.at("border_points").get<int>() +
                      report.at("noise_points").get<int>(),
                  1500);
      }
    }
  }
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(DbscanTest, TheSameOnEverySystemWithAnyNumberOfThreadsInATenthOfTheMemory) {
  const std::string points = write_points("points", uneven_points(3, 8000));
  const Words wishes = {points, "--reach", "2", "--neighbours", "12"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), wishes.begin(), wishes.end());
    return labels_of(more);
  };
  // Rows, links and labels of all points are 24 bytes each.
  const std::vector<std::uint32_t> expected = with({"--budget", "32KiB", "--page-size", "4KiB", "--threads", "1"});
  EXPECT_EQ(expected.size(), 8000U);
  for (const char* threads : {"2", "5"}) {
    EXPECT_EQ(with({"--budget", "64KiB", "--page-size", "4KiB", "--threads", threads}), expected) << threads;
  }
  EXPECT_EQ(with({"--system", "mmap"}), expected);
  EXPECT_EQ(with({"--system", "memory", "--threads", "3"}), expected);
  EXPECT_EQ(with({"--prefetch", "off"}), expected);
}

TEST_F(DbscanTest, FindsWhatWasPlanted) {
  for (const char* system : {"tiermap", "mmap", "memory"}) {
    const nlohmann::json report =
        verified_report(program, {"--bytes", "600KiB", "--neighbours", "30", "--system", system, "--json"});
    expect_shared_fields(report, "dbscan", system);
    EXPECT_EQ(report.at("clusters"), 8);
    EXPECT_GT(report.at("adjusted_rand_index"), 0.99);
  }
}

TEST_F(DbscanTest, PilesOfEqualPointsTakeNoLonger) {
  // Two piles out of reach of each other, and two within: compared one by one they would be 10^10 pairs.
  std::vector<float> points;
  for (int point = 0; point < 200'000; ++point) {
    const float place[] = {0, 10, 20, 20.5F};
    points.insert(points.end(), {place[point % 4], 0, 0});
  }
  const nlohmann::json report =
      verified_report(program, {write_points("points", points), "--reach", "1", "--neighbours", "1000", "--json"});
  EXPECT_EQ(report.at("clusters"), 3);
  EXPECT_EQ(report.at("core_points"), 200'000);
}

TEST(PointTreeTest, PointsOfWhichMostShareTheLowestCoordinateAreSplitAsOthersAre) {
  // As in tables with many zeros: the median of a sample is the lowest, and nothing is below it.
  const TreePlan plan{20'000, 2, 1, 32};
  PlainBytes rows(PointTree::rows_bytes(plan));
  PlainBytes nodes(PointTree::nodes_bytes(plan));
  PointTree tree(plan, rows, nodes, false);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> anywhere(0, 1000);
  for (std::uint32_t row = 0; row < plan.points; ++row) {
    const std::array<float, 2> point = {row % 5 < 3 ? 0 : anywhere(random), anywhere(random) / 10};
    tree.set_row(row, point.data(), row);
  }
  ThreadTeam team(2);
  ProgressDisplay progress("splitting", plan.points);
  tree.build(team, progress);
  std::atomic<std::uint64_t> points{0};
  tree.for_each_leaf(team, [&](const TreeNode& leaf) {
    EXPECT_TRUE(tree.compact(leaf) || leaf.count < plan.least_to_split) << leaf.count << " points";
    points += leaf.count;
  });
  EXPECT_EQ(points, plan.points);
}

TEST_F(DbscanTest, FewPointsAreNoise) {
  const std::vector<float> one = {1, 2, 3};
  EXPECT_EQ(verified_report(program, {write_points("one", one), "--json"}).at("noise_points"), 1);
  EXPECT_EQ(labels_of({write_points("lone", one), "--neighbours", "1"}), std::vector<std::uint32_t>{0});
}

TEST_F(DbscanTest, RefusesWhatAreNoPoints) {
  std::vector<float> points(3000, 1.5F);
  for (const auto& [value, text] : {std::pair(std::numeric_limits<float>::quiet_NaN(), "coordinate 1 is nan"),
                                    {std::numeric_limits<float>::infinity(), "coordinate 1 is inf"}}) {
    points[1000] = value;
    expect_refused(program, {write_points("points", points), "--labels", path("work/labels")},
                   std::string("point 333 has no place: its ") + text);
  }
  expect_refused(program, {write_file("empty", "")}, "has no points");
  expect_refused(program, {write_file("short", "12345")}, "no whole number of points");
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(DbscanTest, RefusesWhatIsNoReachAndNoNumber) {
  for (const char* reach : {"0", "-1", "nan", "inf", "1e999", "far"}) {
    expect_refused(program, {"--reach", reach}, std::string("reach ") + reach + " is no number above 0");
  }
  expect_refused(program, {"--neighbours", "0"}, "neighbours");
  expect_refused(program, {"--dimensions", "65"}, "dimensions");
  expect_refused(program, {"--bytes", "2MiB", "--check-in-memory"}, "take 100000 of them at most");
  expect_refused(program, {"--bytes", "8"}, "choose more --bytes");
  expect_refused(program, {"--labels", write_file("there", "x")}, "exists");
}

TEST_F(DbscanTest, AWrongLabelIsSeen) {
  const std::vector<float> coordinates = uneven_points(2, 2000);
  const Backing points = Backing::create("memory:" + std::to_string(coordinates.size() * 4), 0);
  const Backing labels = Backing::create("memory:" + std::to_string(coordinates.size() * 2), 0);
  write_fully(*points.store(), coordinates.data(), coordinates.size() * 4, 0);
  const LabelledPoints files{*points.store(), *labels.store(), {2000, 2}, 2, 8};
  ProgressDisplay progress("testing", 0);
  const std::vector<std::uint32_t> right = plain_density_labels(coordinates, files, progress);
  DensityCounts counts;
  for (const std::uint32_t label : right) {
    counts.noise += label == noise_label ? 1U : 0U;
    counts.clusters = std::max<std::uint64_t>(counts.clusters, label == noise_label ? 0 : label + 1);
  }
  const auto wrong_about = [&](const std::vector<std::uint32_t>& said) {
    write_fully(*labels.store(), said.data(), said.size() * 4, 0);
    Agreement agreement;
    return find_wrong_label(files, counts, nullptr, agreement, progress);
  };
  EXPECT_EQ(wrong_about(right), "");
  ASSERT_GT(counts.clusters, 1U);
  std::vector<std::uint32_t> wrong = right;
  wrong[7] = static_cast<std::uint32_t>(counts.clusters);
  EXPECT_NE(wrong_about(wrong), "");
  EXPECT_NE(wrong_about(std::vector<std::uint32_t>(2000, noise_label)), "");
  wrong = right;
  std::ranges::find(wrong, 0U)[0] = noise_label;
  EXPECT_NE(wrong_about(wrong), "");
  EXPECT_EQ(compare_with_plain_labels(files, progress).find("point "), 0U);
}

}  // namespace
}  // namespace tiermap::test
