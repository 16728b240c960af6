// What is known beforehand of which points belong together, and how well a clustering agrees with it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "command_line/ranks.hpp"
#include "points/particles.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A number for each point: those that have the same one belong together.
class ClusterTruth {
 public:
  virtual ~ClusterTruth() = default;
  /// Those of the points from `first` on, as many as `numbers` has. Thread-safe.
  virtual void read(std::uint64_t first, std::span<std::uint32_t> numbers) const = 0;
};

/// What particles were put into; `particles` must stay.
std::unique_ptr<ClusterTruth> planted_truth(const Particles& particles);
/// What `tiermap-kmeans generate --truth` wrote. Throws StoreError unless there are four bytes for each point.
std::unique_ptr<ClusterTruth> stored_truth(std::shared_ptr<Store> store, std::uint64_t points);

/// How far two ways to put points into groups agree.
class Agreement {
 public:
  /// Points that are in this group of the one and in that group of the other.
  void add(std::uint32_t one, std::uint32_t other) { ++together_[std::uint64_t{one} << 32U | other]; }
  /// By all ranks, each of which has added other points: what all of them come to.
  void combine(Ranks& ranks);
  /// How many groups the other has.
  std::size_t others() const;
  /// 1 if they are the same, whatever the groups are called; about 0 if one says nothing of the other (Hubert and
  /// Arabie, "Comparing partitions", 1985).
  double adjusted_rand_index() const;

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> together_;
};

}  // namespace tiermap
