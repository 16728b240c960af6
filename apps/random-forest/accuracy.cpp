#include "random-forest/accuracy.hpp"

#include <utility>
#include <vector>

namespace tiermap {

VectorRange classified_rows(const PointPass& pass) {
  return points_of_rank(pass, part_count(pass.memory.layout().points, 1));
}

Accuracy measure_accuracy(const PointPass& pass, const Forest& forest, const HeldOutRows* held_out,
                          Assignments predictions) {
  const PointLayout& layout = pass.memory.layout();
  std::vector<Accuracy> of_part(part_count(layout.points, 1));
  std::vector<std::vector<std::uint32_t>> votes(pass.team.size());
  for_each_piece(pass, predictions, of_part.size(),
                 [&](std::uint32_t thread, std::uint64_t part, const PointPiece& piece) {
                   for (std::uint64_t index = 0; index < piece.count; ++index) {
                     const bool counts = held_out == nullptr || held_out->is_held_out(piece.first + index);
                     if (!counts && piece.assignments == nullptr) {
                       continue;
                     }
                     const float* const row = piece.coordinates + index * layout.dimensions;
                     const std::uint32_t said = forest.classify(row, votes[thread]);
                     if (piece.assignments != nullptr) {
                       piece.assignments[index] = said;
                     }
                     of_part[part].rows += counts ? 1U : 0U;
                     of_part[part].right += counts && static_cast<float>(said) == row[forest.features] ? 1U : 0U;
                   }
                 });
  Accuracy sum;
  for (const Accuracy& one : of_all_parts(pass, std::move(of_part))) {
    sum.rows += one.rows;
    sum.right += one.right;
  }
  return sum;
}

}  // namespace tiermap
