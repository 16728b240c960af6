// The run of a simulation: passes of several steps over the grid, and a checkpoint after each so many; alone, or by
// several ranks that have planes of the grid each.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "command_line/report.hpp"
#include "gray-scott/gray_scott_options.hpp"
#include "gray-scott/simulation_check.hpp"
#include "gray-scott/wavefront.hpp"

namespace tiermap {

template <typename T>
class Simulation {
 public:
  Simulation(const SimulationPlan& plan, Grid<T>& grid, MemorySystem& system, Ranks& ranks, ThreadTeam& team,
             ProgressDisplay& progress);

  /// From a checkpoint, or from an initial state.
  void begin(std::uint64_t seed);
  /// All steps; by all ranks. Throws OptionError that says at which step the cells are no numbers any more, and what
  /// writing a checkpoint throws.
  void run();

  std::uint32_t steps_per_pass() const { return wavefront_.most_steps(); }
  std::uint64_t checkpoints() const { return checkpoints_; }
  /// How long no step was made since a checkpoint was not written yet.
  double waited_seconds() const { return waited_seconds_; }
  /// What was not as it must be first, in one line.
  const std::string& imbalance() const { return imbalance_; }
  /// Of the grid as it is; of several ranks each may ask for its own planes.
  PlaneReader<T> reader() const;

 private:
  void make_pass(std::uint64_t steps, bool at_checkpoint);
  void take_sums();
  void finish_checkpoint();

  const SimulationPlan& plan_;
  Grid<T>& grid_;
  MemorySystem& system_;
  Ranks& ranks_;
  ProgressDisplay& progress_;
  Wavefront<T> wavefront_;
  CheckpointState state_;
  SpeciesSums sums_;
  std::vector<SpeciesSums> plane_sums_;  ///< Of the own planes, after each of the last steps.
  std::uint64_t summed_steps_;           ///< Up to which all planes together were looked at.
  std::string imbalance_;
  std::uint64_t checkpoints_ = 0;
  double waited_seconds_ = 0;
  std::future<void> finishing_;  ///< The last checkpoint but one: not valid if it is done.
};

}  // namespace tiermap
