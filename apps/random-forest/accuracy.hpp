// How good a forest is: on the rows that it was not trained on, or on all.
#pragma once

#include <cstdint>

#include "points/point_pass.hpp"
#include "random-forest/decision_tree.hpp"
#include "random-forest/held_out_rows.hpp"

namespace tiermap {

struct Accuracy {
  std::uint64_t rows = 0;
  std::uint64_t right = 0;

  double share() const noexcept { return rows == 0 ? 0 : static_cast<double>(right) / static_cast<double>(rows); }
  bool operator==(const Accuracy&) const = default;
};

/// The rows that this rank classifies in measure_accuracy().
VectorRange classified_rows(const PointPass& pass);

/// By all ranks: classifies rows in one pass: those that are held out, or all where `held_out` is null. With
/// Assignments::visited the class of every row is written down.
Accuracy measure_accuracy(const PointPass& pass, const Forest& forest, const HeldOutRows* held_out,
                          Assignments predictions);

}  // namespace tiermap
