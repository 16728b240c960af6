// Whether a forest is right, and what it is said to have said: by plain reads of the stores, row after row, past the
// mapping that made it. Both return in one line what is wrong; empty if nothing is.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "observe/progress.hpp"
#include "points/point_memory.hpp"
#include "random-forest/accuracy.hpp"
#include "random-forest/decision_tree.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Rows, and what was said of them.
struct ClassifiedRows {
  Store& table;
  Store* predictions;  ///< Null: what was said is not written down.
  PointLayout layout;
  VectorRange rows;  ///< That are to be looked at.
};

/// By all ranks, each with its rows: the class of every row, if there are predictions, and how many are right.
std::string find_wrong_class(const ClassifiedRows& classified, const Forest& forest, const HeldOutRows* held_out,
                             const Accuracy& expected, ProgressDisplay& progress, Ranks& ranks);

/// Takes every row of a tree's sample (`times`: how often each is in it) down the tree: to each leaf some must come,
/// and most of them must be of its class.
std::string find_wrong_leaf(Store& table, const PointLayout& layout, const DecisionTree& tree,
                            std::span<const std::uint16_t> times, ProgressDisplay& progress);

}  // namespace tiermap
