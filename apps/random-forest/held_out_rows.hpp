// Which rows of a table a forest is not trained on but measured by.
#pragma once

#include <cstdint>
#include <vector>

#include "points/point_pass.hpp"

namespace tiermap {

/// A table is points whose last coordinate is the class, a whole number from 0 on.
inline constexpr std::uint32_t most_classes = 4096;

/// What a pass over the whole table found, and one bit for each row: whether it is held out.
class HeldOutRows {
 public:
  /// One row of `one_of` of each class is held out, drawn anew from each so many: a stratified sample. 0: none is.
  /// Throws StoreError for a feature that is no number and a class that is none.
  HeldOutRows(const PointPass& pass, std::uint32_t one_of, std::uint64_t seed);

  bool is_held_out(std::uint64_t row) const noexcept { return (bits_[row / 64] >> (row % 64) & 1U) != 0; }
  std::uint64_t rows() const noexcept { return rows_; }
  std::uint64_t held_out() const noexcept { return held_out_; }
  std::uint32_t classes() const noexcept { return static_cast<std::uint32_t>(rows_of_class_.size()); }
  const std::vector<std::uint64_t>& rows_of_class() const noexcept { return rows_of_class_; }

 private:
  const std::uint64_t rows_;
  std::vector<std::uint64_t> bits_;
  std::uint64_t held_out_ = 0;
  std::vector<std::uint64_t> rows_of_class_;
};

/// Into how many parts the rows are cut, whatever the number of threads; in each the sample is stratified by itself.
std::uint64_t parts_of_rows(std::uint64_t rows);

}  // namespace tiermap
