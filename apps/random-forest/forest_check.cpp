#include "random-forest/forest_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "points/stored_rows.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t predictions_at_once = 4096;

std::uint32_t leaf_of(const DecisionTree& tree, const float* row) {
  std::uint32_t at = 0;
  while (tree.splits[at].feature != TreeSplit::leaf) {
    const TreeSplit& split = tree.splits[at];
    at = row[split.feature] > split.threshold ? split.high : split.low;
  }
  return at;
}

std::uint32_t first_of_most(std::span<const std::uint64_t> counts) {
  std::uint32_t most = 0;
  for (std::uint32_t which = 1; which < counts.size(); ++which) {
    most = counts[which] > counts[most] ? which : most;
  }
  return most;
}

std::uint32_t plain_class(const Forest& forest, const float* row) {
  std::vector<std::uint64_t> votes(forest.classes);
  for (const DecisionTree& tree : forest.trees) {
    ++votes[tree.splits[leaf_of(tree, row)].low];
  }
  return first_of_most(votes);
}

}  // namespace

std::string find_wrong_class(const ClassifiedRows& classified, const Forest& forest, const HeldOutRows* held_out,
                             const Accuracy& expected, ProgressDisplay& progress, Ranks& ranks) {
  AlignedBuffer said(predictions_at_once * sizeof(std::uint32_t));
  Accuracy found;
  Store* const predictions = classified.predictions;
  const VectorRange& rows = classified.rows;
  std::string wrong;
  const auto check_row = [&](std::uint64_t row, const float* cells) {
    const std::uint64_t index = (row - rows.first) % predictions_at_once;
    if (predictions != nullptr && index == 0) {
      read_fully(*predictions, said.data(),
                 std::min(predictions_at_once, rows.first + rows.count - row) * sizeof(std::uint32_t),
                 row * sizeof(std::uint32_t));
    }
    const std::uint32_t which = plain_class(forest, cells);
    if (predictions != nullptr && said.as_span<std::uint32_t>()[index] != which) {
      wrong = fmt::format("row {} was said to be of class {}, and the forest says {}", row,
                          said.as_span<std::uint32_t>()[index], which);
    }
    const bool counts = held_out == nullptr || held_out->is_held_out(row);
    found.rows += counts ? 1U : 0U;
    found.right += counts && static_cast<float>(which) == cells[forest.features] ? 1U : 0U;
    progress.add(1);
    return wrong.empty();
  };
  for_each_stored_row(classified.table, classified.layout, rows, check_row);
  std::vector<std::uint64_t> counts = {found.rows, found.right};
  ranks.add_up(counts);
  found = {counts[0], counts[1]};
  if (wrong.empty() && found != expected) {
    wrong = fmt::format("{} of {} rows are classified rightly, and {} of {} were counted", found.right, found.rows,
                        expected.right, expected.rows);
  }
  return wrong;
}

std::string find_wrong_leaf(Store& table, const PointLayout& layout, const DecisionTree& tree,
                            std::span<const std::uint16_t> times, ProgressDisplay& progress) {
  std::vector<std::vector<std::uint64_t>> classes(tree.splits.size());
  for_each_stored_row(table, layout, {0, layout.points}, [&](std::uint64_t row, const float* cells) {
    if (times[row] != 0) {
      std::vector<std::uint64_t>& here = classes[leaf_of(tree, cells)];
      const auto which = static_cast<std::size_t>(cells[layout.dimensions - 1]);
      here.resize(std::max(here.size(), which + 1));
      here[which] += times[row];
    }
    progress.add(1);
    return true;
  });
  for (std::size_t at = 0; at < tree.splits.size(); ++at) {
    if (tree.splits[at].feature != TreeSplit::leaf) {
      continue;
    }
    if (classes[at].empty()) {
      return fmt::format("no row that the tree was trained on comes to the leaf at {}", at);
    }
    if (const std::uint32_t most = first_of_most(classes[at]); most != tree.splits[at].low) {
      return fmt::format("most of the rows that come to the leaf at {} are of class {}, and it says {}", at, most,
                         tree.splits[at].low);
    }
  }
  return {};
}

}  // namespace tiermap
