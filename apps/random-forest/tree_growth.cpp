#include "random-forest/tree_growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <numeric>

#include "parallel/random.hpp"
#include "random-forest/gini.hpp"
#include "tiermap/error.hpp"
#include "tiermap/vector_storage.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t nodes_a_thread = 8;
constexpr std::uint64_t most_sampled_rows = 8192;
constexpr std::uint32_t least_thresholds = 15;
constexpr std::uint32_t most_thresholds = 255;
/// Counts of one class in one interval, for all features that are tried in one pass.
constexpr std::uint64_t most_counts = std::uint64_t{1} << 20U;

/// How many of the limits are lower than the value. There are most_thresholds of them, infinite where there are fewer:
/// so it takes the same eight steps each time, and no branch that nobody can foretell.
std::uint32_t interval_of(const std::vector<float>& limits, float value) noexcept {
  std::uint32_t below = 0;
  for (std::uint32_t step = (most_thresholds + 1) / 2; step > 0; step /= 2) {
    below += limits[below + step - 1] < value ? step : 0;
  }
  return below;
}

/// Different values that are so far apart in the sorted sample; none is the highest, which leaves nothing above it.
std::vector<float> quantiles_of(std::vector<float>& sample, std::uint64_t wanted) {
  std::ranges::sort(sample);
  std::vector<float> thresholds;
  for (std::uint64_t which = 1; which <= wanted; ++which) {
    const float value = sample[sample.size() * which / (wanted + 1)];
    if (value < sample.back() && (thresholds.empty() || value > thresholds.back())) {
      thresholds.push_back(value);
    }
  }
  return thresholds;
}

const float* cells_of(const std::byte* row) noexcept {
  return reinterpret_cast<const float*>(row);
}

std::uint32_t class_in(const float* cells, std::uint32_t features) noexcept {
  return static_cast<std::uint32_t>(cells[features]);
}

}  // namespace

// Fisher and Yates.
std::vector<std::uint32_t> features_in_order(std::uint32_t features, std::uint64_t seed, std::uint64_t path) {
  std::vector<std::uint32_t> order(features);
  std::iota(order.begin(), order.end(), 0U);
  const std::uint64_t drawing = random_word(seed, path);
  for (std::uint32_t index = 0; index + 1 < features; ++index) {
    std::swap(order[index], order[index + random_word(drawing, index) % (features - index)]);
  }
  return order;
}

struct TreeGrowth::UpperNode {
  Node node;
  TreeSplit split;
  std::unique_ptr<UpperNode> low;
  std::unique_ptr<UpperNode> high;
  DecisionTree below;  ///< What grew here, if there are no two below.
};

DecisionTree TreeGrowth::grow(const RowsOfClass& classes, std::uint64_t seed) {
  UpperNode root;
  root.node.count = std::accumulate(classes.begin(), classes.end(), std::uint64_t{0});
  root.node.classes = classes;
  splits_ = 1;
  grow_upper(root, seed);
  DecisionTree tree;
  append(root, tree);
  return tree;
}

// The first levels by all threads, node by node; what is below each of these nodes by one. What is larger than memory
// is not gone through level by level, but half after half: so each half is fetched once, and grown to its end.
void TreeGrowth::grow_upper(UpperNode& root, std::uint64_t seed) {
  std::vector<UpperNode*> level{&root};
  while (!level.empty() && level.size() < nodes_a_thread * team_.size()) {
    const auto split_one = [&](UpperNode& upper, By by) {
      auto [split_here, halves] = split(upper.node, seed, by);
      upper.split = split_here;
      if (halves) {
        upper.low = std::make_unique<UpperNode>(std::move(halves->low));
        upper.high = std::make_unique<UpperNode>(std::move(halves->high));
      } else {
        upper.below.splits = {split_here};
      }
    };
    if (level.size() < team_.size()) {
      std::ranges::for_each(level, [&](UpperNode* upper) { split_one(*upper, By::all); });
    } else {
      team_.for_each(level.size(), [&](std::uint64_t index) { split_one(*level[index], By::one); });
    }
    std::vector<UpperNode*> next;
    for (const UpperNode* upper : level) {
      if (upper->low != nullptr) {
        next.insert(next.end(), {upper->low.get(), upper->high.get()});
      }
    }
    level = std::move(next);
    if (root.node.count > plan_.rows_at_once) {
      std::ranges::for_each(level, [&](UpperNode* upper) { grow_upper(*upper, seed); });
      return;
    }
  }
  team_.for_each(level.size(), [&](std::uint64_t index) { grow_below(level[index]->node, level[index]->below, seed); });
}

// In the order of grow_below().
void TreeGrowth::append(const UpperNode& upper, DecisionTree& tree) {
  const auto here = static_cast<std::uint32_t>(tree.splits.size());
  if (upper.low != nullptr) {
    tree.splits.push_back(upper.split);
    tree.splits[here].low = static_cast<std::uint32_t>(tree.splits.size());
    append(*upper.low, tree);
    tree.splits[here].high = static_cast<std::uint32_t>(tree.splits.size());
    append(*upper.high, tree);
    return;
  }
  for (TreeSplit split : upper.below.splits) {
    if (split.feature != TreeSplit::leaf) {
      split.low += here;
      split.high += here;
    }
    tree.splits.push_back(split);
  }
}

// Behind each split what is low of it, then what is high.
void TreeGrowth::grow_below(const Node& node, DecisionTree& tree, std::uint64_t seed) {
  const auto here = tree.splits.size();
  const auto [split_here, halves] = split(node, seed, By::one);
  tree.splits.push_back(split_here);
  if (halves) {
    tree.splits[here].low = static_cast<std::uint32_t>(tree.splits.size());
    grow_below(halves->low, tree, seed);
    tree.splits[here].high = static_cast<std::uint32_t>(tree.splits.size());
    grow_below(halves->high, tree, seed);
  }
}

std::pair<TreeSplit, std::optional<TreeGrowth::Halves>> TreeGrowth::split(const Node& node, std::uint64_t seed, By by) {
  const auto most = std::ranges::max_element(node.classes);
  Best best;
  if (*most != node.count && node.depth < plan_.most_depth && node.count >= plan_.least_rows) {
    best = best_split(node, seed, by);
  }
  if (best.feature == TreeSplit::leaf ||
      (plan_.least_gain > 0 && gini_gain(node.classes, node.count, best.score) < plan_.least_gain)) {
    progress_.add(node.count);
    return {{TreeSplit::leaf, 0, static_cast<std::uint32_t>(most - node.classes.begin()), 0}, std::nullopt};
  }
  if (splits_.fetch_add(2) + 2 > plan_.most_splits) {
    throw StoreError(ENOMEM, fmt::format("a tree has more than {} splits, for which there is no memory: choose less "
                                         "--depth, more --least-rows or fewer --trees",
                                         plan_.most_splits));
  }
  Halves halves{{node.first, 0, node.depth + 1, 2 * node.path, RowsOfClass(plan_.classes)},
                {0, 0, node.depth + 1, 2 * node.path + 1, node.classes}};
  halves.low.count = partition_rows(
      rows_, node.first, node.count,
      [&](const std::byte* row) { return cells_of(row)[best.feature] <= best.threshold; },
      [&](const std::byte* row) { ++halves.low.classes[class_in(cells_of(row), plan_.features)]; },
      [](const std::byte*) {});
  halves.high.first = node.first + halves.low.count;
  halves.high.count = node.count - halves.low.count;
  for (std::uint32_t which = 0; which < plan_.classes; ++which) {
    halves.high.classes[which] -= halves.low.classes[which];
  }
  return {{best.feature, best.threshold, 0, 0}, std::move(halves)};
}

TreeGrowth::Best TreeGrowth::best_split(const Node& node, std::uint64_t seed, By by) {
  const std::vector<std::uint32_t> features = features_in_order(plan_.features, seed, node.path);
  const bool exactly = node.count <= plan_.most_exact;
  const std::size_t at_once =
      exactly ? 1 : std::max<std::uint64_t>(most_counts / plan_.classes / (least_thresholds + 1), 1);
  Best best;
  for (std::size_t tried = 0;
       tried < features.size() && (tried < plan_.features_tried || best.feature == TreeSplit::leaf);) {
    const std::size_t wanted = tried < plan_.features_tried ? plan_.features_tried - tried : 1;
    const std::size_t count = std::min({wanted, at_once, features.size() - tried});
    if (exactly) {
      try_all(node, features[tried], best);
    } else {
      try_sampled(node, std::span(features).subspan(tried, count), random_word(seed, ~node.path), by, best);
    }
    tried += count;
  }
  return best;
}

void TreeGrowth::try_all(const Node& node, std::uint32_t feature, Best& best) const {
  std::vector<std::pair<float, std::uint32_t>> values;
  values.reserve(node.count);
  for_each_row(rows_, node.first, node.count, [&](const std::byte* row) {
    values.emplace_back(cells_of(row)[feature], class_in(cells_of(row), plan_.features));
  });
  std::ranges::sort(values);
  TwoSides sides(node.classes);
  for (std::size_t index = 0; index + 1 < values.size(); ++index) {
    sides.to_low(values[index].second, 1);
    if (values[index].first < values[index + 1].first && sides.score() > best.score) {
      best = {feature, between_values(values[index].first, values[index + 1].first), sides.score()};
    }
  }
}

std::uint64_t TreeGrowth::most_thresholds_of(std::size_t features) const noexcept {
  return std::clamp<std::uint64_t>(most_counts / features / plan_.classes, least_thresholds + 1, most_thresholds + 1) -
         1;
}

std::vector<std::vector<float>> TreeGrowth::sampled_thresholds(const Node& node,
                                                               std::span<const std::uint32_t> features,
                                                               std::uint64_t seed) const {
  std::vector<std::vector<float>> values(features.size());
  const std::uint64_t sampled = std::min(node.count, most_sampled_rows);
  for (std::uint64_t sample = 0; sample < sampled; ++sample) {
    // Evenly spread, a random one of each piece: pages come in order.
    const std::uint64_t begin = node.count * sample / sampled;
    const std::uint64_t end = node.count * (sample + 1) / sampled;
    const float* const cells = cells_of(rows_.at(node.first + begin + random_word(seed, sample) % (end - begin)));
    for (std::size_t which = 0; which < features.size(); ++which) {
      values[which].push_back(cells[features[which]]);
    }
  }
  const std::uint64_t wanted = most_thresholds_of(features.size());
  for (std::vector<float>& sample : values) {
    sample = quantiles_of(sample, wanted);
  }
  return values;
}

// One pass counts the rows of each class between two thresholds, of all features that are tried.
void TreeGrowth::try_sampled(const Node& node, std::span<const std::uint32_t> features, std::uint64_t seed, By by,
                             Best& best) {
  const std::vector<std::vector<float>> thresholds = sampled_thresholds(node, features, seed);
  std::vector<std::vector<float>> limits = thresholds;
  for (std::vector<float>& limit : limits) {
    limit.resize(most_thresholds, std::numeric_limits<float>::infinity());
  }
  const std::uint64_t parts = by == By::all ? team_.size() : 1;
  const std::size_t intervals = most_thresholds_of(features.size()) + 1;
  std::vector<RowsOfClass> counts(parts);  // Of a feature, of an interval, of a class.
  const auto count = [&](std::uint64_t part) {
    RowsOfClass& here = counts[part];
    here.resize(features.size() * intervals * plan_.classes);
    const VectorRange range = partition(node.count, part, parts);
    for_each_row(rows_, node.first + range.first, range.count, [&](const std::byte* row) {
      const float* const cells = cells_of(row);
      for (std::size_t which = 0; which < features.size(); ++which) {
        const std::size_t interval = which * intervals + interval_of(limits[which], cells[features[which]]);
        ++here[interval * plan_.classes + class_in(cells, plan_.features)];
      }
    });
  };
  if (by == By::all) {
    team_.for_each(parts, count);
  } else {
    count(0);
  }
  for (std::size_t which = 0; which < features.size(); ++which) {
    TwoSides sides(node.classes);
    for (std::size_t interval = 0; interval < thresholds[which].size(); ++interval) {
      for (std::uint32_t one = 0; one < plan_.classes; ++one) {
        for (const RowsOfClass& here : counts) {
          sides.to_low(one, here[(which * intervals + interval) * plan_.classes + one]);
        }
      }
      if (sides.splits() && sides.score() > best.score) {
        best = {features[which], thresholds[which][interval], sides.score()};
      }
    }
  }
}

}  // namespace tiermap
