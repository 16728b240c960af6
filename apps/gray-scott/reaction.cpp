#include "gray-scott/reaction.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tiermap {
namespace {

/// The reaction in the precision of the cells.
template <typename T>
struct Rates {
  explicit Rates(const Reaction& reaction)
      : step(static_cast<T>(reaction.time_step)),
        feed(static_cast<T>(reaction.feed)),
        loss(static_cast<T>(reaction.feed + reaction.kill)),
        spread_u(static_cast<T>(reaction.diffusion_u)),
        spread_v(static_cast<T>(reaction.diffusion_v)) {}
  T step, feed, loss, spread_u, spread_v;
};

// So many at once: a number that the compiler knows, for it to make vector instructions of the loops.
constexpr std::uint64_t lanes = 8;

/// Where v spreads there is a little of it, and a square of less than this is a number that processors are slow with.
template <typename T>
constexpr T nothing = sizeof(T) == sizeof(float) ? static_cast<T>(1e-18) : static_cast<T>(1e-150);

/// The new values of `count` cells from x on, of which `left` and `right` are the neighbours.
template <typename T, std::uint64_t count>
void step_cells(const RowStencil<T>& u, const RowStencil<T>& v, std::uint64_t x, std::uint64_t left,
                std::uint64_t right, const Rates<T>& rates, T* new_u, T* new_v) {
  std::array<T, count> made_u;
  std::array<T, count> made_v;
  const auto spread = [&](const RowStencil<T>& row, std::uint64_t lane) {
    return ((row.here[left + lane] + row.here[right + lane]) + (row.before[x + lane] + row.after[x + lane])) +
           (row.below[x + lane] + row.above[x + lane]) - 6 * row.here[x + lane];
  };
  for (std::uint64_t lane = 0; lane < count; ++lane) {
    const T here_u = u.here[x + lane];
    const T here_v = v.here[x + lane];
    const T reacted = here_u * here_v * here_v;
    const T change_u = rates.spread_u * spread(u, lane) - reacted + rates.feed * (1 - here_u);
    const T change_v = rates.spread_v * spread(v, lane) + reacted - rates.loss * here_v;
    made_u[lane] = here_u + rates.step * change_u;
    const T there_v = here_v + rates.step * change_v;
    made_v[lane] = std::abs(there_v) < nothing<T> ? T{0} : there_v;
  }
  std::copy(made_u.begin(), made_u.end(), new_u + x);
  std::copy(made_v.begin(), made_v.end(), new_v + x);
}

/// A few in the cells' own precision, which is fast, and those in double.
template <typename T>
double sum_row(const T* row, std::uint64_t cells) {
  constexpr std::uint64_t few = 4 * lanes;
  std::array<double, lanes> sums = {};
  std::uint64_t x = 0;
  for (; x + few <= cells; x += few) {
    std::array<T, lanes> of_few = {};
    for (std::uint64_t cell = 0; cell < few; cell += lanes) {
      for (std::uint64_t lane = 0; lane < lanes; ++lane) {
        of_few[lane] += row[x + cell + lane];
      }
    }
    for (std::uint64_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += static_cast<double>(of_few[lane]);
    }
  }
  double sum = 0;
  for (; x < cells; ++x) {
    sum += static_cast<double>(row[x]);
  }
  for (const double lane : sums) {
    sum += lane;
  }
  return sum;
}

}  // namespace

template <typename T>
SpeciesSums step_row(const RowStencil<T>& u, const RowStencil<T>& v, std::uint64_t cells, const Reaction& reaction,
                     T* new_u, T* new_v) {
  const Rates<T> rates(reaction);
  step_cells<T, 1>(u, v, 0, cells - 1, 1, rates, new_u, new_v);
  std::uint64_t x = 1;
  for (; x + lanes < cells; x += lanes) {
    step_cells<T, lanes>(u, v, x, x - 1, x + 1, rates, new_u, new_v);
  }
  for (; x + 1 < cells; ++x) {
    step_cells<T, 1>(u, v, x, x - 1, x + 1, rates, new_u, new_v);
  }
  step_cells<T, 1>(u, v, cells - 1, cells - 2, 0, rates, new_u, new_v);
  return {sum_row(new_u, cells), sum_row(new_v, cells)};
}

template SpeciesSums step_row(const RowStencil<float>&, const RowStencil<float>&, std::uint64_t, const Reaction&,
                              float*, float*);
template SpeciesSums step_row(const RowStencil<double>&, const RowStencil<double>&, std::uint64_t, const Reaction&,
                              double*, double*);

}  // namespace tiermap
