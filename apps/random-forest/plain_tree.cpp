#include "random-forest/plain_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "command_line/backing.hpp"

namespace tiermap {
namespace {

class PlainTree {
 public:
  PlainTree(const GrowthPlan& plan, std::uint64_t seed) : plan_(plan), seed_(seed) {}

  DecisionTree grow(const PlainRows& rows) {
    add(rows, 0, root_path);
    return std::move(tree_);
  }

 private:
  using Counts = std::vector<std::uint64_t>;
  struct Found {
    double score = -1;
    TreeSplit split;
  };

  std::size_t class_of(const float* row) const { return static_cast<std::size_t>(row[plan_.features]); }
  Counts counts_of(const PlainRows& rows) const {
    Counts counts(plan_.classes);
    for (const float* row : rows) {
      ++counts[class_of(row)];
    }
    return counts;
  }
  /// Rows times the sum of the squares of the classes' shares.
  static double purity(const Counts& counts, std::uint64_t rows) {
    std::uint64_t squares = 0;
    for (const std::uint64_t count : counts) {
      squares += count * count;
    }
    return static_cast<double>(squares) / static_cast<double>(rows);
  }

  void try_thresholds(PlainRows rows, std::uint32_t feature, Found& found) const {
    std::ranges::sort(rows, {}, [&](const float* row) { return row[feature]; });
    Counts low(plan_.classes);
    Counts high = counts_of(rows);
    for (std::size_t index = 1; index < rows.size(); ++index) {
      ++low[class_of(rows[index - 1])];
      --high[class_of(rows[index - 1])];
      const float below = rows[index - 1][feature];
      const float above = rows[index][feature];
      if (below == above) {
        continue;
      }
      if (const double score = purity(low, index) + purity(high, rows.size() - index); score > found.score) {
        found = {score, {feature, below / 2 + above / 2, 0, 0}};
        if (found.split.threshold >= above || found.split.threshold < below) {
          found.split.threshold = below;  // They are neighbours among floats.
        }
      }
    }
  }

  void add(const PlainRows& rows, std::uint32_t depth, std::uint64_t path) {
    const Counts counts = counts_of(rows);
    const auto most = static_cast<std::uint32_t>(std::ranges::max_element(counts) - counts.begin());
    Found found;
    if (depth < plan_.most_depth && rows.size() >= plan_.least_rows && counts[most] < rows.size()) {
      std::uint32_t tried = 0;
      for (const std::uint32_t feature : features_in_order(plan_.features, seed_, path)) {
        if (tried++ < plan_.features_tried || found.score < 0) {
          try_thresholds(rows, feature, found);
        }
      }
    }
    const double gain = (found.score - purity(counts, rows.size())) / static_cast<double>(rows.size());
    const std::size_t here = tree_.splits.size();
    if (found.score < 0 || (plan_.least_gain > 0 && gain < plan_.least_gain)) {
      tree_.splits.push_back({TreeSplit::leaf, 0, most, 0});
      return;
    }
    tree_.splits.push_back(found.split);
    const auto go = [&](bool high) {
      PlainRows side;
      std::ranges::copy_if(rows, std::back_inserter(side), [&](const float* row) {
        return (row[found.split.feature] > found.split.threshold) == high;
      });
      const auto below = static_cast<std::uint32_t>(tree_.splits.size());
      (high ? tree_.splits[here].high : tree_.splits[here].low) = below;
      add(side, depth + 1, 2 * path + (high ? 1 : 0));
    };
    go(false);
    go(true);
  }

  const GrowthPlan plan_;
  const std::uint64_t seed_;
  DecisionTree tree_;
};

}  // namespace

DecisionTree grow_plainly(const PlainRows& rows, const GrowthPlan& plan, std::uint64_t seed) {
  return PlainTree(plan, seed).grow(rows);
}

std::string compare_with_plain_tree(Store& table, const PointLayout& layout, std::span<const std::uint16_t> times,
                                    const DecisionTree& tree, const GrowthPlan& plan, std::uint64_t seed) {
  std::vector<float> cells(layout.points * layout.dimensions);
  read_fully(table, cells.data(), layout.bytes(), 0);
  PlainRows rows;
  for (std::uint64_t row = 0; row < layout.points; ++row) {
    rows.insert(rows.end(), times[row], cells.data() + row * layout.dimensions);
  }
  const DecisionTree plain = grow_plainly(rows, plan, seed);
  const auto [one, other] = std::ranges::mismatch(tree.splits, plain.splits);
  if (one == tree.splits.end() && other == plain.splits.end()) {
    return {};
  }
  return fmt::format("the tree is another one than in memory, from split {} on", one - tree.splits.begin());
}

}  // namespace tiermap
