// Whether labels are right, as far as the files alone show, without the tree that they were found by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dbscan/density_clusters.hpp"
#include "points/cluster_truth.hpp"
#include "points/point_memory.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What is there to be checked, and against what.
struct LabelledPoints {
  Store& points;
  Store& labels;
  PointLayout layout;
  double reach = 0;
  std::uint32_t neighbours = 0;
};

/// Takes some points, evenly spread over the file, and goes through all of it to see what is within reach of each: a
/// core point's neighbours are all in clusters, none of a higher number than its own; another point in a cluster has a
/// neighbour there; a point of a higher number than there are clusters is wrong. Counts labels and, where `truth` is
/// not null, what it says of points that are in a cluster. Returns in one line what is wrong; empty if nothing is.
std::string find_wrong_label(const LabelledPoints& files, const DensityCounts& counts, const ClusterTruth* truth,
                             Agreement& agreement, ProgressDisplay& progress);

/// DBSCAN as it is told in a textbook: every point against every other.
std::vector<std::uint32_t> plain_density_labels(std::span<const float> coordinates, const LabelledPoints& about,
                                                ProgressDisplay& progress);
/// Compares with plain_density_labels() of all points, in memory. Returns in one line what differs.
std::string compare_with_plain_labels(const LabelledPoints& files, ProgressDisplay& progress);

}  // namespace tiermap
