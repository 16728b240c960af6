// Lloyd's iterations: each point goes to the nearest centroid, each centroid to the mean of its points.
#pragma once

#include <cstdint>
#include <vector>

#include "points/centroids.hpp"
#include "points/point_pass.hpp"

namespace tiermap {

struct LloydOptions {
  std::uint32_t iterations = 100;  ///< At most.
  double tolerance = 1e-4;         ///< An iteration that makes the inertia smaller by no more of it is the last.
};

struct Clustering {
  Centroids centroids;
  std::vector<std::uint64_t> sizes;  ///< Points of each cluster.
  double inertia = 0;                ///< The sum of the squares of the points' distances from their centroids.
  std::uint32_t iterations = 0;
  bool converged = false;  ///< Rather than stopped by the number of iterations.
  VectorRange assigned;    ///< The points whose assignments this rank has written.
};

/// Goes through the points once for each iteration, and once more for the assignments, which are to the centroids that
/// it returns. A centroid without points stays where it is.
Clustering iterate(const PointPass& pass, Centroids centroids, const LloydOptions& options);

}  // namespace tiermap
