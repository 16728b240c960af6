// DBSCAN (Ester and others, KDD 1996), exactly: a point with enough others within reach is a core point, core points
// within reach of each other are in one cluster, and other points are in a cluster if they are within reach of one of
// its core points. What comes out is the same for any tree and any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dbscan/halo_trees.hpp"
#include "dbscan/point_tree.hpp"

namespace tiermap {

/// Of a point that is in no cluster.
inline constexpr std::uint32_t noise_label = 0xffffffffU;

struct DensityCounts {
  std::uint64_t clusters = 0;
  std::uint64_t core = 0;
  std::uint64_t border = 0;  ///< In a cluster, and no core point.
  std::uint64_t noise = 0;
};

/// Clusters are numbered from 0 on in the order of their first core points. A point within reach of several clusters is
/// in the first of them: as if clusters had been followed to their ends one after the other.
///
/// Of several ranks each has a tree of the points of its slab, and finds out by its halo what is beyond: whether a
/// point has enough neighbours, which clusters go on there, and which one a point that is no core point is within reach
/// of. All get to know all clusters.
///
/// What is known of each row is a link. At first a row's link says whether it is a core point, and if so leads towards
/// the row that stands for its cluster; later it is the number of the cluster. Threads write links of rows that are
/// theirs, or to join them by compare-and-swap, and read others' as atomics; between the steps they meet.
class DensityClusters {
 public:
  /// `links` has four bytes for each row. `neighbours` is how many points, itself counted, a core point has within
  /// reach.
  /// `halo` is null where all points are in the one tree.
  DensityClusters(const PointTree& tree, MappedBytes& links, std::uint32_t neighbours, ThreadTeam& team,
                  ProgressDisplay& progress, HaloTrees* halo = nullptr)
      : tree_(tree),
        halo_(halo),
        links_(links.as_span<std::uint32_t>()),
        neighbours_(neighbours),
        team_(team),
        progress_(progress) {}

  /// By all ranks.
  DensityCounts find();
  /// The number of the cluster of a row's point, or noise_label; after find().
  std::uint32_t label(std::uint32_t row) const noexcept {
    const std::uint32_t label = link(row);
    return label == none ? noise_label : label & ~border;
  }
  /// Puts the number of each point's cluster, or noise_label, into `labels`; so many bytes of it at a time.
  void write_labels(MappedBytes& labels, std::uint64_t bytes_at_once) const;

 private:
  static constexpr std::uint32_t none = 0xffffffffU;    ///< No core point; later: noise.
  static constexpr std::uint32_t border = 0x80000000U;  ///< Added to a cluster's number.

  std::uint32_t link(std::uint32_t row) const noexcept {
    return std::atomic_ref(links_[row]).load(std::memory_order_relaxed);
  }
  void set_link(std::uint32_t row, std::uint32_t value) noexcept {
    std::atomic_ref(links_[row]).store(value, std::memory_order_relaxed);
  }

  void step(const char* what, const std::function<void(const TreeNode&)>& use);
  void find_core(const TreeNode& leaf);
  bool is_core(std::uint32_t row) const;
  bool has_enough(const PointTree& tree, const float* point, std::uint64_t& found) const;
  void join_leaf(const TreeNode& leaf);
  void join_leaves(const TreeNode& one, const TreeNode& other);
  std::uint32_t first_core(const TreeNode& leaf) const;
  std::uint32_t root_of(std::uint32_t row) noexcept;
  void unite(std::uint32_t one, std::uint32_t other) noexcept;
  void lead_to_roots();
  void join_leaf_across(const TreeNode& leaf, const HaloTrees::Side& side);
  void join_leaves_across(const TreeNode& one, const HaloTrees::Side& side, const TreeNode& other);
  void number_clusters();
  void find_border(const TreeNode& leaf);

  /// Of each cluster, by the row that stands for it among the rows of all ranks, its first core point.
  std::unordered_map<std::uint32_t, std::uint32_t> first_points();
  void sum_counts();

  const PointTree& tree_;
  HaloTrees* const halo_;
  const std::span<std::uint32_t> links_;
  const std::uint32_t neighbours_;
  ThreadTeam& team_;
  ProgressDisplay& progress_;
  DensityCounts counts_;
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> joins_;  ///< Clusters of this rank, and of others, that are the same.
};

}  // namespace tiermap
