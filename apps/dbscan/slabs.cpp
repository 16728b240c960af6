#include "dbscan/slabs.hpp"

#include <algorithm>
#include <bit>

#include "command_line/backing.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_points_sampled = 4096;

/// Of every so many points one, of which each rank reads its part.
std::vector<double> sample(Store& points, const PointLayout& layout, RowExchange& exchange) {
  const std::uint64_t count = std::min(layout.points, most_points_sampled);
  const VectorRange own = partition(count, exchange.rank(), exchange.ranks());
  const std::uint64_t point_bytes = layout.dimensions * sizeof(float);
  std::vector<float> point(layout.dimensions);
  std::vector<std::uint64_t> words;
  for (std::uint64_t index = own.first; index < own.first + own.count; ++index) {
    read_fully(points, point.data(), point_bytes, layout.points * index / count * point_bytes);
    for (const float coordinate : point) {
      words.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(coordinate)));
    }
  }
  std::vector<double> sampled;
  for (const std::uint64_t word : exchange.gather(std::move(words))) {
    sampled.push_back(std::bit_cast<double>(word));
  }
  return sampled;
}

}  // namespace

Slabs::Slabs(Store& points, const PointLayout& layout, RowExchange& exchange) {
  const std::vector<double> sampled = sample(points, layout, exchange);
  std::vector<double> longest;
  for (std::uint32_t axis = 0; axis < layout.dimensions; ++axis) {
    std::vector<double> coordinates;
    for (std::size_t index = axis; index < sampled.size(); index += layout.dimensions) {
      coordinates.push_back(sampled[index]);
    }
    std::ranges::sort(coordinates);
    if (longest.empty() || coordinates.back() - coordinates.front() > longest.back() - longest.front()) {
      longest = std::move(coordinates);
      axis_ = axis;
    }
  }
  for (std::uint32_t rank = 1; rank < exchange.ranks(); ++rank) {
    cuts_.push_back(longest[longest.size() * rank / exchange.ranks()]);
  }
}

std::uint32_t Slabs::rank_at(double coordinate) const noexcept {
  return static_cast<std::uint32_t>(std::ranges::upper_bound(cuts_, coordinate) - cuts_.begin());
}

Slabs::Ranks Slabs::near(const float* point, double reach) const noexcept {
  // Distances are rounded: nothing may be missed by that.
  const double margin = reach * (1 + 1e-9);
  return {rank_at(point[axis_] - margin), rank_at(point[axis_] + margin)};
}

}  // namespace tiermap
