#include "random-forest/decision_tree.hpp"

#include <algorithm>

namespace tiermap {

std::uint32_t DecisionTree::depth() const {
  std::vector<std::uint32_t> depths(splits.size());
  std::uint32_t deepest = 0;
  for (std::size_t at = 0; at < splits.size(); ++at) {
    deepest = std::max(deepest, depths[at]);
    if (splits[at].feature != TreeSplit::leaf) {
      depths[splits[at].low] = depths[splits[at].high] = depths[at] + 1;
    }
  }
  return deepest;
}

std::uint32_t Forest::classify(const float* row, std::vector<std::uint32_t>& votes) const {
  votes.assign(classes, 0);
  for (const DecisionTree& tree : trees) {
    ++votes[tree.classify(row)];
  }
  return static_cast<std::uint32_t>(std::ranges::max_element(votes) - votes.begin());
}

std::uint64_t Forest::splits() const {
  std::uint64_t sum = 0;
  for (const DecisionTree& tree : trees) {
    sum += tree.splits.size();
  }
  return sum;
}

}  // namespace tiermap
