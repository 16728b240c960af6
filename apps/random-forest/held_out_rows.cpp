#include "random-forest/held_out_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <functional>

#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t rows_a_part = 65536;

[[noreturn]] void refuse_cell(std::uint64_t row, const std::string& problem) {
  throw StoreError(EINVAL, fmt::format("row {} {} (both are counted from 0): leave such rows out of the table, or mend "
                                       "them",
                                       row, problem));
}

/// The class of a row whose features are numbers.
std::uint32_t checked_class(std::uint64_t row, const float* cells, std::uint32_t features) {
  for (std::uint32_t feature = 0; feature < features; ++feature) {
    if (!std::isfinite(cells[feature])) {
      refuse_cell(row, fmt::format("has {} in column {}, which cannot be compared", cells[feature], feature));
    }
  }
  const float which = cells[features];
  if (!(which >= 0 && which < static_cast<float>(most_classes)) || which != std::floor(which)) {
    refuse_cell(row, fmt::format("has {} in column {}, the last one, which is no class from 0 to {}", which, features,
                                 most_classes - 1));
  }
  return static_cast<std::uint32_t>(which);
}

}  // namespace

std::uint64_t parts_of_rows(std::uint64_t rows) {
  return (rows + rows_a_part - 1) / rows_a_part;
}

HeldOutRows::HeldOutRows(const PointPass& pass, std::uint32_t one_of, std::uint64_t seed)
    : rows_(pass.memory.layout().points), bits_(rows_ / 64 + 1) {
  const PointLayout& layout = pass.memory.layout();
  const std::uint64_t parts = parts_of_rows(rows_);
  std::vector<std::vector<std::uint64_t>> of_part(parts);
  std::atomic<std::uint64_t> held_out{0};
  for_each_piece(pass, Assignments::left, parts, [&](std::uint32_t, std::uint64_t part, const PointPiece& piece) {
    std::vector<std::uint64_t>& rows = of_part[part];
    const std::uint64_t drawing = random_word(seed, part);
    for (std::uint64_t index = 0; index < piece.count; ++index) {
      const std::uint64_t row = piece.first + index;
      const std::uint32_t which =
          checked_class(row, piece.coordinates + index * layout.dimensions, layout.dimensions - 1);
      if (which >= rows.size()) {
        rows.resize(which + 1);
      }
      const std::uint64_t rank = rows[which]++;
      if (one_of != 0 && rank % one_of == random_word(drawing + which, rank / one_of) % one_of) {
        std::atomic_ref(bits_[row / 64]).fetch_or(std::uint64_t{1} << row % 64, std::memory_order_relaxed);
        held_out.fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
  held_out_ = held_out;
  for (const std::vector<std::uint64_t>& part : of_part) {
    rows_of_class_.resize(std::max(rows_of_class_.size(), part.size()));
    std::transform(part.begin(), part.end(), rows_of_class_.begin(), rows_of_class_.begin(), std::plus<>());
  }
}

}  // namespace tiermap
