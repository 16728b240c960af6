#include "kmeans/initial_centroids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "kmeans/candidate_drawing.hpp"
#include "points/random_share.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of the candidates as many as there are to be clusters, and what they cost: the squares of all candidates' distances,
/// each times its weight.
struct ChosenCandidates {
  std::vector<std::uint32_t> indices;
  double cost = std::numeric_limits<double>::infinity();
};

double squared_between(std::span<const float> one, std::span<const float> other) {
  double squared = 0;
  for (std::size_t dimension = 0; dimension < one.size(); ++dimension) {
    const double difference = static_cast<double>(one[dimension]) - static_cast<double>(other[dimension]);
    squared += difference * difference;
  }
  return squared;
}

/// The first place at which the sum of the chances is more than `share` of the whole; none of a chance of 0.
std::uint32_t draw(const std::vector<double>& chances, double whole, double share) {
  std::uint32_t drawn = 0;
  double sum = 0;
  for (std::uint32_t index = 0; index < chances.size() && sum <= share * whole; ++index) {
    sum += chances[index];
    drawn = chances[index] > 0 ? index : drawn;
  }
  return drawn;
}

/// k-means++ (Arthur and Vassilvitskii, SODA 2007): a candidate's chance is its weight times the square of its distance
/// from those that are chosen already.
ChosenCandidates choose_candidates(const CandidateDrawing& drawing, std::uint32_t clusters, std::uint64_t seed) {
  ChosenCandidates chosen;
  std::vector<double> squared(drawing.size(), std::numeric_limits<double>::infinity());
  std::vector<double> chances(drawing.size());
  for (std::uint32_t index = 0; index < drawing.size(); ++index) {
    chances[index] = static_cast<double>(drawing.weight(index));
  }
  double cost = std::accumulate(chances.begin(), chances.end(), 0.0);
  while (chosen.indices.size() < clusters) {
    if (cost == 0) {
      throw OptionError(
          fmt::format("{} clusters are more than the {} different points that there are: choose --clusters "
                      "{}, or fewer",
                      clusters, chosen.indices.size(), chosen.indices.size()));
    }
    const std::uint32_t next = draw(chances, cost, random_share(seed, chosen.indices.size()));
    chosen.indices.push_back(next);
    cost = 0;
    for (std::uint32_t index = 0; index < drawing.size(); ++index) {
      squared[index] = std::min(squared[index], squared_between(drawing.candidate(index), drawing.candidate(next)));
      chances[index] = static_cast<double>(drawing.weight(index)) * squared[index];
      cost += chances[index];
    }
  }
  chosen.cost = cost;
  return chosen;
}

/// Chance may put two centroids into one cluster and none into another; the best of several tries seldom has that. As
/// many as cost little.
ChosenCandidates best_candidates(const CandidateDrawing& drawing, const InitialOptions& options) {
  constexpr std::uint64_t most_tries = 32;
  constexpr std::uint64_t most_distances = std::uint64_t{1} << 28U;
  const std::uint64_t distances = std::uint64_t{drawing.size()} * options.clusters;
  const std::uint64_t tries = std::clamp<std::uint64_t>(most_distances / distances, 1, most_tries);
  ChosenCandidates best;
  for (std::uint64_t attempt = 0; attempt < tries; ++attempt) {
    ChosenCandidates chosen =
        choose_candidates(drawing, options.clusters, seed_of(options.seed, Purpose::reclustering, attempt));
    if (chosen.cost < best.cost) {
      best = std::move(chosen);
    }
  }
  return best;
}

}  // namespace

InitialCentroids choose_initial_centroids(const PointPass& pass, const InitialOptions& options) {
  CandidateDrawing drawing(pass, options);
  drawing.run();
  pass.progress.restart("choosing among candidates", 0);
  InitialCentroids initial{Centroids(pass.memory.layout().dimensions), drawing.rounds(), drawing.size()};
  for (const std::uint32_t index : best_candidates(drawing, options).indices) {
    initial.centroids.add(drawing.candidate(index));
  }
  return initial;
}

}  // namespace tiermap
