// Which of the rows that a forest is trained on a tree gets, and how often: bagging (Breiman, "Bagging predictors",
// Machine Learning 24, 1996).
#pragma once

#include <cstdint>
#include <vector>

#include "points/point_pass.hpp"
#include "points/row_partition.hpp"
#include "random-forest/held_out_rows.hpp"

namespace tiermap {

enum class Bagging : std::uint8_t {
  counted,  ///< With replacement, in one pass: each row as often as a Poisson distribution says, which is what drawing
            ///< comes to for many rows.
  drawn,    ///< With replacement, one by one, wherever they lie: pseudo-random accesses that are known beforehand.
  once,     ///< Without replacement: each row at most once.
};

/// How a tree's rows are chosen.
struct BagPlan {
  Bagging bagging = Bagging::counted;
  double share = 1;  ///< How many of the rows that are trained on, on average; above 0, at most 1.
};

/// Of one tree. A row's random number belongs to the row, and a draw's to the draw: nothing depends on threads.
class Bag {
 public:
  /// `held_out` must stay.
  Bag(const BagPlan& plan, const HeldOutRows& held_out, std::uint64_t seed);

  /// How many rows fill() may make, whatever the seed.
  static std::uint64_t capacity(const BagPlan& plan, std::uint64_t rows);
  /// Puts the rows into `to`, in an order that does not depend on threads. Returns how many of each class there are.
  /// Throws StoreError if there is no room, which the odds forbid.
  std::vector<std::uint64_t> fill(const PointPass& pass, const MappedRows& to) const;
  /// How often each row of the table is in it, in two bytes for each: for checks.
  std::vector<std::uint16_t> times() const;

 private:
  using ClassesOfParts = std::vector<std::vector<std::uint64_t>>;

  std::uint64_t times_of(std::uint64_t row) const noexcept;
  std::uint64_t drawn(std::uint64_t draw) const noexcept;
  std::vector<std::uint64_t> drawn_in(VectorRange draws) const;
  void fill_in_order(const PointPass& pass, const MappedRows& to, ClassesOfParts& classes) const;
  void fill_drawn(const PointPass& pass, const MappedRows& to, ClassesOfParts& classes) const;

  const BagPlan plan_;
  const HeldOutRows& held_out_;
  const std::uint64_t seed_;
  const std::uint64_t draws_;        ///< Of Bagging::drawn, those of rows that are held out included.
  std::vector<double> odds_so_far_;  ///< Of Bagging::counted: that a row is in the bag so often, or less.
};

}  // namespace tiermap
