// DBSCAN by several ranks, each with the points of a slab of space, whatever sends rows between them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "dbscan/density_clusters.hpp"
#include "dbscan/row_exchange.hpp"
#include "dbscan/slabs.hpp"

namespace tiermap {

/// What is to be done, and where.
struct RankWork {
  Store& points;
  PointLayout layout;
  double reach = 0;
  std::uint32_t least_to_split = 0;
  std::uint32_t neighbours = 0;
  /// Makes room for so many bytes of what this says: the own tree's, which may be larger than memory.
  std::function<std::unique_ptr<MappedBytes>(const char* what, std::uint64_t bytes)> make_room;
  bool hints = false;                     ///< What such bytes are told in advance.
  std::uint64_t label_bytes_at_once = 0;  ///< Of memory for labels.
};

/// Each rank reads a part of the file, and sends each of its points to the rank in whose slab it lies; that one tells
/// in the end which clusters they are in. Members are by all ranks.
class RankClusters {
 public:
  RankClusters(const RankWork& work, RowExchange& exchange, ThreadTeam& team, ProgressDisplay& progress);

  DensityCounts find();
  /// Calls put(first point, labels) with those of this rank's part of the file, in order.
  void visit_labels(const std::function<void(std::uint64_t, std::span<const std::uint32_t>)>& put);

  std::uint64_t leaves() const { return tree_->leaves(); }
  /// Of other ranks, which this one has beside its own.
  std::uint64_t halo_points() const { return halo_->points(); }

 private:
  void take_points();
  void expect_points(std::uint64_t count);
  void visit_labels_of(std::uint64_t first, std::uint64_t count,
                       const std::function<void(std::uint64_t, std::span<const std::uint32_t>)>& put);

  const RankWork work_;
  RowExchange& exchange_;
  ThreadTeam& team_;
  ProgressDisplay& progress_;
  const Slabs slabs_;
  std::unique_ptr<MappedBytes> rows_;
  std::unique_ptr<MappedBytes> nodes_;
  std::unique_ptr<MappedBytes> links_;
  std::optional<PointTree> tree_;
  std::optional<HaloTrees> halo_;
  std::optional<DensityClusters> clusters_;
};

/// Throws StoreError for a point that has a coordinate that is no number, or infinite.
void refuse_if_misplaced(std::uint64_t point, const float* coordinates, std::uint32_t dimensions);

}  // namespace tiermap
