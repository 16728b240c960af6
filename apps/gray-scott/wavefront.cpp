#include "gray-scott/wavefront.hpp"

#include <algorithm>

#include "tiermap/vector_storage.hpp"

namespace tiermap {

template <typename T>
Wavefront<T>::Wavefront(Grid<T>& grid, const Reaction& reaction, ThreadTeam& team, ProgressDisplay& progress,
                        std::uint32_t most_steps)
    : grid_(grid), reaction_(reaction), team_(team), progress_(progress), waves_(most_steps) {
  const std::uint64_t size = grid_.size();
  for (Wave& wave : waves_) {
    wave.made.resize(2 * size * size);
    wave.first.resize(2 * size * size);
    wave.row_sums[0].resize(size);
    wave.row_sums[1].resize(size);
    wave.plane_sums.resize(grid_.planes().count);
  }
}

template <typename T>
std::uint32_t Wavefront<T>::steps_for(std::uint64_t size, std::uint64_t budget_bytes) {
  constexpr std::uint64_t most = 16;
  constexpr std::uint64_t planes_of_grid_for_a_step = 32;  // Of the two that a step keeps: a sixteenth of the grid.
  const std::uint64_t planes_in_memory = budget_bytes / (2 * size * size * sizeof(T));
  std::uint64_t steps = std::min(most, size / planes_of_grid_for_a_step);
  while (steps > 1 && planes_at_once(steps) > planes_in_memory / 4) {
    --steps;
  }
  return static_cast<std::uint32_t>(std::max(steps, std::uint64_t{1}));
}

template <typename T>
std::vector<SpeciesSums> Wavefront<T>::advance(std::uint32_t steps, CheckpointVectors<T>* checkpoint) {
  if (Halo<T>* const halo = grid_.halo(); halo != nullptr) {
    halo->exchange(grid_.u_plane(grid_.planes().first), grid_.u_plane(grid_.planes().first + grid_.planes().count - 1));
  }
  grid_.begin_pass(grid_.planes().count + steps - 1, planes_at_once(steps));
  if (checkpoint != nullptr) {
    checkpoint->begin(steps - 1);
  }
  std::barrier<> meeting(team_.size());
  team_.run([&](std::uint32_t thread) { work(thread, steps, checkpoint, meeting); });
  if (failed_) {
    std::rethrow_exception(failure_);
  }
  grid_.end_pass();
  std::vector<SpeciesSums> sums;
  for (std::uint32_t wave = 0; wave < steps; ++wave) {
    sums.insert(sums.end(), waves_[wave].plane_sums.begin(), waves_[wave].plane_sums.end());
  }
  return sums;
}

// Who fails goes on to the meetings: the others wait there.
template <typename T>
void Wavefront<T>::work(std::uint32_t thread, std::uint32_t steps, CheckpointVectors<T>* checkpoint,
                        std::barrier<>& meeting) {
  const VectorRange part = partition(grid_.size(), thread, team_.size());
  const Rows rows{part.first, part.first + part.count};
  std::vector<T> made_row(2 * grid_.size());
  const std::uint64_t fronts = grid_.planes().count + distance * (steps - 1) + 1;
  for (std::uint64_t front = 0; front <= fronts; ++front) {
    try {
      if (thread == 0 && front > 0 && !failed_) {
        look_back(steps, front - 1, checkpoint);
      }
      for (std::uint32_t wave = 0; wave < steps && distance * wave <= front && !failed_; ++wave) {
        move_on(wave, front - distance * wave, rows, wave + 1 == steps ? checkpoint : nullptr, made_row);
      }
    } catch (...) {
      if (!failed_.exchange(true)) {
        failure_ = std::current_exception();
      }
    }
    meeting.arrive_and_wait();
  }
}

/// The step makes the plane at the position, and puts what it made of the one before into its place.
template <typename T>
void Wavefront<T>::move_on(std::uint32_t wave_number, std::uint64_t position, Rows rows,
                           CheckpointVectors<T>* checkpoint, std::vector<T>& made_row) {
  const std::uint64_t size = grid_.size();
  const std::uint64_t planes = grid_.planes().count;
  if (position > planes) {
    return;
  }
  Wave& wave = waves_[wave_number];
  const std::uint64_t plane = plane_at(wave_number, position);
  if (position == 0 && grid_.halo() == nullptr) {
    const std::uint64_t begin = rows.first * size;
    const std::uint64_t end = rows.end * size;
    std::copy(grid_.u_plane(plane) + begin, grid_.u_plane(plane) + end, wave.first.data() + begin);
    std::copy(grid_.v_plane(plane) + begin, grid_.v_plane(plane) + end, wave.first.data() + size * size + begin);
  }
  for (std::uint64_t y = rows.first; y < rows.end; ++y) {
    if (position < planes) {
      make_row(wave_number, position, y, made_row);
    }
    if (position > 0) {
      settle_row(wave, plane_at(wave_number, position - 1), y, checkpoint);
    }
    if (position < planes) {
      std::copy_n(made_row.data(), size, wave.made.data() + y * size);
      std::copy_n(made_row.data() + size, size, wave.made.data() + (size + y) * size);
    }
  }
}

/// Planes are around, within those of one process: of several ranks they are the halo's.
template <typename T>
const T* Wavefront<T>::plane_below(std::uint32_t wave, std::uint64_t position) const {
  if (position == 0 && grid_.halo() != nullptr) {
    return grid_.halo()->below();
  }
  return grid_.u_plane(plane_at(wave, position + grid_.planes().count - 1));
}

template <typename T>
const T* Wavefront<T>::plane_above(std::uint32_t wave, std::uint64_t position) const {
  if (position + 1 < grid_.planes().count) {
    return grid_.u_plane(plane_at(wave, position + 1));
  }
  return grid_.halo() != nullptr ? grid_.halo()->above() : waves_[wave].first.data();
}

template <typename T>
void Wavefront<T>::make_row(std::uint32_t wave, std::uint64_t position, std::uint64_t y, std::vector<T>& made_row) {
  const std::uint64_t size = grid_.size();
  const std::uint64_t cells = size * size;
  const auto stencil = [&](const T* at, const T* at_below, const T* at_above) {
    return RowStencil<T>{at + y * size, at + (y + size - 1) % size * size, at + (y + 1) % size * size,
                         at_below + y * size, at_above + y * size};
  };
  const T* const here = grid_.u_plane(plane_at(wave, position));
  const T* const below = plane_below(wave, position);
  const T* const above = plane_above(wave, position);
  waves_[wave].row_sums[position % 2][y] =
      step_row(stencil(here, below, above), stencil(here + cells, below + cells, above + cells), size, reaction_,
               made_row.data(), made_row.data() + size);
}

template <typename T>
void Wavefront<T>::settle_row(const Wave& wave, std::uint64_t plane, std::uint64_t y,
                              CheckpointVectors<T>* checkpoint) {
  const std::uint64_t size = grid_.size();
  const T* u = wave.made.data() + y * size;
  const T* v = u + size * size;
  std::copy_n(u, size, grid_.u_plane(plane) + y * size);
  std::copy_n(v, size, grid_.v_plane(plane) + y * size);
  if (checkpoint != nullptr) {
    std::copy_n(u, size, checkpoint->u_plane(plane) + y * size);
    std::copy_n(v, size, checkpoint->v_plane(plane) + y * size);
  }
}

/// What is to be done once all threads have met behind a front: sums, and what is not needed any more may leave memory.
template <typename T>
void Wavefront<T>::look_back(std::uint32_t steps, std::uint64_t front, CheckpointVectors<T>* checkpoint) {
  for (std::uint32_t wave = 0; wave < steps && distance * wave <= front; ++wave) {
    const std::uint64_t position = front - distance * wave;
    if (position < grid_.planes().count) {
      SpeciesSums sums;
      for (const SpeciesSums& row : waves_[wave].row_sums[position % 2]) {
        sums.add(row);
      }
      waves_[wave].plane_sums[plane_at(wave, position) - grid_.planes().first] = sums;
    }
  }
  progress_.add(1);
  if (const std::uint64_t lag = distance * (steps - 1); front > lag) {
    grid_.passed(front - lag + steps - 1);
    if (checkpoint != nullptr) {
      checkpoint->passed(front - lag);
    }
  }
}

template class Wavefront<float>;
template class Wavefront<double>;

}  // namespace tiermap
