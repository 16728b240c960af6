#include "kmeans/lloyd.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace tiermap {
namespace {

/// Sums over points by cluster.
struct ClusterSums {
  ClusterSums(std::uint32_t clusters, std::uint32_t dimensions)
      : coordinates(std::size_t{clusters} * dimensions), sizes(clusters) {}

  void add(const ClusterSums& other) {
    for (std::size_t place = 0; place < coordinates.size(); ++place) {
      coordinates[place] += other.coordinates[place];
    }
    for (std::size_t cluster = 0; cluster < sizes.size(); ++cluster) {
      sizes[cluster] += other.sizes[cluster];
    }
    inertia += other.inertia;
  }

  std::vector<double> coordinates;  ///< Those of the first cluster, then those of the second, and so on.
  std::vector<std::uint64_t> sizes;
  double inertia = 0;
};

/// Which cluster each point of the piece is in. Assignments are written where there are any.
void add_piece(const PointPiece& piece, const Centroids& centroids, ClusterSums& sums) {
  const std::uint32_t dimensions = centroids.dimensions();
  const float* point = piece.coordinates;
  double inertia = sums.inertia;
  for (std::uint64_t index = 0; index < piece.count; ++index, point += dimensions) {
    const NearestCentroid nearest = centroids.nearest(point);
    if (piece.assignments != nullptr && piece.assignments[index] != nearest.index) {
      piece.assignments[index] = nearest.index;
    }
    double* sum = sums.coordinates.data() + std::size_t{nearest.index} * dimensions;
    for (std::uint32_t dimension = 0; dimension < dimensions; ++dimension) {
      sum[dimension] += static_cast<double>(point[dimension]);
    }
    ++sums.sizes[nearest.index];
    inertia += nearest.squared;
  }
  sums.inertia = inertia;
}

ClusterSums sum_clusters(const PointPass& pass, const Centroids& centroids, Assignments assignments) {
  const PointLayout& layout = pass.memory.layout();
  const ClusterSums none(centroids.size(), layout.dimensions);
  const std::uint64_t sums_bytes = (none.coordinates.size() + none.sizes.size()) * sizeof(double);
  std::vector<ClusterSums> parts(part_count(layout.points, sums_bytes), none);
  for_each_piece(pass, assignments, parts.size(), [&](std::uint32_t, std::uint64_t part, const PointPiece& piece) {
    add_piece(piece, centroids, parts[part]);
  });
  ClusterSums whole = none;
  for (const ClusterSums& part : parts) {
    whole.add(part);
  }
  return whole;
}

/// Returns whether any has moved.
bool move_to_means(Centroids& centroids, ClusterSums sums) {
  const std::uint32_t dimensions = centroids.dimensions();
  bool moved = false;
  for (std::uint32_t cluster = 0; cluster < centroids.size(); ++cluster) {
    if (sums.sizes[cluster] == 0) {
      continue;
    }
    const std::span<double> mean = std::span(sums.coordinates).subspan(std::size_t{cluster} * dimensions, dimensions);
    for (std::uint32_t dimension = 0; dimension < dimensions; ++dimension) {
      mean[dimension] /= static_cast<double>(sums.sizes[cluster]);
      moved = moved || mean[dimension] != centroids.coordinate(cluster, dimension);
    }
    centroids.move<double>(cluster, mean);
  }
  return moved;
}

}  // namespace

Clustering iterate(const PointPass& pass, Centroids centroids, const LloydOptions& options) {
  const std::uint64_t points = pass.memory.layout().points;
  Clustering clustering{std::move(centroids), {}};
  while (clustering.iterations < options.iterations && !clustering.converged) {
    pass.progress.restart(fmt::format("iteration {}", clustering.iterations + 1), points);
    ClusterSums sums = sum_clusters(pass, clustering.centroids, Assignments::left);
    const double before = std::exchange(clustering.inertia, sums.inertia);
    const bool little = clustering.iterations > 0 && before - clustering.inertia <= options.tolerance * before;
    clustering.converged = !move_to_means(clustering.centroids, std::move(sums)) || little;
    ++clustering.iterations;
  }
  pass.progress.restart("assigning", points);
  ClusterSums sums = sum_clusters(pass, clustering.centroids, Assignments::visited);
  clustering.sizes = std::move(sums.sizes);
  clustering.inertia = sums.inertia;
  return clustering;
}

}  // namespace tiermap
