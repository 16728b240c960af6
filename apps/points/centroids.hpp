// The points that others are compared with: where clusters have their middle, or might have it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tiermap {

/// Which centroid is nearest to a point, and the square of how far it is.
struct NearestCentroid {
  std::uint32_t index = 0;
  double squared = std::numeric_limits<double>::infinity();
};

/// Centroids of one number of dimensions. Everything is computed in double, in which the square of no float overflows,
/// and in the same order whoever asks.
class Centroids {
 public:
  explicit Centroids(std::uint32_t dimensions) : dimensions_(dimensions) {}

  std::uint32_t size() const noexcept { return size_; }
  std::uint32_t dimensions() const noexcept { return dimensions_; }
  double coordinate(std::uint32_t index, std::uint32_t dimension) const noexcept {
    return groups_[index / lanes * dimensions_ + dimension][index % lanes / 2][index % 2];
  }
  std::vector<double> point(std::uint32_t index) const;

  /// One more, of as many coordinates as there are dimensions.
  template <typename Number>
  void add(std::span<const Number> coordinates) {
    if (size_ % lanes == 0) {
      // What is infinitely far is nearest to nothing: the rest of a group may be compared with.
      constexpr double far = std::numeric_limits<double>::infinity();
      groups_.resize(groups_.size() + dimensions_, Group{{{far, far}, {far, far}, {far, far}, {far, far}}});
    }
    move(size_++, coordinates);
  }
  /// One that is there gets other coordinates.
  template <typename Number>
  void move(std::uint32_t index, std::span<const Number> coordinates) {
    for (std::uint32_t dimension = 0; dimension < dimensions_; ++dimension) {
      groups_[index / lanes * dimensions_ + dimension][index % lanes / 2][index % 2] =
          static_cast<double>(coordinates[dimension]);
    }
  }

  double squared_distance(std::uint32_t index, const float* point) const noexcept {
    double squared = 0;
    for (std::uint32_t dimension = 0; dimension < dimensions_; ++dimension) {
      const double difference = static_cast<double>(point[dimension]) - coordinate(index, dimension);
      squared += difference * difference;
    }
    return squared;
  }

  /// Of `so_far` and of the centroids from `from` on the nearest one; of several the first.
  NearestCentroid nearest(const float* point, std::uint32_t from = 0, NearestCentroid so_far = {}) const noexcept {
    for (std::uint32_t first = from / lanes * lanes; first < size_; first += lanes) {
      const Group squared = squared_distances(first, point);
      const double least = least_of(squared);
      if (least < so_far.squared) {
        so_far = {first + first_lane_of(squared, least), least};
      }
    }
    return so_far;
  }

 private:
  static constexpr std::uint32_t lanes = 8;
  /// What one instruction computes with, of every processor that has 64 bits.
  using Pair = double __attribute__((vector_size(16)));
  /// One coordinate of so many centroids.
  using Group = std::array<Pair, lanes / 2>;

  /// To a whole group. Its sums are in registers while the loop is unrolled.
  Group squared_distances(std::uint32_t first, const float* point) const noexcept {
    const Group* group = groups_.data() + std::size_t{first} / lanes * dimensions_;
    Group squared{};
    for (std::uint32_t dimension = 0; dimension < dimensions_; ++dimension, ++group) {
      const auto here = static_cast<double>(point[dimension]);
#pragma GCC unroll 4
      for (std::uint32_t pair = 0; pair < lanes / 2; ++pair) {
        const Pair difference = here - (*group)[pair];
        squared[pair] += difference * difference;
      }
    }
    return squared;
  }
  static double least_of(const Group& numbers) noexcept {
    const auto less = [](const Pair& one, const Pair& other) { return one < other ? one : other; };
    const Pair least = less(less(numbers[0], numbers[1]), less(numbers[2], numbers[3]));
    return least[0] < least[1] ? least[0] : least[1];
  }
  /// Without a branch: which one it will be nobody can foretell.
  static std::uint32_t first_lane_of(const Group& numbers, double number) noexcept {
    std::uint32_t found = 0;
    for (std::uint32_t lane = lanes; lane-- > 0;) {
      found = numbers[lane / 2][lane % 2] <= number ? lane : found;
    }
    return found;
  }

  std::uint32_t dimensions_;
  std::uint32_t size_ = 0;
  std::vector<Group>
      groups_;  ///< Of eight centroids all first coordinates, all second ones, and so on; then of eight more.
};

inline std::vector<double> Centroids::point(std::uint32_t index) const {
  std::vector<double> coordinates(dimensions_);
  for (std::uint32_t dimension = 0; dimension < dimensions_; ++dimension) {
    coordinates[dimension] = coordinate(index, dimension);
  }
  return coordinates;
}

}  // namespace tiermap
