#include "random-forest/bagging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "points/random_share.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// A row is in a bag more often than that once in 10^14 times.
constexpr std::uint64_t most_times = 16;

std::vector<double> poisson_odds_so_far(double mean) {
  std::vector<double> odds;
  double one = std::exp(-mean);
  double sum = one;
  for (std::uint64_t times = 1; times <= most_times; ++times) {
    odds.push_back(sum);
    one *= mean / static_cast<double>(times);
    sum += one;
  }
  return odds;
}

/// Where the rows of each part begin, and behind the last one their number.
std::vector<std::uint64_t> begins_of(std::vector<std::uint64_t> counts, const MappedRows& to) {
  counts.insert(counts.begin(), 0);
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  if (counts.back() > to.room()) {
    throw StoreError(ENOSPC, fmt::format("a tree's sample has {} rows, more than there is room for: choose another "
                                         "--seed",
                                         counts.back()));
  }
  return counts;
}

std::size_t class_of(const float* row, const PointPass& pass) noexcept {
  return static_cast<std::size_t>(row[pass.memory.layout().dimensions - 1]);
}

}  // namespace

Bag::Bag(const BagPlan& plan, const HeldOutRows& held_out, std::uint64_t seed)
    : plan_(plan),
      held_out_(held_out),
      seed_(seed),
      draws_(static_cast<std::uint64_t>(std::ceil(plan.share * static_cast<double>(held_out.rows())))),
      odds_so_far_(poisson_odds_so_far(plan.share)) {}

std::uint64_t Bag::capacity(const BagPlan& plan, std::uint64_t rows) {
  // Eight standard deviations more than there are on average.
  const double average = plan.share * static_cast<double>(rows);
  const auto most = static_cast<std::uint64_t>(average + 8 * std::sqrt(average) + 16);
  return plan.bagging == Bagging::counted ? most : std::min(most, rows);
}

std::vector<std::uint64_t> Bag::fill(const PointPass& pass, const MappedRows& to) const {
  const bool drawn = plan_.bagging == Bagging::drawn;
  ClassesOfParts of_part(parts_of_rows(drawn ? draws_ : held_out_.rows()),
                         std::vector<std::uint64_t>(held_out_.classes()));
  if (drawn) {
    fill_drawn(pass, to, of_part);
  } else {
    fill_in_order(pass, to, of_part);
  }
  std::vector<std::uint64_t> classes(held_out_.classes());
  for (const std::vector<std::uint64_t>& part : of_part) {
    std::ranges::transform(part, classes, classes.begin(), std::plus<>());
  }
  return classes;
}

std::uint64_t Bag::times_of(std::uint64_t row) const noexcept {
  if (held_out_.is_held_out(row)) {
    return 0;
  }
  const double share = random_share(seed_, row);
  if (plan_.bagging == Bagging::once) {
    return share < plan_.share ? 1 : 0;
  }
  return static_cast<std::uint64_t>(std::ranges::find_if(odds_so_far_, [&](double odds) { return share < odds; }) -
                                    odds_so_far_.begin());
}

std::uint64_t Bag::drawn(std::uint64_t draw) const noexcept {
  return static_cast<std::uint64_t>(random_share(seed_, draw) * static_cast<double>(held_out_.rows()));
}

// In the order in which they are drawn; those that are held out are left out.
std::vector<std::uint64_t> Bag::drawn_in(VectorRange draws) const {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t draw = draws.first; draw < draws.first + draws.count; ++draw) {
    if (const std::uint64_t row = drawn(draw); !held_out_.is_held_out(row)) {
      rows.push_back(row);
    }
  }
  return rows;
}

// In the order of the table, each as often as it is in the bag.
void Bag::fill_in_order(const PointPass& pass, const MappedRows& to, ClassesOfParts& classes) const {
  const std::uint64_t parts = classes.size();
  std::vector<std::uint64_t> counts(parts);
  pass.team.for_each(parts, [&](std::uint64_t part) {
    const VectorRange range = partition(held_out_.rows(), part, parts);
    for (std::uint64_t row = range.first; row < range.first + range.count; ++row) {
      counts[part] += times_of(row);
    }
  });
  std::vector<std::uint64_t> next = begins_of(std::move(counts), to);
  for_each_piece(pass, Assignments::left, parts, [&](std::uint32_t, std::uint64_t part, const PointPiece& piece) {
    const float* row = piece.coordinates;
    for (std::uint64_t index = 0; index < piece.count; ++index, row += pass.memory.layout().dimensions) {
      const std::uint64_t times = times_of(piece.first + index);
      for (std::uint64_t copied = 0; copied < times; ++copied) {
        std::memcpy(to.at(next[part]++), row, to.row_bytes);
      }
      classes[part][class_of(row, pass)] += times;
    }
  });
}

void Bag::fill_drawn(const PointPass& pass, const MappedRows& to, ClassesOfParts& classes) const {
  const std::uint64_t parts = classes.size();
  std::vector<std::uint64_t> counts(parts);
  pass.team.for_each(parts,
                     [&](std::uint64_t part) { counts[part] = drawn_in(partition(draws_, part, parts)).size(); });
  const std::vector<std::uint64_t> begins = begins_of(std::move(counts), to);
  pass.team.for_each(parts, [&](std::uint64_t part) {
    const VectorRange draws = partition(draws_, part, parts);
    std::uint64_t next = begins[part];
    pass.memory.visit_each(drawn_in(draws), [&](const float* row) {
      std::memcpy(to.at(next++), row, to.row_bytes);
      ++classes[part][class_of(row, pass)];
    });
    pass.progress.add(draws.count);
  });
}

std::vector<std::uint16_t> Bag::times() const {
  std::vector<std::uint16_t> times(held_out_.rows());
  if (plan_.bagging != Bagging::drawn) {
    for (std::uint64_t row = 0; row < times.size(); ++row) {
      times[row] = static_cast<std::uint16_t>(times_of(row));
    }
    return times;
  }
  for (std::uint64_t draw = 0; draw < draws_; ++draw) {
    const std::uint64_t row = drawn(draw);
    times[row] = static_cast<std::uint16_t>(times[row] + (held_out_.is_held_out(row) ? 0 : 1));
  }
  return times;
}

}  // namespace tiermap
