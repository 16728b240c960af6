// Edges of one piece put together by what they touch, so that a page that comes for one is there for the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "edges/edge_source.hpp"

namespace tiermap {

/// A piece's edges, group after group, and within a group in the order in which they came.
class EdgeGroups {
 public:
  /// `group` gives each edge's, below `count`. A counting sort.
  template <typename Group>
  EdgeGroups(std::span<const Edge> edges, std::size_t count, const Group& group)
      : edges_(edges.size()), ends_(count + 1) {
    for (const Edge& edge : edges) {
      ++ends_[group(edge) + 1];
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    // Where a group begins moves on to where it ends.
    for (const Edge& edge : edges) {
      edges_[ends_[group(edge)]++] = edge;
    }
  }

  std::span<const Edge> all() const noexcept { return edges_; }
  std::span<const Edge> of(std::size_t group) const noexcept {
    const std::uint32_t begin = group == 0 ? 0 : ends_[group - 1];
    return std::span(edges_).subspan(begin, ends_[group] - begin);
  }

 private:
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> ends_;
};

}  // namespace tiermap
