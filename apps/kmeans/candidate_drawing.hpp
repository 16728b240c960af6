// The first part of k-means||: a few points are drawn in each of a few rounds, those that are far from all drawn so far
// more likely than others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kmeans/initial_centroids.hpp"
#include "points/centroids.hpp"
#include "points/point_pass.hpp"

namespace tiermap {

/// A point that a round draws, or would, were its cost no more than a thread has seen of it.
struct DrawnPoint {
  double share;    ///< Its random number, from 0 on and below 1.
  double squared;  ///< How far it is from the candidates, squared.
  std::vector<float> coordinates;
};

/// A coordinate that is no number, or infinite.
struct MisplacedPoint {
  std::uint64_t point;
  std::uint32_t dimension;
  float coordinate;
};

/// Draws candidates, round after round. Which of them is nearest to a point so far is kept as the point's assignment,
/// so that each round compares with new ones only.
class CandidateDrawing {
 public:
  /// The first candidate is any of the points, each as likely as another.
  CandidateDrawing(const PointPass& pass, const InitialOptions& options);

  /// Draws until the rounds are over and there are candidates enough, or each point is one. Throws StoreError that
  /// names the first point which has no place.
  void run();

  std::uint32_t size() const noexcept { return candidates_.size(); }
  std::span<const float> candidate(std::uint32_t index) const {
    return std::span(coordinates_).subspan(std::size_t{index} * candidates_.dimensions(), candidates_.dimensions());
  }
  /// To how many points it is the nearest one.
  std::uint64_t weight(std::uint32_t index) const { return weights_[index]; }
  std::uint32_t rounds() const noexcept { return rounds_; }

 private:
  /// What a thread found in one round.
  struct Found {
    double cost = 0;  ///< The sum of the squares, of its points so far.
    std::vector<std::uint64_t> weights;
    std::vector<DrawnPoint> drawn;          ///< In the order of the points.
    std::vector<MisplacedPoint> misplaced;  ///< The first one, if there is any.
  };

  void add(std::span<const float> point);
  void add_all(std::span<const float> points);
  std::uint32_t useful_candidates() const;
  bool is_drawn(double share, double squared, double cost) const;
  double visit_points(std::vector<Found>& threads);
  void visit_piece(const PointPiece& piece, double& cost_of_part, Found& thread) const;
  static void note_if_misplaced(std::uint64_t point, std::span<const float> coordinates, Found& thread);
  void refuse_misplaced(const std::vector<Found>& threads) const;

  const PointPass& pass_;
  const InitialOptions& options_;
  Centroids candidates_;
  std::vector<float> coordinates_;  ///< Of the candidates, one after the other.
  std::vector<std::uint64_t> weights_;
  std::uint32_t compared_ = 0;  ///< So many candidates are in the assignments already.
  std::uint32_t rounds_ = 0;
};

}  // namespace tiermap
