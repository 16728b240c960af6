// What is known of every list without keeping it: how long it is, and a checksum that does not depend on the order in
// which threads put edges into it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "edges/edge_source.hpp"
#include "parallel/random.hpp"

namespace tiermap {

/// One list.
struct ListSum {
  std::uint64_t degree = 0;
  std::uint64_t sum = 0;  ///< Of the neighbours' hashes, each as often as it is there.

  static ListSum of(std::span<const Vertex> list) noexcept {
    ListSum sum;
    for (const Vertex neighbour : list) {
      sum.add(neighbour);
    }
    return sum;
  }
  void add(Vertex neighbour) noexcept {
    ++degree;
    sum += hash(neighbour);
  }
  static std::uint64_t hash(Vertex neighbour) noexcept { return mix_word(neighbour + 0x9e3779b97f4a7c15U); }
  bool operator==(const ListSum&) const = default;
};

/// All lists of a stream of edges. Memory for each vertex: one ListSum.
class ListSums {
 public:
  explicit ListSums(std::uint64_t vertices) : sums_(vertices) {}

  /// Thread-safe.
  void add(std::span<const Edge> edges) noexcept;
  /// Not while another thread adds.
  const ListSum& of(std::uint64_t vertex) const { return sums_[vertex]; }

 private:
  std::vector<ListSum> sums_;
};

}  // namespace tiermap
