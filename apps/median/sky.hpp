// What an image shows where there is nothing, and how much chance is in it.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "median/image_directory.hpp"
#include "parallel/thread_team.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Brightness in the pixels' own units.
struct Sky {
  std::vector<float> levels;  ///< Of each image; subtracted from its pixels.
  double noise = 1;           ///< Standard deviation of a pixel around its image's level.

  /// That of the median of so many pixels.
  double noise_of_median(std::uint64_t pixels) const noexcept {
    return std::sqrt(1.5707963267948966 / static_cast<double>(pixels)) * noise;
  }
};

/// Measures it in a sample of each image's pixels, which a few stars and bad ones do not change. Throws StoreError.
Sky measure_sky(Store& cube, const CubeShape& shape, ThreadTeam& team);

/// The middle one, or the mean of the two in the middle; 0 of none. Changes their order.
float median_of(std::span<float> values) noexcept;

}  // namespace tiermap
