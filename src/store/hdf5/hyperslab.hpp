// A run of elements of an n-dimensional array, as the boxes that libhdf5 knows.
#pragma once

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <span>

namespace tiermap {

inline constexpr std::size_t most_dimensions = H5S_MAX_RANK;

/// The elements [start, start + count) of each dimension.
struct Hyperslab {
  std::array<hsize_t, most_dimensions> start = {};
  std::array<hsize_t, most_dimensions> count = {};
  std::uint64_t elements = 0;
};

/// The largest box whose elements are, in row-major order, those from `first` on, at most `most` of them. No extent of
/// the shape is 0, and `first` is within it. A run takes at most twice as many boxes as there are dimensions.
Hyperslab first_hyperslab(std::span<const std::uint64_t> shape, std::uint64_t first, std::uint64_t most);

}  // namespace tiermap
