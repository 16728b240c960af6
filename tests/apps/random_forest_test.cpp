// tiermap-random-forest: the same forest on every system, with any number of threads, in a tenth of the memory; small
// trees beside ones that are found by trying everything; what was planted is learnt; what is no table is refused.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <span>

#include "apps/program_fixture.hpp"
#include "command_line/memory_system.hpp"
#include "random-forest/bagging.hpp"
#include "random-forest/forest_check.hpp"
#include "random-forest/plain_tree.hpp"
#include "random-forest/tree_growth.hpp"
#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-random-forest";
using Words = std::vector<std::string>;

class RandomForestTest : public ProgramTest {
 protected:
  std::string write_table(const std::string& name, std::span<const float> cells) const {
    return write_file(name, {reinterpret_cast<const char*>(cells.data()), cells.size_bytes()});
  }
  std::string bytes_of(const std::string& file) const {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// Forest and predictions of a run that was verified.
  std::pair<std::string, std::string> learnt(Words arguments) const {
    arguments.insert(arguments.end(), {"--forest", path("forest"), "--predictions", path("predictions"), "--json"});
    verified_report(program, arguments);
    std::pair<std::string, std::string> made{bytes_of(path("forest")), bytes_of(path("predictions"))};
    std::filesystem::remove(path("forest"));
    std::filesystem::remove(path("predictions"));
    return made;
  }
};

TEST_F(RandomForestTest, TheSameOnEverySystemWithAnyNumberOfThreadsInATenthOfTheMemory) {
  const std::string table = path("table");
  ASSERT_EQ(run(program, {"generate", "--file", table, "--bytes", "840000"}).exit_code, 0);
  for (const auto& [bagging, sample] : {std::pair("counted", "1"), {"drawn", "0.1"}, {"once", "0.9"}}) {
    const Words wishes = {table, "--trees", "2", "--exact-rows", "2000", "--bagging", bagging, "--sample", sample};
    const auto with = [&](Words more) {
      more.insert(more.begin(), wishes.begin(), wishes.end());
      return learnt(more);
    };
    const auto expected = with({"--system", "memory", "--threads", "1"});
    EXPECT_EQ(expected.second.size(), 840000U / 28 * 4);
    EXPECT_TRUE(with({"--threads", "3", "--budget", "84000", "--page-size", "4KiB"}) == expected) << bagging;
    EXPECT_TRUE(with({"--fault-mode", "kernel", "--budget", "1MiB"}) == expected) << bagging;
    EXPECT_TRUE(with({"--system", "mmap", "--threads", "5"}) == expected) << bagging;
    EXPECT_FALSE(with({"--system", "memory", "--seed", "2"}) == expected) << bagging;
  }
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(RandomForestTest, GenerateReportsWhatTheMakingTook) {
  const Outcome outcome = run(program, {"generate", "--file", path("table"), "--bytes", "840000", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const nlohmann::json report = outcome.json();
  EXPECT_EQ(report.at("workload"), "random-forest-generate");
  EXPECT_GT(report.at("peak_rss_bytes"), 0);
  EXPECT_FALSE(report.contains("prepare_seconds"));
}

TEST_F(RandomForestTest, LearnsWhatWasPlanted) {
  for (const char* system : {"tiermap", "mmap", "memory"}) {
    const nlohmann::json report =
        verified_report(program, {"--bytes", "400KiB", "--trees", "4", "--system", system, "--json"});
    expect_shared_fields(report, "random-forest", system);
    EXPECT_GT(report.at("accuracy"), 0.93);
    // A fifth of each class, of which none has fewer than some hundred rows.
    EXPECT_NEAR(report.at("measured_rows").get<double>(), report.at("rows").get<double>() / 5, 8);
    EXPECT_LE(report.at("depth"), 10);
  }
}

TEST_F(RandomForestTest, TreesAreThoseOfAPlainGrowth) {
  ASSERT_EQ(run(program, {"generate", "--file", path("table"), "--bytes", "56KiB", "--classes", "5"}).exit_code, 0);
  for (const char* bagging : {"counted", "drawn", "once"}) {
    for (const Words& wishes : {Words{"--depth", "30", "--hold-out", "0"},
                                {"--features-tried", "6", "--sample", "0.3"},
                                {"--features-tried", "1", "--least-rows", "40"},
                                {"--least-gain", "0.05"}}) {
      Words all = {path("table"), "--trees", "2",           "--bagging", bagging, "--check-in-memory",
                   "--budget",    "64KiB",   "--page-size", "4KiB",      "--json"};
      all.insert(all.end(), wishes.begin(), wishes.end());
      verified_report(program, all);
    }
  }
}

TEST_F(RandomForestTest, ASampleThatWasGrownFromIsNotWritten) {
  const nlohmann::json report = verified_report(
      program, {"--bytes", "8MiB", "--trees", "1", "--budget", "64MiB", "--page-size", "64KiB", "--json"});
  // It was four fifths of the table.
  EXPECT_LT(report.at("written_bytes"), 3 << 20);
}

TEST_F(RandomForestTest, ASampleHasAsManyRowsAsItIsToHave) {
  ASSERT_EQ(run(program, {"generate", "--file", path("table"), "--bytes", "280000"}).exit_code, 0);
  for (const auto& [bagging, least, most] :
       {std::tuple("counted", 3700, 4300), {"drawn", 3900, 4100}, {"once", 3700, 4300}}) {
    const nlohmann::json report =
        verified_report(program, {path("table"), "--trees", "1", "--sample", "0.5", "--bagging", bagging, "--json"});
    // Of 10000 rows 8000 are trained on.
    EXPECT_GT(report.at("operations"), least) << bagging;
    EXPECT_LT(report.at("operations"), most) << bagging;
  }
}

TEST_F(RandomForestTest, SaysOfAnotherTableWhatItHasLearnt) {
  ASSERT_EQ(run(program, {"generate", "--file", path("table"), "--bytes", "200KiB"}).exit_code, 0);
  verified_report(program, {path("table"), "--trees", "3", "--forest", path("forest"), "--json"});
  const nlohmann::json report = verified_report(
      program, {"predict", path("table"), "--forest", path("forest"), "--predictions", path("said"), "--json"});
  EXPECT_EQ(report.at("workload"), "random-forest-predict");
  EXPECT_GT(report.at("accuracy"), 0.93);
  EXPECT_EQ(std::filesystem::file_size(path("said")), report.at("rows").get<std::uint64_t>() * 4);
  const std::string sound = bytes_of(path("forest"));
  for (const auto& [name, bytes, text] :
       {std::tuple("cut", sound.substr(0, sound.size() - 20), "was cut off, or has changed"),
        {"stub", sound.substr(0, 10), "is no forest"},
        {"other", "no forest at all, and long enough", "is no forest"},
        {"future", sound.substr(0, 8) + "\x09" + sound.substr(9), "a forest of version 9"}}) {
    expect_refused(program, {"predict", path("table"), "--forest", write_file(name, bytes)}, text);
  }
  expect_refused(program, {"predict", path("table"), "--columns", "6", "--forest", path("forest")},
                 "5 features beside");
  expect_refused(program, {"predict", path("table")}, "predict needs a table and a forest");
}

TEST_F(RandomForestTest, TheHelpOfASubcommandListsWhatItTakes) {
  const std::pair<const char*, Words> table[] = {{"generate", {"--file", "--bytes", "--columns", "--classes"}},
                                                 {"predict", {"table", "--forest", "--predictions", "--page-size"}}};
  for (const auto& [command, options] : table) {
    const Outcome help = run(program, {command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    for (const std::string& option : options) {
      EXPECT_NE(help.output.find("\n  " + option + " "), std::string::npos) << option << help.output;
    }
  }
}

TEST_F(RandomForestTest, AnArrayOfNumpysSaysHowManyColumnsThereAre) {
  ASSERT_EQ(run(program, {"generate", "--file", path("table"), "--bytes", "40000", "--columns", "5"}).exit_code, 0);
  const std::string array = "npy:" + write_npy("<f4", "2000, 5", bytes_of(path("table")));
  for (const char* bagging : {"counted", "drawn", "once"}) {
    const Words wishes = {"--trees", "2", "--bagging", bagging};
    Words raw = wishes;
    raw.insert(raw.begin(), {path("table"), "--columns", "5"});
    Words saved = wishes;
    saved.insert(saved.begin(), array);
    EXPECT_TRUE(learnt(saved) == learnt(raw)) << bagging;
  }
  expect_refused(program, {array, "--columns", "4"},
                 "rows of 5 elements, and 4 columns are asked for: leave --columns");
  expect_refused(program, {"npy:" + write_npy("<f4", "10000,", bytes_of(path("table")))}, "has one column");
  expect_refused(program, {"npy:" + write_npy("<f8", "1000, 5", bytes_of(path("table")))}, "rows are native floats");
}

TEST_F(RandomForestTest, RefusesWhatIsNoTable) {
  std::vector<float> cells;
  for (int row = 0; row < 100; ++row) {
    const auto value = static_cast<float>(row);
    cells.insert(cells.end(), {value, -value, static_cast<float>(row % 3)});
  }
  const auto refuse = [&](std::size_t cell, float value, const std::string& text) {
    std::vector<float> wrong = cells;
    wrong[cell] = value;
    expect_refused(program, {write_table("wrong", wrong), "--columns", "3", "--forest", path("work/forest")}, text);
  };
  refuse(31, std::numeric_limits<float>::quiet_NaN(), "row 10 has nan in column 1");
  refuse(60, std::numeric_limits<float>::infinity(), "row 20 has inf in column 0");
  for (const float which : {0.5F, -1.0F, 4096.0F, std::numeric_limits<float>::quiet_NaN()}) {
    refuse(92, which, "row 30 has ");
  }
  for (std::size_t cell = 2; cell < cells.size(); cell += 3) {
    cells[cell] = 1;
  }
  expect_refused(program, {write_table("one", cells), "--columns", "3"}, "rows of one class only");
  expect_refused(program, {write_file("empty", ""), "--columns", "3"},
                 "has no rows: name a file that has some, or make one with `tiermap-random-forest");
  expect_refused(program, {write_table("three", cells), "--columns", "4096"}, "say by --columns");
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(RandomForestTest, RefusesOptionsThatMakeNoSense) {
  expect_refused(program, {"--depth", "0"}, "depth");
  expect_refused(program, {"--trees", "0"}, "trees");
  expect_refused(program, {"--hold-out", "1"}, "leaves nothing to train on");
  expect_refused(program, {"--bagging", "some"}, "choose counted, drawn or once");
  expect_refused(program, {"--bytes", "1MiB", "--features-tried", "7"}, "features tried 7 are more than the 6");
  expect_refused(program, {"--bytes", "100"}, "fewer than 8 classes");
  expect_refused(program, {"--columns", "1"}, "columns");
  expect_refused(program, {"--forest", write_file("there", "x")}, "exists");
  expect_refused(program, {"--forest", path("work/one"), "--predictions", path("work/one")}, "is to be two files");
  expect_refused(program, {"--forest", path("nowhere/forest")}, "nowhere");
  expect_refused(program, {"generate"}, "name its file by --file");
  for (const char* share : {"0", "1.1", "nan", "-1", "some"}) {
    expect_refused(program, {"--sample", share}, std::string("sample ") + share + " is no number");
  }
  expect_refused(program, {"--least-gain", "2"}, "least gain 2 is no number");
  expect_refused(program, {"--trees", "100001"}, "trees 100001 is not a whole number from 1 to 100000");
  expect_refused(program, {"--bytes", "4MiB", "--check-in-memory"}, "take 100000 of them at most");
  expect_refused(program, {"--bytes", "1MiB", "--check-in-memory"}, "choose ");
}

class TreeGrowthTest : public testing::Test {
 protected:
  static constexpr std::uint32_t features = 3;

  /// Of one feature whose values are all different: the others say nothing, so there is one best split.
  static std::vector<std::vector<float>> made_rows(std::size_t count) {
    std::mt19937 random(11);
    std::vector<std::vector<float>> rows;
    for (std::size_t row = 0; row < count; ++row) {
      const auto value = static_cast<float>(random() % 100000);
      rows.push_back({value, 5, 5, static_cast<float>(static_cast<int>(value) / 9000 % 3)});
    }
    return rows;
  }
  static GrowthPlan completed(GrowthPlan plan) {
    plan.features = features;
    plan.classes = 3;
    return plan;
  }
  DecisionTree grown(const std::vector<std::vector<float>>& rows, const GrowthPlan& plan, std::uint32_t threads) {
    std::vector<float> cells;
    for (const auto& row : rows) {
      cells.insert(cells.end(), row.begin(), row.end());
    }
    const Backing backing = Backing::create("memory:" + std::to_string(cells.size() * 4), 0);
    write_fully(*backing.store(), cells.data(), cells.size() * 4, 0);
    WorkloadOptions options;
    options.system = System::memory;
    const auto system = MemorySystem::make(options);
    const auto mapped = system->map(backing, Access::read_write);
    ThreadTeam team(threads);
    ProgressDisplay progress("testing", 0);
    RowsOfClass classes(3);
    std::ranges::for_each(rows, [&](const auto& row) { ++classes[static_cast<std::size_t>(row[features])]; });
    const MappedRows mapped_rows{*mapped, (features + 1) * sizeof(float), true};
    return TreeGrowth(completed(plan), mapped_rows, team, progress).grow(classes, 1);
  }
  static std::uint64_t right_of(const DecisionTree& tree, const std::vector<std::vector<float>>& rows) {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        rows, [&](const auto& row) { return static_cast<float>(tree.classify(row.data())) == row[features]; }));
  }
};

TEST_F(TreeGrowthTest, SplitsAsTryingEverythingDoes) {
  const auto rows = made_rows(3000);
  PlainRows plain_rows;
  std::ranges::transform(rows, std::back_inserter(plain_rows), [](const auto& row) { return row.data(); });
  GrowthPlan plan;
  plan.features_tried = 2;
  plan.most_depth = 12;
  for (const std::uint64_t rows_at_once : {10000U, 500U, 10U}) {
    plan.rows_at_once = rows_at_once;
    for (const std::uint32_t threads : {1U, 4U}) {
      const DecisionTree tree = grown(rows, plan, threads);
      EXPECT_EQ(tree.splits, grow_plainly(plain_rows, completed(plan), 1).splits);
      EXPECT_LE(tree.depth(), plan.most_depth);
    }
  }
}

TEST_F(TreeGrowthTest, OfManyRowsTheThresholdsOfASampleDoNearlyAsWell) {
  const auto rows = made_rows(20000);
  GrowthPlan plan;
  plan.features_tried = features;
  plan.most_exact = 1000;
  const DecisionTree tree = grown(rows, plan, 2);
  EXPECT_GT(static_cast<double>(right_of(tree, rows)), 0.98 * static_cast<double>(rows.size()));
  plan.rows_at_once = 3000;
  for (const std::uint32_t threads : {1U, 3U, 8U}) {
    EXPECT_EQ(grown(rows, plan, threads).splits, tree.splits) << threads;
  }
}

TEST_F(TreeGrowthTest, ATreeOfTooManySplitsIsRefused) {
  GrowthPlan plan;
  plan.most_splits = 10;
  EXPECT_THROW(grown(made_rows(3000), plan, 2), StoreError);
}

TEST_F(TreeGrowthTest, WhatCannotBeToldApartIsALeaf) {
  std::vector<std::vector<float>> rows(50, {1, 1, 1, 0});
  for (std::size_t row = 0; row < 30; ++row) {
    rows[row][features] = 2;
  }
  const DecisionTree tree = grown(rows, GrowthPlan{}, 2);
  ASSERT_EQ(tree.splits.size(), 1U);
  EXPECT_EQ(tree.splits[0].low, 2U);
}

class ForestCheckTest : public testing::Test {
 protected:
  /// Two columns: a number, and whether it is 50 or more.
  ForestCheckTest() : table_(Backing::create("memory:" + std::to_string(rows * row_bytes), 0)) {
    std::vector<float> cells;
    for (std::uint64_t row = 0; row < rows; ++row) {
      cells.insert(cells.end(), {static_cast<float>(row), row < 50 ? 0.0F : 1.0F});
    }
    write_fully(*table_.store(), cells.data(), cells.size() * sizeof(float), 0);
  }
  std::string wrong_about(const std::vector<TreeSplit>& splits) {
    return find_wrong_leaf(*table_.store(), layout, {splits}, std::vector<std::uint16_t>(rows, 1), progress_);
  }
  std::string wrong_about(const Accuracy& accuracy, std::vector<std::uint32_t> said) {
    const Backing predictions = Backing::create("memory:" + std::to_string(rows * 4), 0);
    write_fully(*predictions.store(), said.data(), said.size() * 4, 0);
    const Forest forest{1, 2, {{right_}}};
    Ranks alone;
    return find_wrong_class({*table_.store(), predictions.store().get(), layout, {0, rows}}, forest, nullptr, accuracy,
                            progress_, alone);
  }

  static constexpr std::uint64_t rows = 100;
  static constexpr std::uint64_t row_bytes = 2 * sizeof(float);
  static constexpr PointLayout layout{rows, 2};
  static constexpr std::uint32_t leaf = TreeSplit::leaf;
  const std::vector<TreeSplit> right_ = {{0, 49.5F, 1, 2}, {leaf, 0, 0, 0}, {leaf, 0, 1, 0}};
  const Backing table_;
  ProgressDisplay progress_{"testing", 0};
};

TEST_F(ForestCheckTest, AWrongTreeIsSeen) {
  EXPECT_EQ(wrong_about(right_), "");
  EXPECT_EQ(wrong_about({{leaf, 0, 0, 0}}), "");  // As many of each: the lower one.
  EXPECT_NE(wrong_about({{leaf, 0, 1, 0}}), "");
  EXPECT_NE(wrong_about({{0, 49.5F, 1, 2}, {leaf, 0, 1, 0}, {leaf, 0, 1, 0}}), "");
  EXPECT_NE(wrong_about({{0, 100, 1, 2}, {leaf, 0, 0, 0}, {leaf, 0, 1, 0}}), "");
  GrowthPlan plan;
  plan.features = 1;
  plan.classes = 2;
  const std::vector<std::uint16_t> times(rows, 1);
  EXPECT_EQ(compare_with_plain_tree(*table_.store(), layout, times, {right_}, plan, 1), "");
  std::vector<TreeSplit> other = right_;
  other[0].threshold = 49.6F;
  EXPECT_NE(compare_with_plain_tree(*table_.store(), layout, times, {other}, plan, 1), "");
}

TEST_F(ForestCheckTest, AWrongClassIsSeen) {
  std::vector<std::uint32_t> said(rows);
  std::fill(said.begin() + 50, said.end(), 1U);
  EXPECT_EQ(wrong_about(Accuracy{100, 100}, said), "");
  EXPECT_NE(wrong_about(Accuracy{100, 99}, said), "");
  said[99] = 0;
  EXPECT_NE(wrong_about(Accuracy{100, 100}, said), "");
}

}  // namespace
}  // namespace tiermap::test
