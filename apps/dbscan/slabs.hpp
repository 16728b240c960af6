// Space cut into slabs, one for each rank.
#pragma once

#include <cstdint>
#include <vector>

#include "dbscan/row_exchange.hpp"
#include "points/point_memory.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Side by side along one axis, so that each has about as many points.
class Slabs {
 public:
  struct Ranks {
    std::uint32_t first;
    std::uint32_t last;
  };

  /// By all ranks: from a sample of all points.
  Slabs(Store& points, const PointLayout& layout, RowExchange& exchange);

  /// In whose slab a point lies.
  std::uint32_t owner(const float* point) const noexcept { return rank_at(point[axis_]); }
  /// In whose slabs there may be points no farther from it than `reach`.
  Ranks near(const float* point, double reach) const noexcept;

 private:
  std::uint32_t rank_at(double coordinate) const noexcept;

  std::uint32_t axis_ = 0;
  std::vector<double> cuts_;  ///< Where each slab but the first one begins.
};

}  // namespace tiermap
