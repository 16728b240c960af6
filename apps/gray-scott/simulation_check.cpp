#include "gray-scott/simulation_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "command_line/backing.hpp"
#include "gray-scott/checkpoint.hpp"
#include "parallel/random.hpp"

namespace tiermap {
namespace {

template <typename T>
void add_cells(const std::vector<T>& cells, std::uint64_t first, double& sum, double& highest, SlabSurvey& found) {
  sum = 0;
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &cells[cell], sizeof(T));
    found.checksum += random_word(bits, first + cell);
    const auto value = static_cast<double>(cells[cell]);
    sum += value;
    found.lowest = std::min(found.lowest, value);
    highest = std::max(highest, value);
  }
}

/// What one cell becomes, in the words of the equations.
template <typename T>
std::array<T, 2> react(T u, T v, T laplacian_u, T laplacian_v, const Reaction& reaction) {
  const double u_change = reaction.diffusion_u * static_cast<double>(laplacian_u) - static_cast<double>(u * v * v) +
                          reaction.feed * (1 - static_cast<double>(u));
  const double v_change = reaction.diffusion_v * static_cast<double>(laplacian_v) + static_cast<double>(u * v * v) -
                          (reaction.feed + reaction.kill) * static_cast<double>(v);
  return {static_cast<T>(static_cast<double>(u) + reaction.time_step * u_change),
          static_cast<T>(static_cast<double>(v) + reaction.time_step * v_change)};
}

template <typename T>
struct PlainState {
  explicit PlainState(std::uint64_t edge) : size(edge), u(edge * edge * edge), v(edge * edge * edge) {}
  std::uint64_t place(std::uint64_t x, std::uint64_t y, std::uint64_t z) const {
    return (z % size * size + y % size) * size + x % size;
  }
  T laplacian(const std::vector<T>& cells, std::uint64_t x, std::uint64_t y, std::uint64_t z) const {
    const std::uint64_t back = size - 1;
    return cells[place(x + 1, y, z)] + cells[place(x + back, y, z)] + cells[place(x, y + 1, z)] +
           cells[place(x, y + back, z)] + cells[place(x, y, z + 1)] + cells[place(x, y, z + back)] -
           6 * cells[place(x, y, z)];
  }
  const std::uint64_t size;
  std::vector<T> u, v;
};

template <typename T>
void plain_step(const PlainState<T>& old, const Reaction& reaction, PlainState<T>& made) {
  for (std::uint64_t z = 0; z < old.size; ++z) {
    for (std::uint64_t y = 0; y < old.size; ++y) {
      for (std::uint64_t x = 0; x < old.size; ++x) {
        const std::uint64_t cell = old.place(x, y, z);
        const auto [u, v] =
            react(old.u[cell], old.v[cell], old.laplacian(old.u, x, y, z), old.laplacian(old.v, x, y, z), reaction);
        made.u[cell] = u;
        made.v[cell] = v;
      }
    }
  }
}

}  // namespace

template <typename T>
SlabSurvey survey_planes(std::uint64_t size, VectorRange planes, const PlaneReader<T>& read) {
  SlabSurvey found;
  std::vector<T> u(size * size);
  std::vector<T> v(size * size);
  double highest_v = 0;
  for (std::uint64_t z = planes.first; z < planes.first + planes.count; ++z) {
    read(z, u.data(), v.data());
    SpeciesSums& sums = found.plane_sums.emplace_back();
    add_cells(u, 2 * z * size * size, sums.u, found.highest_u, found);
    add_cells(v, (2 * z + 1) * size * size, sums.v, highest_v, found);
  }
  return found;
}

Survey whole_survey(const SlabSurvey& planes) {
  Survey whole{{}, planes.lowest, planes.highest_u, planes.checksum};
  for (const SpeciesSums& plane : planes.plane_sums) {
    whole.sums.add(plane);
  }
  return whole;
}

template <typename T>
Survey survey(Ranks& ranks, std::uint64_t size, VectorRange planes, const PlaneReader<T>& read) {
  SlabSurvey found = survey_planes<T>(size, planes, read);
  found.plane_sums = ranks.gather(std::move(found.plane_sums));
  found.lowest = std::ranges::min(ranks.gather_each(found.lowest));
  found.highest_u = std::ranges::max(ranks.gather_each(found.highest_u));
  std::vector<std::uint64_t> checksum{found.checksum};
  ranks.add_up(checksum);
  found.checksum = checksum.front();
  return whole_survey(found);
}

template <typename T>
PlaneReader<T> checkpoint_reader(const std::string& path, std::uint64_t size) {
  const std::shared_ptr<Store> of_u = open_store(dataset_url(path, "u"), OpenMode::read_only);
  const std::shared_ptr<Store> of_v = open_store(dataset_url(path, "v"), OpenMode::read_only);
  return [=](std::uint64_t z, T* u, T* v) {
    const std::uint64_t bytes = size * size * sizeof(T);
    read_fully(*of_u, u, bytes, z * bytes);
    read_fully(*of_v, v, bytes, z * bytes);
  };
}

template <typename T>
PlaneReader<T> grid_reader(Store& store, std::uint64_t size) {
  return [&store, size](std::uint64_t z, T* u, T* v) {
    const std::uint64_t bytes = size * size * sizeof(T);
    read_fully(store, u, bytes, 2 * z * bytes);
    read_fully(store, v, bytes, (2 * z + 1) * bytes);
  };
}

std::string find_impossible(const Survey& survey) {
  constexpr double rounding = 1e-3;
  if (survey.lowest >= -rounding && survey.highest_u <= 1 + rounding) {
    return {};
  }
  const double value = survey.lowest < -rounding ? survey.lowest : survey.highest_u;
  return fmt::format("a cell has {:g} of a species, which no reaction leads to: choose a smaller --time-step", value);
}

std::string find_imbalance(const SpeciesSums& before, const SpeciesSums& after, const Reaction& reaction,
                           std::uint64_t cells, bool doubles, std::uint64_t step) {
  const auto all = static_cast<double>(cells);
  const double change = reaction.feed * (all - before.u) - (reaction.feed + reaction.kill) * before.v;
  const double expected = before.u + before.v + reaction.time_step * change;
  const double rounding = doubles ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  constexpr double roundings = 8;  // Of each cell, all to one side.
  if (std::abs(after.u + after.v - expected) <= roundings * rounding * all) {
    return {};
  }
  return fmt::format("step {}: there are {:.17g} of u and v together, and what is fed and killed leads to {:.17g}",
                     step, after.u + after.v, expected);
}

template <typename T>
double difference_from_plain_loops(std::uint64_t size, std::uint64_t steps, const Reaction& reaction,
                                   const PlaneReader<T>& start, const PlaneReader<T>& result) {
  PlainState<T> state(size);
  PlainState<T> next(size);
  for (std::uint64_t z = 0; z < size; ++z) {
    start(z, &state.u[z * size * size], &state.v[z * size * size]);
  }
  for (std::uint64_t step = 0; step < steps; ++step) {
    plain_step(state, reaction, next);
    std::swap(state.u, next.u);
    std::swap(state.v, next.v);
  }
  double largest = 0;
  for (std::uint64_t z = 0; z < size; ++z) {
    result(z, next.u.data(), next.v.data());
    for (std::uint64_t cell = 0; cell < size * size; ++cell) {
      const std::uint64_t expected = z * size * size + cell;
      largest = std::max({largest, static_cast<double>(std::abs(next.u[cell] - state.u[expected])),
                          static_cast<double>(std::abs(next.v[cell] - state.v[expected]))});
    }
  }
  return largest;
}

template SlabSurvey survey_planes(std::uint64_t, VectorRange, const PlaneReader<float>&);
template SlabSurvey survey_planes(std::uint64_t, VectorRange, const PlaneReader<double>&);
template Survey survey(Ranks&, std::uint64_t, VectorRange, const PlaneReader<float>&);
template Survey survey(Ranks&, std::uint64_t, VectorRange, const PlaneReader<double>&);
template PlaneReader<float> checkpoint_reader(const std::string&, std::uint64_t);
template PlaneReader<double> checkpoint_reader(const std::string&, std::uint64_t);
template PlaneReader<float> grid_reader(Store&, std::uint64_t);
template PlaneReader<double> grid_reader(Store&, std::uint64_t);
template double difference_from_plain_loops(std::uint64_t, std::uint64_t, const Reaction&, const PlaneReader<float>&,
                                            const PlaneReader<float>&);
template double difference_from_plain_loops(std::uint64_t, std::uint64_t, const Reaction&, const PlaneReader<double>&,
                                            const PlaneReader<double>&);

}  // namespace tiermap
