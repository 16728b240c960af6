// Where rows begin in a text file: of every so-manieth, in memory that has a bound however many there are.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tiermap {

/// Rows are added in order. Once `most` places are known every second one is forgotten.
class RowIndex {
 public:
  explicit RowIndex(std::uint64_t most = 1 << 20) : most_(most) {}

  void add(std::uint64_t offset) {
    if (rows_ % stride_ == 0) {
      if (offsets_.size() == most_) {
        thin_out();
      }
      if (rows_ % stride_ == 0) {
        offsets_.push_back(offset);
      }
    }
    ++rows_;
  }

  std::uint64_t rows() const noexcept { return rows_; }
  std::uint64_t places() const noexcept { return offsets_.size(); }
  /// The last row at or before this one whose place is known, and that place.
  std::pair<std::uint64_t, std::uint64_t> before(std::uint64_t row) const noexcept {
    const std::uint64_t place = row / stride_;
    return {place * stride_, offsets_[place]};
  }
  /// Where the first row at or behind this one begins of which that is known, if there is one.
  std::optional<std::uint64_t> behind(std::uint64_t row) const noexcept {
    const std::uint64_t place = (row + stride_ - 1) / stride_;
    return place < offsets_.size() ? std::optional(offsets_[place]) : std::nullopt;
  }

 private:
  void thin_out() {
    for (std::uint64_t place = 0; 2 * place < offsets_.size(); ++place) {
      offsets_[place] = offsets_[2 * place];
    }
    offsets_.resize((offsets_.size() + 1) / 2);
    stride_ *= 2;
  }

  const std::uint64_t most_;
  std::uint64_t stride_ = 64;  ///< At first: so many rows are read over at most until one is found.
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace tiermap
