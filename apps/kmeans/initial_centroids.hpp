// Where the iterations begin: k-means|| (Bahmani, Moseley, Vattani, Kumar and Vassilvitskii, "Scalable k-means++", VLDB
// 2012, algorithm 2).
#pragma once

#include <cstdint>

#include "points/centroids.hpp"
#include "points/point_pass.hpp"

namespace tiermap {

struct InitialOptions {
  std::uint32_t clusters = 8;
  std::uint32_t rounds = 5;
  double oversampling = 2;  ///< So many points are drawn in a round, for each cluster.
  std::uint64_t seed = 1;
};

struct InitialCentroids {
  Centroids centroids;
  std::uint32_t rounds = 0;      ///< More than asked for, where they drew too few points.
  std::uint32_t candidates = 0;  ///< Points that were drawn.
};

/// Goes through the points once for each round, and once more. Assignments are written to. Throws StoreError that names
/// a point which has no place, and OptionError if there are more clusters than different points.
InitialCentroids choose_initial_centroids(const PointPass& pass, const InitialOptions& options);

}  // namespace tiermap
