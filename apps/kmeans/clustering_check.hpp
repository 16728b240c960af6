// Whether a clustering is right: as far as the files alone show, without the memory that it was made in.
#pragma once

#include <cstdint>
#include <string>

#include "kmeans/lloyd.hpp"
#include "points/cluster_truth.hpp"
#include "points/point_memory.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What is there to be checked.
struct ClusteringFiles {
  Store& points;
  Store& assignments;
  PointLayout layout;
};

/// By all ranks, each of which reads its points and their assignments once, piece by piece: each point must be assigned
/// to its nearest centroid, and sizes and inertia must be what comes of it. Counts what `truth`, which may be null,
/// says of each into `agreement`. Returns in one line what is wrong; empty if all is right.
std::string find_wrong_assignment(const ClusteringFiles& files, const Clustering& clustering, const ClusterTruth* truth,
                                  Agreement& agreement, ProgressDisplay& progress, Ranks& ranks);

/// Reads all points into memory, iterates from the same centroids as plainly as can be, and compares. Returns in one
/// line what differs; empty if nothing does.
std::string compare_with_plain_lloyd(const ClusteringFiles& files, const Centroids& initial,
                                     const Clustering& clustering, ProgressDisplay& progress);

}  // namespace tiermap
