// The reference that trees are checked against: all rows in memory, every threshold tried.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "points/point_memory.hpp"
#include "random-forest/decision_tree.hpp"
#include "random-forest/tree_growth.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// The rows of a node, each as its cells.
using PlainRows = std::vector<const float*>;

/// A tree as it is in a textbook: rows are copied to two sides, and classes are counted anew for each threshold that is
/// better than those before.
DecisionTree grow_plainly(const PlainRows& rows, const GrowthPlan& plan, std::uint64_t seed);

/// Grows a tree once more, from all rows of the store and how often each is in the sample. Returns in one line what
/// differs; empty if nothing does.
std::string compare_with_plain_tree(Store& table, const PointLayout& layout, std::span<const std::uint16_t> times,
                                    const DecisionTree& tree, const GrowthPlan& plan, std::uint64_t seed);

}  // namespace tiermap
