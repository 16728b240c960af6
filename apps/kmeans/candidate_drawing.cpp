#include "kmeans/candidate_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <numeric>

#include "points/random_share.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

CandidateDrawing::CandidateDrawing(const PointPass& pass, const InitialOptions& options)
    : pass_(pass), options_(options), candidates_(pass.memory.layout().dimensions) {
  const std::uint64_t first = random_word(seed_of(options.seed, Purpose::first_point), 0) % pass.memory.layout().points;
  pass.memory.visit({first, 1}, Assignments::left,
                    [&](const PointPiece& piece) { add({piece.coordinates, candidates_.dimensions()}); });
}

void CandidateDrawing::add(std::span<const float> point) {
  candidates_.add(point);
  coordinates_.insert(coordinates_.end(), point.begin(), point.end());
}

void CandidateDrawing::add_all(std::span<const float> points) {
  for (; !points.empty(); points = points.subspan(candidates_.dimensions())) {
    add(points.first(candidates_.dimensions()));
  }
}

std::uint32_t CandidateDrawing::useful_candidates() const {
  return static_cast<std::uint32_t>(
      std::count_if(weights_.begin(), weights_.end(), [](std::uint64_t weight) { return weight > 0; }));
}

/// With a probability of squared / cost times how many are to be drawn, or certainly if that is more than 1.
bool CandidateDrawing::is_drawn(double share, double squared, double cost) const {
  return share * cost < options_.oversampling * options_.clusters * squared;
}

// What a point's chances are depends on the cost of all points, of which a thread knows a part only until the pass is
// over; and with less than all of it more points are drawn. So each thread keeps those that are drawn as far as it
// knows, which are few, and here they are looked at once more: that saves a second pass for each round.
void CandidateDrawing::run() {
  for (;; ++rounds_) {
    std::vector<Found> threads(pass_.team.size());
    const double cost = visit_points(threads);
    compared_ = candidates_.size();
    if (cost == 0 || (rounds_ >= options_.rounds && useful_candidates() >= options_.clusters)) {
      return;
    }
    std::vector<float> drawn;
    for (const Found& thread : threads) {
      for (const DrawnPoint& point : thread.drawn) {
        if (is_drawn(point.share, point.squared, cost)) {
          drawn.insert(drawn.end(), point.coordinates.begin(), point.coordinates.end());
        }
      }
    }
    add_all(pass_.ranks.gather(std::move(drawn)));
  }
}

double CandidateDrawing::visit_points(std::vector<Found>& threads) {
  const std::uint64_t points = pass_.memory.layout().points;
  std::vector<double> costs(part_count(points, sizeof(double)));
  for (Found& thread : threads) {
    thread.weights.resize(candidates_.size());
  }
  pass_.progress.restart(fmt::format("choosing centroids, pass {}", rounds_ + 1), points);
  for_each_piece(pass_, Assignments::visited, costs.size(),
                 [&](std::uint32_t thread, std::uint64_t part, const PointPiece& piece) {
                   visit_piece(piece, costs[part], threads[thread]);
                 });
  refuse_misplaced(threads);
  weights_.assign(candidates_.size(), 0);
  for (const Found& thread : threads) {
    std::transform(thread.weights.begin(), thread.weights.end(), weights_.begin(), weights_.begin(), std::plus<>());
  }
  pass_.ranks.add_up(weights_);
  costs = of_all_parts(pass_, std::move(costs));
  return std::accumulate(costs.begin(), costs.end(), 0.0);
}

void CandidateDrawing::visit_piece(const PointPiece& piece, double& cost_of_part, Found& thread) const {
  // Another order of additions may have made the thread's cost a little higher than its share of the whole.
  constexpr double certainly = 0.999;
  const std::uint32_t dimensions = candidates_.dimensions();
  const std::uint64_t seed = seed_of(options_.seed, Purpose::rounds, rounds_);
  double cost = cost_of_part;
  for (std::uint64_t index = 0; index < piece.count; ++index) {
    const float* point = piece.coordinates + index * dimensions;
    std::uint32_t& assignment = piece.assignments[index];
    NearestCentroid nearest;
    if (rounds_ > 0) {
      nearest = {assignment, candidates_.squared_distance(assignment, point)};
    } else {
      note_if_misplaced(piece.first + index, {point, dimensions}, thread);
    }
    nearest = candidates_.nearest(point, compared_, nearest);
    // A page that nothing is written to need not go back to the store.
    if (assignment != nearest.index) {
      assignment = nearest.index;
    }
    cost += nearest.squared;
    thread.cost += nearest.squared;
    ++thread.weights[nearest.index];
    const double share = random_share(seed, piece.first + index);
    if (is_drawn(share, nearest.squared, thread.cost * certainly)) {
      thread.drawn.push_back({share, nearest.squared, {point, point + dimensions}});
    }
  }
  cost_of_part = cost;
}

void CandidateDrawing::note_if_misplaced(std::uint64_t point, std::span<const float> coordinates, Found& thread) {
  const auto wrong = std::find_if_not(coordinates.begin(), coordinates.end(), [](float x) { return std::isfinite(x); });
  if (wrong != coordinates.end() && thread.misplaced.empty()) {
    thread.misplaced.push_back({point, static_cast<std::uint32_t>(wrong - coordinates.begin()), *wrong});
  }
}

void CandidateDrawing::refuse_misplaced(const std::vector<Found>& threads) const {
  std::vector<MisplacedPoint> misplaced;
  for (const Found& thread : threads) {
    misplaced.insert(misplaced.end(), thread.misplaced.begin(), thread.misplaced.end());
  }
  misplaced = pass_.ranks.gather(std::move(misplaced));
  if (!misplaced.empty()) {
    const auto& [point, dimension, coordinate] = misplaced.front();
    throw StoreError(EINVAL, fmt::format("point {} has no place: its coordinate {} is {} (both are counted from 0): "
                                         "leave such points out of the file, or give them numbers",
                                         point, dimension, coordinate));
  }
}

}  // namespace tiermap
