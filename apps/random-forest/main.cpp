// tiermap-random-forest: learns from a table that may be larger than memory which class a row is of, and says it of
// others.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "parallel/random.hpp"
#include "platform/memory_limits.hpp"
#include "points/point_memory.hpp"
#include "points/point_numbers.hpp"
#include "random-forest/accuracy.hpp"
#include "random-forest/bagging.hpp"
#include "random-forest/forest_check.hpp"
#include "random-forest/forest_file.hpp"
#include "random-forest/forest_options.hpp"
#include "random-forest/plain_tree.hpp"
#include "random-forest/planted_table.hpp"
#include "random-forest/tree_growth.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-random-forest";
constexpr std::uint64_t default_page_size = std::uint64_t{256} << 10U;
/// Sums of squares of rows fit in a word.
constexpr std::uint64_t most_rows = 4'000'000'000;
constexpr std::uint64_t most_compared_in_memory = 100'000;

/// What random numbers are for: each purpose has a seed of its own that follows from the user's.
enum class Drawing : std::uint8_t { held_out, bags, features };

class ForestRun {
 public:
  ForestRun(const WorkloadOptions& options, const ForestOptions& wishes, Ranks& ranks)
      : options_(options), wishes_(wishes), ranks_(ranks), team_(options.threads), progress_("preparing", 0) {}

  Report run() {
    check_options(options_, wishes_);
    if (wishes_.makes_table() && !ranks_.alone()) {
      throw OptionError(
          fmt::format("a table is made by one process, and there are {} ranks: make it first, by "
                      "`{} generate` alone, and name its file",
                      ranks_.count(), program_name));
    }
    ranks_.barrier();  // All have looked what is there before one makes anything.
    system_ = MemorySystem::make(options_);
    const std::string& url = wishes_.makes_table() ? options_.file : wishes_.table;
    if (!url.empty() && !wishes_.only_generates()) {
      system_->check_url(url);
    }
    if (wishes_.only_predicts()) {
      forest_ = load_forest(wishes_.forest);
    } else if (!wishes_.forest.empty() && ranks_.is_first()) {
      Backing::create(wishes_.forest, 0);  // Whether it can be made is known before the work is done.
    }
    Measurement made(*system_);
    const StopWatch preparing;
    prepare();
    if (wishes_.only_generates()) {
      made.pause();
      return generated(made);
    }
    report_.fields["prepare_seconds"] = preparing.seconds();
    const StopWatch loading;
    const std::unique_ptr<PointMemory> memory =
        PointMemory::make(*system_, options_, layout_, *table_, predictions_->mapped());
    report_.fields["load_seconds"] = loading.seconds();
    Measurement measured(*system_);
    work(*memory);
    measured.pause();
    if (options_.verify || wishes_.check_in_memory) {
      verify();
    }
    describe();
    report_.describe(options_, *system_, measured);
    keep_files();
    return std::move(report_);
  }

 private:
  Report generated(const Measurement& measured) {
    report_.workload = "random-forest-generate";
    report_.operations = layout_.points;
    report_.bytes = layout_.bytes();
    report_.fields["rows"] = layout_.points;
    report_.fields["file"] = table_->url();
    report_.describe(options_, *system_, measured);
    table_->keep();
    return std::move(report_);
  }

  void prepare() {
    if (wishes_.makes_table()) {
      const std::uint64_t bytes = generated_table_bytes(options_, wishes_);
      table_ = Backing::create(options_.file.empty() ? scratch_path(program_name, "table") : options_.file, bytes);
      find_layout();
      progress_.restart("generating", bytes);
      write_planted_table(*table_->store(), layout_, parse_planted_classes(wishes_), options_.seed, team_, progress_);
    } else {
      table_ = Backing::open(wishes_.table, false);
      find_layout();
    }
    table_->make_cold();
    // From here on it is only read.
    table_->reopen_read_only();
    if (!wishes_.only_generates()) {
      predictions_.emplace(ranks_, program_name, "predictions", wishes_.predictions, layout_.points);
    }
  }

  std::uint32_t features() const { return layout_.dimensions - 1; }

  void find_layout() {
    layout_ = layout_of_points(*table_->store(), parse_columns(wishes_), table_terms);
    if (features() == 0) {
      throw OptionError(
          fmt::format("{} has one column, and needs features and a class: say by --columns how many "
                      "there are",
                      table_->url()));
    }
    if (layout_.points > most_rows) {
      throw OptionError(fmt::format("{} has {} rows, and {} can be learnt from at once: name a part of them",
                                    table_->url(), layout_.points, most_rows));
    }
    if (forest_.features != 0 && forest_.features != features()) {
      throw OptionError(
          fmt::format("{} has {} features beside the class, and the forest {} was trained on {}: name a "
                      "table of as many",
                      table_->url(), features(), wishes_.forest, forest_.features));
    }
    const GrowthPlan plan = parse_growth(wishes_, features(), 2);
    if (plan.features_tried > features()) {
      throw OptionError(fmt::format("features tried {} are more than the {} that there are: choose fewer",
                                    plan.features_tried, features()));
    }
    if (wishes_.check_in_memory) {
      check_size_in_memory(plan);
    }
  }

  void check_size_in_memory(const GrowthPlan& plan) const {
    if (layout_.points > most_compared_in_memory) {
      throw OptionError(
          fmt::format("--check-in-memory grows every tree once more, and there are {} rows: leave it out, "
                      "or take {} of them at most",
                      layout_.points, most_compared_in_memory));
    }
    if (const std::uint64_t most = Bag::capacity(parse_bag(wishes_), layout_.points); most > plan.most_exact) {
      throw OptionError(
          fmt::format("--check-in-memory tries every threshold, and with --exact-rows {} the forest does "
                      "not: choose {} or more",
                      plan.most_exact, most));
    }
  }

  void work(PointMemory& memory) {
    const PointPass whole{memory, team_, progress_, alone_};
    progress_.restart("looking at the table", layout_.points);
    held_out_.emplace(whole, wishes_.only_predicts() ? 0 : parse_hold_out(wishes_), seed_of(Drawing::held_out));
    if (!wishes_.only_predicts()) {
      train(whole);
    }
    progress_.restart("classifying", layout_.points);
    const PointPass divided{memory, team_, progress_, ranks_};
    checked_ = classified_rows(divided);
    accuracy_ = measure_accuracy(divided, forest_, measured_by(),
                                 wishes_.predictions.empty() ? Assignments::left : Assignments::visited);
    if (!wishes_.predictions.empty()) {
      memory.save_assignments();
      predictions_->put(checked_);
    }
  }

  /// What accuracy is measured by; null: all rows.
  const HeldOutRows* measured_by() const {
    return wishes_.only_predicts() || parse_hold_out(wishes_) == 0 ? nullptr : &*held_out_;
  }

  std::uint64_t seed_of(Drawing drawing, std::uint64_t index = 0) const {
    return random_word(random_word(options_.seed, static_cast<std::uint64_t>(drawing)), index);
  }
  Bag bag_of(std::uint64_t tree) const { return {parse_bag(wishes_), *held_out_, seed_of(Drawing::bags, tree)}; }
  GrowthPlan growth_plan() const { return parse_growth(wishes_, features(), held_out_->classes()); }

  void train(const PointPass& pass) {
    if (std::ranges::count_if(held_out_->rows_of_class(), [](std::uint64_t rows) { return rows != 0; }) < 2) {
      throw StoreError(EINVAL, fmt::format("{} has rows of one class only, and nothing is to be learnt from them: name "
                                           "a table with several",
                                           table_->url()));
    }
    const std::uint64_t row_bytes = layout_.dimensions * sizeof(float);
    const Backing file = Backing::create(scratch_path(program_name, "bag"),
                                         Bag::capacity(parse_bag(wishes_), layout_.points) * row_bytes);
    const auto mapped = system_->map(file, Access::read_write);
    const MappedRows rows{*mapped, row_bytes, options_.prefetch};
    forest_.features = features();
    forest_.classes = held_out_->classes();
    GrowthPlan plan = growth_plan();
    plan.most_splits = most_splits();
    plan.rows_at_once = system_->budget_bytes() / 2 / row_bytes;
    const VectorRange own = ranks_.part_of(parse_trees(wishes_));
    for (std::uint64_t tree = own.first; tree < own.first + own.count; ++tree) {
      progress_.restart(fmt::format("sampling for tree {}", tree + 1), layout_.points);
      const std::vector<std::uint64_t> classes = bag_of(tree).fill(pass, rows);
      const std::uint64_t count = std::accumulate(classes.begin(), classes.end(), std::uint64_t{0});
      if (count == 0) {
        throw StoreError(EINVAL, fmt::format("of the {} rows of {} a tree got none to be trained on: choose a higher "
                                             "--sample, --hold-out 0, or another --seed",
                                             layout_.points, table_->url()));
      }
      progress_.restart(fmt::format("growing tree {}", tree + 1), count);
      TreeGrowth growth(plan, rows, team_, progress_);
      forest_.trees.push_back(growth.grow(classes, seed_of(Drawing::features, tree)));
      plan.most_splits -= std::min<std::uint64_t>(forest_.trees.back().splits.size(), plan.most_splits);
      rows_trained_on_ += count;
    }
    mapped->discard();
    gather_trees();
  }

  /// From all ranks, each of which has grown some.
  void gather_trees() {
    std::vector<std::uint64_t> sizes;
    std::vector<TreeSplit> splits;
    for (const DecisionTree& tree : std::exchange(forest_.trees, {})) {
      sizes.push_back(tree.splits.size());
      splits.insert(splits.end(), tree.splits.begin(), tree.splits.end());
    }
    splits = ranks_.gather_much(std::move(splits));
    auto next = splits.begin();
    for (const std::uint64_t size : ranks_.gather(std::move(sizes))) {
      const auto end = next + static_cast<std::ptrdiff_t>(size);
      forest_.trees.push_back({{next, end}});
      next = end;
    }
    const std::vector<std::uint64_t> rows = ranks_.gather_each(rows_trained_on_);
    rows_trained_on_ = std::accumulate(rows.begin(), rows.end(), std::uint64_t{0});
  }

  /// Of all trees: for which there is memory beside the budget, and which can be numbered.
  std::uint64_t most_splits() const {
    const std::uint64_t usable = read_machine_memory().usable_bytes() / 4 / sizeof(TreeSplit);
    return std::min(usable, GrowthPlan().most_splits);
  }

  void verify() {
    Store& predictions = predictions_->cold_store();
    const std::string wrong_tree = wishes_.only_predicts() ? "" : find_wrong_tree();
    progress_.restart("checking", layout_.points);
    const std::string wrong_class =
        find_wrong_class({*table_->store(), wishes_.predictions.empty() ? nullptr : &predictions, layout_, checked_},
                         forest_, measured_by(), accuracy_, progress_, ranks_);
    report_.failure = wrong_tree.empty() ? wrong_class : wrong_tree;
    report_.verified = report_.failure.empty();
  }

  /// Of those that this rank has grown.
  std::string find_wrong_tree() {
    Store& table = *table_->store();
    const VectorRange own = ranks_.part_of(forest_.trees.size());
    for (std::uint64_t tree = own.first; tree < own.first + own.count; ++tree) {
      progress_.restart(fmt::format("checking tree {}", tree + 1), layout_.points);
      const std::vector<std::uint16_t> times = bag_of(tree).times();
      std::string wrong = find_wrong_leaf(table, layout_, forest_.trees[tree], times, progress_);
      if (wrong.empty() && wishes_.check_in_memory) {
        wrong = compare_with_plain_tree(table, layout_, times, forest_.trees[tree], growth_plan(),
                                        seed_of(Drawing::features, tree));
      }
      if (!wrong.empty()) {
        return fmt::format("tree {}: {}", tree, wrong);
      }
    }
    return {};
  }

  void describe() {
    report_.workload = wishes_.only_predicts() ? "random-forest-predict" : "random-forest";
    report_.operations = wishes_.only_predicts() ? layout_.points : rows_trained_on_;
    report_.bytes = layout_.bytes();
    report_.fields["rows"] = layout_.points;
    report_.fields["features"] = features();
    report_.fields["classes"] = forest_.classes;
    report_.fields["trees"] = forest_.trees.size();
    report_.fields["splits"] = forest_.splits();
    std::uint32_t deepest = 0;
    for (const DecisionTree& tree : forest_.trees) {
      deepest = std::max(deepest, tree.depth());
    }
    report_.fields["depth"] = deepest;
    report_.fields["measured_rows"] = accuracy_.rows;
    report_.fields["accuracy"] = accuracy_.share();
    report_.remark = fmt::format("{} trees of {} splits in all, {} classes: right about {:.2f} % of {} rows{}",
                                 forest_.trees.size(), forest_.splits(), forest_.classes, 100 * accuracy_.share(),
                                 accuracy_.rows, measured_by() != nullptr ? " that were held out" : "");
  }

  void keep_files() {
    if (!wishes_.only_predicts() && !wishes_.forest.empty()) {
      if (ranks_.is_first()) {
        save_forest(forest_, wishes_.forest);
      }
      report_.fields["forest"] = wishes_.forest;
    }
    if (!wishes_.predictions.empty()) {
      report_.fields["predictions"] = predictions_->url();
      predictions_->keep();
    }
    if (options_.keep && wishes_.makes_table()) {
      report_.fields["file"] = table_->url();
      table_->keep();
    }
  }

  const WorkloadOptions options_;
  const ForestOptions& wishes_;
  Ranks& ranks_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  Ranks alone_;
  std::unique_ptr<MemorySystem> system_;
  std::optional<Backing> table_;
  std::optional<PointNumbers> predictions_;
  std::optional<HeldOutRows> held_out_;
  PointLayout layout_;
  Forest forest_;
  Accuracy accuracy_;
  VectorRange checked_;  ///< Rows that this rank has classified.
  std::uint64_t rows_trained_on_ = 0;
  Report report_;
};

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Learns from a table, out of core, which class a row is of, by a random forest.",
                           tiermap::default_page_size);
  tiermap::ForestOptions forest;
  tiermap::declare(program.app(), forest);
  return program.run_on_ranks(argc, argv, [&](const tiermap::WorkloadOptions& options, tiermap::Ranks& ranks) {
    return tiermap::ForestRun(options, forest, ranks).run();
  });
}
