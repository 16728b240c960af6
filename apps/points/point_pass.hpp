// One pass over all points by all threads of all ranks, whose sums are the same, bit for bit, however many ranks and
// threads there are.
//
// The points are cut into parts, as many for one thread as for a hundred. What is added up in floating point is added
// up for each part by itself, in the order of its points, and of all parts in their order: so every rank has to know
// what each part comes to, and of_all_parts() tells it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "command_line/ranks.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "points/point_memory.hpp"

namespace tiermap {

/// What every pass needs.
struct PointPass {
  PointMemory& memory;
  ThreadTeam& team;
  ProgressDisplay& progress;
  Ranks& ranks;
};

/// The parts that this rank goes through: neighbours.
inline VectorRange parts_of_rank(const PointPass& pass, std::uint64_t parts) {
  return pass.ranks.part_of(parts);
}

/// By all ranks: what was found for each part, so many numbers one after the other, where each rank knows only its own.
template <typename Found>
std::vector<Found> of_all_parts(const PointPass& pass, std::vector<Found> parts, std::uint64_t numbers_a_part = 1) {
  if (pass.ranks.alone()) {
    return parts;
  }
  const VectorRange own = parts_of_rank(pass, parts.size() / numbers_a_part);
  const auto found = std::span<const Found>(parts).subspan(own.first * numbers_a_part, own.count * numbers_a_part);
  if (parts.size() * sizeof(Found) < Ranks::least_much_bytes) {
    return pass.ranks.gather(found);
  }
  return pass.ranks.gather_much(std::vector<Found>(found.begin(), found.end()));
}

/// The points of a pass in so many parts that are this rank's.
inline VectorRange points_of_rank(const PointPass& pass, std::uint64_t parts) {
  const VectorRange own = parts_of_rank(pass, parts);
  if (own.count == 0) {
    return {};
  }
  const std::uint64_t points = pass.memory.layout().points;
  const VectorRange last = partition(points, own.first + own.count - 1, parts);
  const std::uint64_t first = partition(points, own.first, parts).first;
  return {first, last.first + last.count - first};
}

/// How many parts there are if the sums of each take so many bytes.
inline std::uint64_t part_count(std::uint64_t points, std::uint64_t bytes_a_part) {
  constexpr std::uint64_t most_parts = 256;
  constexpr std::uint64_t least_parts = 16;
  constexpr std::uint64_t sums_bytes = std::uint64_t{16} << 20U;
  return std::min(std::clamp(sums_bytes / std::max<std::uint64_t>(bytes_a_part, 1), least_parts, most_parts), points);
}

/// Calls visit(thread, part, piece) with all points of this rank. Each part is one thread's, and so are its neighbours,
/// so that each thread goes through one range of the points in order.
template <typename Visit>
void for_each_piece(const PointPass& pass, Assignments assignments, std::uint64_t parts, const Visit& visit) {
  const PointLayout& layout = pass.memory.layout();
  const VectorRange own = parts_of_rank(pass, parts);
  pass.team.run([&](std::uint32_t thread) {
    VectorRange mine = partition(own.count, thread, pass.team.size());
    if (mine.count == 0) {
      return;
    }
    mine.first += own.first;
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
