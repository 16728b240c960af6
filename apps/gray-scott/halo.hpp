// What ranks that have planes of one grid each know of their neighbours' planes.
#pragma once

#include <cstdint>
#include <vector>

#include "command_line/ranks.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {

/// Each rank's lowest and highest plane, as they were before a step, in a shared vector. A plane is one of both
/// species, u first.
///
/// There are two places for them, which take turns: who is a step behind still copies those of his step. So one barrier
/// a step is enough. What a rank writes is on one server, the rank's number modulo that of servers: with a server on
/// each node, in the order of ranks, it leaves the node only when the neighbour fetches it.
template <typename T>
class Halo {
 public:
  /// By all ranks.
  Halo(Ranks& ranks, std::uint64_t size);

  /// By all ranks, with the planes as they are. From then on, until the next exchange, below() and above() are the
  /// neighbours'.
  void exchange(const T* lowest, const T* highest);
  /// The highest plane of the rank below, which for the first rank is the last one; and the lowest of the one above.
  const T* below() const noexcept { return below_.data(); }
  const T* above() const noexcept { return above_.data(); }

  SharedStatistics statistics() const { return planes_.statistics(); }

 private:
  enum class Side : std::uint8_t { lowest, highest };

  /// Where it is, as an index.
  std::uint64_t place(std::uint32_t rank, Side side) const noexcept {
    return ((rank * std::uint64_t{2} + turn_) * 2 + static_cast<std::uint64_t>(side)) * place_cells_;
  }
  static std::uint64_t whole_pages(std::uint64_t bytes) {
    const std::uint64_t page_bytes = SharedVectorOptions().page_size_bytes;
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
  }

  Ranks& ranks_;
  const std::uint64_t place_cells_;
  std::uint64_t turn_ = 0;
  std::vector<T> below_;
  std::vector<T> above_;
  SharedVector<T> planes_;
};

}  // namespace tiermap
