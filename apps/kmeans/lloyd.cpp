#include "kmeans/lloyd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

namespace tiermap {
namespace {

/// Sums over points by cluster.
struct ClusterSums {
  std::vector<double> coordinates;  ///< Those of the first cluster, then those of the second, and so on.
  std::vector<std::uint64_t> sizes;
  double inertia = 0;
};

/// Which cluster each point of the piece is in. Assignments are written where there are any. Returns the piece's share
/// of the inertia, added to `inertia` point by point.
double add_piece(const PointPiece& piece, const Centroids& centroids, double inertia, double* coordinates,
                 std::vector<std::uint64_t>& sizes) {
  const std::uint32_t dimensions = centroids.dimensions();
  const float* point = piece.coordinates;
  for (std::uint64_t index = 0; index < piece.count; ++index, point += dimensions) {
    const NearestCentroid nearest = centroids.nearest(point);
    if (piece.assignments != nullptr && piece.assignments[index] != nearest.index) {
      piece.assignments[index] = nearest.index;
    }
    double* sum = coordinates + std::size_t{nearest.index} * dimensions;
    for (std::uint32_t dimension = 0; dimension < dimensions; ++dimension) {
      sum[dimension] += static_cast<double>(point[dimension]);
    }
    ++sizes[nearest.index];
    inertia += nearest.squared;
  }
  return inertia;
}

std::uint64_t parts_of(const PointPass& pass, const Centroids& centroids) {
  const std::uint64_t numbers = (std::uint64_t{centroids.dimensions()} + 1) * centroids.size();
  return part_count(pass.memory.layout().points, numbers * sizeof(double));
}

ClusterSums sum_clusters(const PointPass& pass, const Centroids& centroids, Assignments assignments) {
  const std::size_t numbers = std::size_t{centroids.size()} * centroids.dimensions();
  const std::uint64_t parts = parts_of(pass, centroids);
  std::vector<double> coordinates(parts * numbers);
  std::vector<double> inertias(parts);
  std::vector<std::vector<std::uint64_t>> sizes(pass.team.size(), std::vector<std::uint64_t>(centroids.size()));
  for_each_piece(pass, assignments, parts, [&](std::uint32_t thread, std::uint64_t part, const PointPiece& piece) {
    inertias[part] = add_piece(piece, centroids, inertias[part], coordinates.data() + part * numbers, sizes[thread]);
  });
  coordinates = of_all_parts(pass, std::move(coordinates), numbers);
  inertias = of_all_parts(pass, std::move(inertias));
  ClusterSums whole{std::vector<double>(numbers), std::vector<std::uint64_t>(centroids.size()),
                    std::accumulate(inertias.begin(), inertias.end(), 0.0)};
  for (std::size_t at = 0; at < coordinates.size(); ++at) {
    whole.coordinates[at % numbers] += coordinates[at];
  }
  for (const std::vector<std::uint64_t>& of_thread : sizes) {
    std::ranges::transform(whole.sizes, of_thread, whole.sizes.begin(), std::plus<>());
  }
  pass.ranks.add_up(whole.sizes);
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
  Clustering clustering{std::move(centroids), {}, 0, 0, false, {}};
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
  clustering.assigned = points_of_rank(pass, parts_of(pass, clustering.centroids));
  return clustering;
}

}  // namespace tiermap
