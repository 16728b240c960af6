#include "random-forest/forest_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "command_line/backing.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t default_table_bytes = std::uint64_t{256} << 20U;

void refuse_existing(const std::string& url, const char* option) {
  if (!url.empty() && backing_exists(url)) {
    throw OptionError(fmt::format("{} exists: name a new file by {}, or remove it", url, option));
  }
}

/// A file that is to be made; one of that name would be found only when all work is done.
void check_new_file(const std::string& url, const char* option) {
  if (!url.empty() && !names_one_file(url)) {
    throw OptionError(fmt::format("{} is not one plain file: name one by {}", url, option));
  }
  refuse_existing(url, option);
}

void check_words(const WorkloadOptions& options, const ForestOptions& forest) {
  if (forest.only_generates() && forest.only_predicts()) {
    throw OptionError("generate makes a table, and predict needs one: leave one of the two out");
  }
  if (forest.only_generates() && options.file.empty()) {
    throw OptionError("generate makes a table: name its file by --file");
  }
  if (forest.only_generates() && !(forest.table.empty() && forest.forest.empty() && forest.predictions.empty())) {
    throw OptionError("generate makes a table and no forest: leave the table, --forest and --predictions out");
  }
  if (forest.only_predicts() && (forest.table.empty() || forest.forest.empty())) {
    throw OptionError("predict needs a table and a forest: name both, the forest by --forest");
  }
  if (forest.only_predicts() && forest.check_in_memory) {
    throw OptionError("predict grows no trees, and --check-in-memory is of trees: leave it out");
  }
  const std::string* const made[] = {&forest.forest, &forest.predictions, &options.file};
  for (const std::string* one : made) {
    if (!one->empty() && std::ranges::count(made, *one, [](const std::string* url) { return *url; }) > 1) {
      throw OptionError(fmt::format("{} is to be two files: name another one for one of them", *one));
    }
  }
}

}  // namespace

bool ForestOptions::only_generates() const {
  return generate->parsed();
}
bool ForestOptions::only_predicts() const {
  return predict->parsed();
}

void declare(CLI::App& app, ForestOptions& forest) {
  app.add_option("table", forest.table,
                 "URL or path of the table: floats, row by row, the class in the last column (default: generate)");
  app.add_option("--columns", forest.columns,
                 "Columns of the table, the class among them (default: what the file's format says, else 7)");
  app.add_option("--trees", forest.trees, "Trees of the forest (default: 10)");
  app.add_option("--depth", forest.depth, "Splits from the root to a leaf at most (default: 10)");
  app.add_option("--features-tried", forest.features_tried,
                 "Features tried at a split, drawn anew for each (default: the root of their number)");
  app.add_option("--least-rows", forest.least_rows, "Rows of a node that is split, at least (default: 2)");
  app.add_option("--least-gain", forest.least_gain,
                 "By how much a split has to make Gini's impurity smaller, at least (default: 0)");
  app.add_option("--exact-rows", forest.exact_rows,
                 "Rows of a node in which every threshold is tried; of more, those of a sample (default: 8192)");
  app.add_option("--bagging", forest.bagging,
                 "Which rows a tree gets: counted (with replacement, in one pass), drawn (with replacement, one by "
                 "one) or once (without replacement) (default: counted)");
  app.add_option("--sample", forest.sample,
                 "How many rows a tree gets, as a share of those that are trained on (default: 1)");
  app.add_option("--hold-out", forest.hold_out,
                 "One row of so many of each class is not trained on but measured by; 0: none (default: 5)");
  app.add_option("--classes", forest.classes, "Classes to plant in a generated table (default: 8)");
  app.add_option("--forest", forest.forest, "File of the forest: to be made, or with predict to be read");
  app.add_option("--predictions", forest.predictions,
                 "File to be made: the class that the forest says of each row, in four bytes");
  app.add_flag("--check-in-memory", forest.check_in_memory,
               "Compare each tree with one that is grown plainly, of 100000 rows at most");
  forest.generate = app.add_subcommand("generate", "Makes a table with planted classes, at --file");
  forest.predict = app.add_subcommand("predict", "Says the class of each row of the table by a forest that is there");
  forest.generate->fallthrough();
  show_options_of_program(*forest.generate,
                          {"--file", "--bytes", "--columns", "--classes", "--threads", "--seed", "--json"});
  forest.predict->fallthrough();
  show_options_of_program(*forest.predict, {"table", "--forest", "--predictions", "--columns", "--system", "--madvise",
                                            "--budget", "--page-size", "--threads", "--policy", "--fault-mode",
                                            "--read-ahead", "--prefetch", "--verify", "--json"});
}

void check_options(const WorkloadOptions& options, const ForestOptions& forest) {
  parse_columns(forest);
  parse_growth(forest, 1, 2);
  parse_bag(forest);
  parse_trees(forest);
  parse_hold_out(forest);
  parse_planted_classes(forest);
  check_words(options, forest);
  if (!forest.only_predicts()) {
    check_new_file(forest.forest, "--forest");
  }
  check_new_file(forest.predictions, "--predictions");
  refuse_existing(options.file, "--file");
  if (forest.makes_table()) {
    generated_table_bytes(options, forest);
  } else if (!options.file.empty() || options.bytes.has_value()) {
    throw OptionError(fmt::format(
        "{} is there to be read, and --file and --bytes are for a table to be made: leave one of the two out",
        forest.table));
  }
}

std::optional<std::uint32_t> parse_columns(const ForestOptions& forest) {
  if (forest.columns.empty()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(parse_whole_number(forest.columns, "columns", 2, most_dimensions));
}

GrowthPlan parse_growth(const ForestOptions& forest, std::uint32_t features, std::uint32_t classes) {
  GrowthPlan plan;
  plan.features = features;
  plan.classes = classes;
  plan.most_depth = static_cast<std::uint32_t>(parse_whole_number(forest.depth, "depth", 1, most_tree_depth));
  plan.features_tried = static_cast<std::uint32_t>(std::lround(std::sqrt(features)));
  if (!forest.features_tried.empty()) {
    plan.features_tried =
        static_cast<std::uint32_t>(parse_whole_number(forest.features_tried, "features tried", 1, most_dimensions));
  }
  plan.least_rows = parse_whole_number(forest.least_rows, "least rows", 2, std::uint64_t{1} << 40U);
  plan.least_gain = parse_real_number(forest.least_gain, "least gain", 0, 1);
  plan.most_exact = parse_whole_number(forest.exact_rows, "exact rows", 1, std::uint64_t{1} << 32U);
  return plan;
}

BagPlan parse_bag(const ForestOptions& forest) {
  BagPlan plan;
  plan.share = parse_real_number(forest.sample, "sample", 1e-9, 1);
  if (forest.bagging == "drawn") {
    plan.bagging = Bagging::drawn;
  } else if (forest.bagging == "once") {
    plan.bagging = Bagging::once;
  } else if (forest.bagging != "counted") {
    throw OptionError(fmt::format("bagging {} is unknown: choose counted, drawn or once", forest.bagging));
  }
  return plan;
}

std::uint32_t parse_trees(const ForestOptions& forest) {
  return static_cast<std::uint32_t>(parse_whole_number(forest.trees, "trees", 1, 100'000));
}

std::uint32_t parse_hold_out(const ForestOptions& forest) {
  const auto one_of = static_cast<std::uint32_t>(parse_whole_number(forest.hold_out, "hold-out", 0, 1'000'000));
  if (one_of == 1) {
    throw OptionError("hold-out 1 leaves nothing to train on: choose 2 or more, or 0 for none");
  }
  return one_of;
}

std::uint32_t parse_planted_classes(const ForestOptions& forest) {
  return static_cast<std::uint32_t>(parse_whole_number(forest.classes, "classes", 2, most_classes));
}

std::uint64_t generated_table_bytes(const WorkloadOptions& options, const ForestOptions& forest) {
  const std::uint64_t row_bytes = parse_columns(forest).value_or(default_columns) * sizeof(float);
  const std::uint64_t bytes = options.bytes.value_or(default_table_bytes);
  if (bytes / row_bytes < parse_planted_classes(forest)) {
    throw OptionError(fmt::format("{} are {} rows of {} bytes, fewer than {} classes: choose more --bytes",
                                  format_size(bytes), bytes / row_bytes, row_bytes, parse_planted_classes(forest)));
  }
  return bytes / row_bytes * row_bytes;
}

}  // namespace tiermap
