// Points of which it is known what clusters they are in: a snapshot of particles, each of them near the middle of one
// of several haloes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "command_line/ranks.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "points/centroids.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Particles by position: each is the same whoever asks, in whatever order. Clusters lie in a box with sides of 1000
/// from 0 on, no two nearer than twelve times their standard deviation; some have three times as many particles as
/// others.
class Particles {
 public:
  Particles(std::uint32_t clusters, std::uint32_t dimensions, std::uint64_t seed);

  std::uint32_t clusters() const noexcept { return centres_.size(); }
  std::uint32_t dimensions() const noexcept { return centres_.dimensions(); }
  const Centroids& centres() const noexcept { return centres_; }
  /// Which cluster a particle was put into.
  std::uint32_t cluster_of(std::uint64_t particle) const noexcept;
  /// Where it is; `coordinates` has one for each dimension.
  void place(std::uint64_t particle, std::span<float> coordinates) const noexcept;

 private:
  void choose_centres(std::uint32_t clusters);

  std::uint64_t seed_;
  Centroids centres_;
  double deviation_ = 0;
  std::vector<double> shares_;  ///< Of all particles, those in a cluster and the ones before it.
};

/// Fills the store with particles, and `truth`, if there is one, with the cluster of each, in four bytes.
void write_particles(const Particles& particles, Store& store, Store* truth, ThreadTeam& team,
                     ProgressDisplay& progress);

/// Throws OptionError if there are several ranks, which are to find their points made.
void refuse_ranks_that_make_points(const Ranks& ranks);

}  // namespace tiermap
