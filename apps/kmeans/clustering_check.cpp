#include "kmeans/clustering_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "command_line/backing.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t points_at_once = 16384;
/// Sums in another order differ by so much of themselves at most.
constexpr double rounding = 1e-9;

using PlainPoint = std::vector<double>;

std::vector<PlainPoint> plain_points(const Centroids& centroids) {
  std::vector<PlainPoint> points;
  for (std::uint32_t index = 0; index < centroids.size(); ++index) {
    points.push_back(centroids.point(index));
  }
  return points;
}

double plain_distance(const PlainPoint& centroid, const float* point) {
  double squared = 0;
  for (std::size_t dimension = 0; dimension < centroid.size(); ++dimension) {
    squared += std::pow(static_cast<double>(point[dimension]) - centroid[dimension], 2);
  }
  return squared;
}

std::size_t plain_nearest(const std::vector<PlainPoint>& centroids, const float* point) {
  std::size_t nearest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t index = 0; index < centroids.size(); ++index) {
    const double squared = plain_distance(centroids[index], point);
    if (squared < least) {
      least = squared;
      nearest = index;
    }
  }
  return nearest;
}

bool differ(double one, double other) {
  return std::abs(one - other) > rounding * std::max(std::abs(one), std::abs(other));
}

/// Calls use(first, count, coordinates, assignments) with the points of the range, as the stores have them.
template <typename Use>
void read_pieces(const ClusteringFiles& files, VectorRange range, ProgressDisplay& progress, const Use& use) {
  const std::uint64_t point_bytes = files.layout.dimensions * sizeof(float);
  AlignedBuffer points(points_at_once * point_bytes);
  AlignedBuffer assignments(points_at_once * sizeof(std::uint32_t));
  const std::uint64_t end = range.first + range.count;
  for (std::uint64_t first = range.first; first < end; first += points_at_once) {
    const std::uint64_t count = std::min(points_at_once, end - first);
    read_fully(files.points, points.data(), count * point_bytes, first * point_bytes);
    read_fully(files.assignments, assignments.data(), count * sizeof(std::uint32_t), first * sizeof(std::uint32_t));
    use(first, count, points.as_span<float>().data(), assignments.as_span<std::uint32_t>().data());
    progress.add(count);
  }
}

/// One of Lloyd's iterations: points go to the nearest centroid, centroids to the mean of their points.
void iterate_plainly(const std::vector<float>& points, std::vector<PlainPoint>& centroids) {
  const std::size_t dimensions = centroids.front().size();
  std::vector<PlainPoint> sums(centroids.size(), PlainPoint(dimensions));
  std::vector<double> sizes(centroids.size());
  for (std::size_t first = 0; first < points.size(); first += dimensions) {
    const std::size_t cluster = plain_nearest(centroids, points.data() + first);
    ++sizes[cluster];
    for (std::size_t dimension = 0; dimension < dimensions; ++dimension) {
      sums[cluster][dimension] += static_cast<double>(points[first + dimension]);
    }
  }
  for (std::size_t cluster = 0; cluster < centroids.size(); ++cluster) {
    for (std::size_t dimension = 0; dimension < dimensions && sizes[cluster] > 0; ++dimension) {
      centroids[cluster][dimension] = sums[cluster][dimension] / sizes[cluster];
    }
  }
}

}  // namespace

std::string find_wrong_assignment(const ClusteringFiles& files, const Clustering& clustering, const ClusterTruth* truth,
                                  Agreement& agreement, ProgressDisplay& progress, Ranks& ranks) {
  const std::vector<PlainPoint> centroids = plain_points(clustering.centroids);
  std::vector<std::uint64_t> sizes(centroids.size());
  std::vector<std::uint32_t> known(points_at_once);
  double inertia = 0;
  std::string wrong;
  read_pieces(files, clustering.assigned, progress,
              [&](std::uint64_t first, std::uint64_t count, const float* points, const std::uint32_t* assignments) {
                if (truth != nullptr) {
                  truth->read(first, std::span(known).first(count));
                }
                for (std::uint64_t index = 0; index < count && wrong.empty(); ++index) {
                  const float* point = points + index * files.layout.dimensions;
                  const std::uint32_t assigned = assignments[index];
                  const std::size_t nearest = plain_nearest(centroids, point);
                  if (assigned >= centroids.size() ||
                      differ(plain_distance(centroids[assigned], point), plain_distance(centroids[nearest], point))) {
                    wrong = fmt::format("point {} is assigned to cluster {}, and cluster {} is nearer", first + index,
                                        assigned, nearest);
                    return;
                  }
                  ++sizes[assigned];
                  inertia += plain_distance(centroids[assigned], point);
                  if (truth != nullptr) {
                    agreement.add(assigned, known[index]);
                  }
                }
              });
  agreement.combine(ranks);
  ranks.add_up(sizes);
  const std::vector<double> inertias = ranks.gather_each(inertia);
  inertia = std::accumulate(inertias.begin(), inertias.end(), 0.0);
  if (!wrong.empty()) {
    return wrong;
  }
  if (sizes != clustering.sizes) {
    return "the clusters have other sizes than the assignments give";
  }
  if (differ(inertia, clustering.inertia)) {
    return fmt::format("the inertia is {}, and {} was found", inertia, clustering.inertia);
  }
  return {};
}

std::string compare_with_plain_lloyd(const ClusteringFiles& files, const Centroids& initial,
                                     const Clustering& clustering, ProgressDisplay& progress) {
  std::vector<float> points(files.layout.points * files.layout.dimensions);
  read_fully(files.points, points.data(), files.layout.bytes(), 0);
  std::vector<PlainPoint> centroids = plain_points(initial);
  for (std::uint32_t iteration = 0; iteration < clustering.iterations; ++iteration) {
    iterate_plainly(points, centroids);
    progress.add(files.layout.points);
  }
  double inertia = 0;
  for (std::size_t first = 0; first < points.size(); first += files.layout.dimensions) {
    const float* point = points.data() + first;
    inertia += plain_distance(centroids[plain_nearest(centroids, point)], point);
  }
  // Of two centroids that are as near, rounding may choose another one.
  constexpr double tolerated = 1e-6;
  if (std::abs(inertia - clustering.inertia) > tolerated * inertia) {
    return fmt::format("plain iterations in memory end with an inertia of {}, and not of {}", inertia,
                       clustering.inertia);
  }
  return {};
}

}  // namespace tiermap
