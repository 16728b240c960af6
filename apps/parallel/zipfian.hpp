// Ranks as they come in many real workloads: few of them often.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tiermap {

/// A number from 0 to under 1, from a random word.
constexpr double unit_number(std::uint64_t word) noexcept {
  return static_cast<double>(word >> 11U) * 0x1.0p-53;
}

/// The rank r, from 1, comes with a probability in proportion to 1 / r^skew. By the approximation of Gray and others,
/// "Quickly generating billion-record synthetic databases" (SIGMOD 1994), which YCSB uses too. `skew` is above 0 and
/// under 1. Making one takes some 20 ns for each rank.
class Zipfian {
 public:
  Zipfian(std::uint64_t count, double skew) : count_(count), skew_(skew) {
    for (std::uint64_t rank = 1; rank <= count; ++rank) {
      sum_ += std::pow(static_cast<double>(rank), -skew);
    }
    const double sum_of_two = 1 + std::pow(2.0, -skew);
    eta_ = (1 - std::pow(2.0 / static_cast<double>(count), 1 - skew)) / (1 - sum_of_two / sum_);
  }

  /// The rank, counted from 0, that a number from 0 to under 1 chooses.
  std::uint64_t rank_of(double number) const noexcept {
    const double share = number * sum_;
    if (share < 1 || count_ == 1) {
      return 0;
    }
    if (share < 1 + std::pow(0.5, skew_) || count_ == 2) {
      return 1;
    }
    const double rank = static_cast<double>(count_) * std::pow(eta_ * number - eta_ + 1, 1 / (1 - skew_));
    return std::min(static_cast<std::uint64_t>(rank), count_ - 1);
  }

 private:
  std::uint64_t count_;
  double skew_;
  double sum_ = 0;
  double eta_ = 0;
};

}  // namespace tiermap
