#include "gray-scott/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "gray-scott/initial_state.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

template <typename T>
Simulation<T>::Simulation(const SimulationPlan& plan, Grid<T>& grid, MemorySystem& system, Ranks& ranks,
                          ThreadTeam& team, ProgressDisplay& progress)
    : plan_(plan),
      grid_(grid),
      system_(system),
      ranks_(ranks),
      progress_(progress),
      wavefront_(grid, plan.start.reaction, team, progress,
                 !ranks.alone()
                     ? 1
                     : plan.steps_per_pass.value_or(Wavefront<T>::steps_for(plan.start.size, system.budget_bytes()))),
      state_(plan.start),
      summed_steps_(plan.start.step) {}

template <typename T>
void Simulation<T>::begin(std::uint64_t seed) {
  const std::uint64_t size = grid_.size();
  const std::uint64_t cells = size * size;
  const InitialState initial(size, seed);
  const PlaneReader<T> stored = plan_.restart.empty()
                                    ? PlaneReader<T>([&](std::uint64_t z, T* u, T* v) { initial.fill_plane(z, u, v); })
                                    : checkpoint_reader<T>(plan_.restart, size);
  // The kernel is not to be handed memory that is not there yet.
  std::vector<T> plane(2 * cells);
  const VectorRange planes = grid_.planes();
  grid_.begin_pass(planes.count, 1);
  for (std::uint64_t done = 0; done < planes.count; ++done) {
    stored(planes.first + done, plane.data(), plane.data() + cells);
    std::copy(plane.begin(), plane.end(), grid_.u_plane(planes.first + done));
    grid_.passed(done + 1);
  }
  grid_.end_pass();
  sums_ = survey<T>(ranks_, size, planes, reader()).sums;
  if (!std::isfinite(sums_.u + sums_.v)) {  // The next step would have the time step blamed for it.
    throw OptionError(
        fmt::format("{} has cells that are no finite numbers: restart from a checkpoint before it, or make it again",
                    plan_.restart));
  }
}

template <typename T>
PlaneReader<T> Simulation<T>::reader() const {
  return [this](std::uint64_t z, T* u, T* v) {
    const std::uint64_t cells = grid_.size() * grid_.size();
    std::copy_n(grid_.u_plane(z), cells, u);
    std::copy_n(grid_.v_plane(z), cells, v);
  };
}

template <typename T>
void Simulation<T>::run() {
  while (state_.step < plan_.last_step()) {
    const std::uint64_t made = state_.step - plan_.start.step;
    const std::uint64_t until_checkpoint = plan_.plotgap > 0 ? plan_.plotgap - made % plan_.plotgap : plan_.steps;
    const std::uint64_t steps =
        std::min({until_checkpoint, plan_.last_step() - state_.step, std::uint64_t{wavefront_.most_steps()}});
    make_pass(steps, plan_.plotgap > 0 && steps == until_checkpoint);
    if (finishing_.valid() && finishing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      finish_checkpoint();  // Why it could not be written is not to wait for the next one.
    }
  }
  progress_.restart("finishing checkpoints", 0);
  finish_checkpoint();
}

template <typename T>
void Simulation<T>::make_pass(std::uint64_t steps, bool at_checkpoint) {
  progress_.restart(fmt::format("steps {} to {}", state_.step + 1, state_.step + steps), grid_.size());
  CheckpointState reached = state_;
  reached.step += steps;
  std::shared_ptr<CheckpointVectors<T>> vectors;
  if (at_checkpoint && plan_.checkpoints.background) {
    vectors =
        std::make_shared<CheckpointVectors<T>>(plan_.checkpoints, reached, *system_.cache(), system_.page_size_bytes());
  }
  const std::vector<SpeciesSums> made = wavefront_.advance(static_cast<std::uint32_t>(steps), vectors.get());
  plane_sums_.insert(plane_sums_.end(), made.begin(), made.end());
  state_ = reached;
  constexpr std::uint64_t most_unsummed = 32;  // What is told to all ranks is told seldom.
  if (ranks_.alone() || at_checkpoint || state_.step == plan_.last_step() ||
      state_.step - summed_steps_ == most_unsummed) {
    take_sums();
  }
  checkpoints_ += at_checkpoint ? 1 : 0;
  if (vectors != nullptr) {
    finish_checkpoint();
    finishing_ = std::async(std::launch::async, [vectors] { vectors->finish(); });
  } else if (at_checkpoint) {
    const StopWatch writing;
    write_checkpoint(plan_.checkpoints, reached, grid_, ranks_);
    waited_seconds_ += writing.seconds();
  }
}

/// Sums of planes, added up in the order of planes, whoever made them.
template <typename T>
void Simulation<T>::take_sums() {
  const std::vector<SpeciesSums> of_planes = ranks_.gather(std::exchange(plane_sums_, {}));
  std::vector<SpeciesSums> sums(state_.step - summed_steps_);
  auto next = of_planes.begin();
  for (std::uint32_t rank = 0; rank < ranks_.count(); ++rank) {
    const VectorRange planes = partition(grid_.size(), rank, ranks_.count());
    for (SpeciesSums& after : sums) {
      for (std::uint64_t plane = 0; plane < planes.count; ++plane) {
        after.add(*next++);
      }
    }
  }
  for (const SpeciesSums& after : sums) {
    ++summed_steps_;
    if (!std::isfinite(after.u + after.v)) {
      throw OptionError(
          fmt::format("step {}: there are cells that are no finite numbers any more: choose a smaller "
                      "--time-step than {:g}, or less diffusion",
                      summed_steps_, state_.reaction.time_step));
    }
    if (imbalance_.empty()) {
      imbalance_ = find_imbalance(sums_, after, state_.reaction, state_.cells(), state_.doubles, summed_steps_);
    }
    sums_ = after;
  }
}

/// At most one is being finished while the next one is made.
template <typename T>
void Simulation<T>::finish_checkpoint() {
  if (finishing_.valid()) {
    const StopWatch waiting;
    finishing_.get();
    waited_seconds_ += waiting.seconds();
  }
}

template class Simulation<float>;
template class Simulation<double>;

}  // namespace tiermap
