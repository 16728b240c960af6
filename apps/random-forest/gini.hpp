// What a split is worth: Gini's impurity, 1 less the sum of the squares of the classes' shares, of what it leaves on
// its two sides.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace tiermap {

/// Rows of each class on two sides; all are high at first. Of sums of squares none is computed anew when rows change
/// sides, and all of them are whole numbers: exact, whatever the order, for fewer than 2^32 rows.
class TwoSides {
 public:
  explicit TwoSides(const std::vector<std::uint64_t>& classes) : low_(classes.size()), high_(classes) {
    high_rows_ = std::accumulate(classes.begin(), classes.end(), std::uint64_t{0});
    for (const std::uint64_t rows : classes) {
      high_squares_ += rows * rows;
    }
  }
  void to_low(std::uint32_t which, std::uint64_t rows) {
    low_squares_ += rows * (2 * low_[which] + rows);
    high_squares_ -= rows * (2 * high_[which] - rows);
    low_[which] += rows;
    high_[which] -= rows;
    low_rows_ += rows;
    high_rows_ -= rows;
  }
  /// Whether there are rows on both.
  bool splits() const noexcept { return low_rows_ != 0 && high_rows_ != 0; }
  /// The higher, the less impurity is left: rows times the sum of the squares of shares, of both sides.
  double score() const noexcept {
    return static_cast<double>(low_squares_) / static_cast<double>(low_rows_) +
           static_cast<double>(high_squares_) / static_cast<double>(high_rows_);
  }

 private:
  std::vector<std::uint64_t> low_;
  std::vector<std::uint64_t> high_;
  std::uint64_t low_rows_ = 0;
  std::uint64_t high_rows_ = 0;
  std::uint64_t low_squares_ = 0;
  std::uint64_t high_squares_ = 0;
};

/// By how much a split of this score makes the impurity of a node's rows smaller.
inline double gini_gain(const std::vector<std::uint64_t>& classes, std::uint64_t rows, double score) {
  const auto count = static_cast<double>(rows);
  double squares = 0;
  for (const std::uint64_t of_one : classes) {
    squares += static_cast<double>(of_one) * static_cast<double>(of_one);
  }
  return (score - squares / count) / count;
}

/// The threshold between two values: half way, but never as high as the higher one, which is not to go with the lower.
inline float between_values(float lower, float higher) noexcept {
  const float middle = lower / 2 + higher / 2;
  return middle < higher && middle >= lower ? middle : lower;
}

}  // namespace tiermap
