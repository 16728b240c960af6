// How a tree is grown from rows that may be larger than memory: a node is a range of rows side by side, which its split
// puts on two sides in place. Where rows are few every threshold is tried; where they are many, those of a sample.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "points/row_partition.hpp"
#include "random-forest/decision_tree.hpp"

namespace tiermap {

struct GrowthPlan {
  std::uint32_t features = 0;
  std::uint32_t classes = 0;
  std::uint32_t most_depth = 10;
  std::uint32_t features_tried = 1;  ///< At each split; more only where none of these can be split by.
  std::uint64_t least_rows = 2;      ///< Of a node that is split.
  double least_gain = 0;             ///< A split by which Gini's impurity falls less is none.
  std::uint64_t most_exact = 8192;   ///< Rows of a node in which every threshold is tried.
  std::uint64_t rows_at_once = ~0U;  ///< Of a larger node the two below are grown one after the other: for memory.
  std::uint64_t most_splits = 1U << 31U;
};

/// How many rows each class has.
using RowsOfClass = std::vector<std::uint64_t>;

/// All features, in an order that is drawn for a node: those that come first are tried.
std::vector<std::uint32_t> features_in_order(std::uint32_t features, std::uint64_t seed, std::uint64_t path);

/// The number of a tree's root; those of the nodes below node n are 2 n and 2 n + 1.
inline constexpr std::uint64_t root_path = 1;
/// So they fit in a word.
inline constexpr std::uint32_t most_tree_depth = 60;

/// Rows are floats: the features, then the class. Of one tree; the same for the same rows in the same order, whatever
/// the number of threads.
class TreeGrowth {
 public:
  TreeGrowth(const GrowthPlan& plan, const MappedRows& rows, ThreadTeam& team, ProgressDisplay& progress)
      : plan_(plan), rows_(rows), team_(team), progress_(progress) {}

  /// Of the first rows, so many of each class, which it moves about. Throws StoreError for a tree of too many splits.
  DecisionTree grow(const RowsOfClass& classes, std::uint64_t seed);

 private:
  /// A node that is not split yet.
  struct Node {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint32_t depth = 0;
    std::uint64_t path = root_path;
    RowsOfClass classes;
  };
  struct Best {
    std::uint32_t feature = TreeSplit::leaf;
    float threshold = 0;
    double score = -1;
  };
  struct Halves {
    Node low;
    Node high;
  };
  /// A node near the root, which waits for the others of its level.
  struct UpperNode;
  /// By one thread, which is one of several that are at work on other nodes, or by all of them.
  enum class By : std::uint8_t { one, all };

  /// Its split, and what is below; nothing of a leaf.
  std::pair<TreeSplit, std::optional<Halves>> split(const Node& node, std::uint64_t seed, By by);
  Best best_split(const Node& node, std::uint64_t seed, By by);
  void try_all(const Node& node, std::uint32_t feature, Best& best) const;
  void try_sampled(const Node& node, std::span<const std::uint32_t> features, std::uint64_t seed, By by, Best& best);
  std::uint64_t most_thresholds_of(std::size_t features) const noexcept;
  std::vector<std::vector<float>> sampled_thresholds(const Node& node, std::span<const std::uint32_t> features,
                                                     std::uint64_t seed) const;
  void grow_upper(UpperNode& root, std::uint64_t seed);
  void grow_below(const Node& node, DecisionTree& tree, std::uint64_t seed);
  static void append(const UpperNode& node, DecisionTree& tree);

  const GrowthPlan plan_;
  const MappedRows rows_;
  ThreadTeam& team_;
  ProgressDisplay& progress_;
  std::atomic<std::uint64_t> splits_{0};
};

}  // namespace tiermap
