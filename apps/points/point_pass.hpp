// One pass over all points by all threads, whose sums are the same, bit for bit, however many threads there are.
//
// The points are cut into parts, as many for one thread as for a hundred. What is added up in floating point is added
// up for each part by itself, in the order of its points, and of all parts in their order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "points/point_memory.hpp"

namespace tiermap {

/// What every pass needs.
struct PointPass {
  PointMemory& memory;
  ThreadTeam& team;
  ProgressDisplay& progress;
};

/// How many parts there are if the sums of each take so many bytes.
inline std::uint64_t part_count(std::uint64_t points, std::uint64_t bytes_a_part) {
  constexpr std::uint64_t most_parts = 256;
  constexpr std::uint64_t least_parts = 16;
  constexpr std::uint64_t sums_bytes = std::uint64_t{16} << 20U;
  return std::min(std::clamp(sums_bytes / std::max<std::uint64_t>(bytes_a_part, 1), least_parts, most_parts), points);
}

/// Calls visit(thread, part, piece) with all points. Each part is one thread's, and so are its neighbours, so that each
/// thread goes through one range of the points in order.
template <typename Visit>
void for_each_piece(const PointPass& pass, Assignments assignments, std::uint64_t parts, const Visit& visit) {
  const PointLayout& layout = pass.memory.layout();
  pass.team.run([&](std::uint32_t thread) {
    const VectorRange mine = partition(parts, thread, pass.team.size());
    if (mine.count == 0) {
      return;
    }
    const VectorRange last = partition(layout.points, mine.first + mine.count - 1, parts);
    std::uint64_t part = mine.first;
    VectorRange here = partition(layout.points, part, parts);
    pass.memory.visit({here.first, last.first + last.count - here.first}, assignments, [&](PointPiece piece) {
      pass.progress.add(piece.count);
      for (std::uint64_t left = piece.count; left > 0;) {
        if (piece.first == here.first + here.count) {
          here = partition(layout.points, ++part, parts);
        }
        piece.count = std::min(left, here.first + here.count - piece.first);
        visit(thread, part, piece);
        left -= piece.count;
        piece.first += piece.count;
        piece.coordinates += piece.count * layout.dimensions;
        piece.assignments += piece.assignments != nullptr ? piece.count : 0;
      }
    });
  });
}

}  // namespace tiermap
