// A forest of decision trees, as it classifies: in memory, a few bytes for each split.
#pragma once

#include <cstdint>
#include <vector>

namespace tiermap {

/// Rows whose feature is no higher than the threshold go on at `low`, the others at `high`; both come later in the
/// tree.
struct TreeSplit {
  static constexpr std::uint32_t leaf = 0xffffffffU;

  std::uint32_t feature = leaf;  ///< `leaf`: all rows that come here are of the class `low`.
  float threshold = 0;
  std::uint32_t low = 0;
  std::uint32_t high = 0;

  bool operator==(const TreeSplit&) const = default;
};

/// The first split is the root.
struct DecisionTree {
  std::vector<TreeSplit> splits;

  std::uint32_t classify(const float* features) const noexcept {
    std::uint32_t at = 0;
    while (splits[at].feature != TreeSplit::leaf) {
      at = features[splits[at].feature] <= splits[at].threshold ? splits[at].low : splits[at].high;
    }
    return splits[at].low;
  }
  std::uint32_t depth() const;
};

struct Forest {
  std::uint32_t features = 0;
  std::uint32_t classes = 0;
  std::vector<DecisionTree> trees;

  /// The class that most trees vote for, the lowest of those with as many. `votes` is for its use alone.
  std::uint32_t classify(const float* row, std::vector<std::uint32_t>& votes) const;
  std::uint64_t splits() const;
};

}  // namespace tiermap
