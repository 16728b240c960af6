// What tiermap-gray-scott is told beside the shared options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line/options.hpp"
#include "gray-scott/checkpoint.hpp"

namespace tiermap {

/// The program's own options, as they are typed.
struct GrayScottOptions {
  std::string size;
  std::string precision;
  std::string steps = "100";
  std::string plotgap = "10";
  std::string checkpoints;
  std::string checkpoint;
  std::string tiers;
  std::string restart;
  std::string feed;
  std::string kill;
  std::string diffusion_u;
  std::string diffusion_v;
  std::string time_step;
  std::string image;
  std::string slice;
  std::string steps_per_pass;
  bool check_in_memory = false;
};

/// Declares them on `app`; `gray_scott` must stay.
void declare(CLI::App& app, GrayScottOptions& gray_scott);

/// What is to be computed, checked.
struct SimulationPlan {
  CheckpointState start;  ///< Where it begins: after which step, of which size, by which rates.
  std::string restart;    ///< The checkpoint that it begins with; empty: with an initial state of its own.
  std::uint64_t steps = 0;
  std::uint64_t plotgap = 0;  ///< Steps between checkpoints; 0: there are none.
  std::uint64_t slice = 0;
  std::optional<std::uint32_t> steps_per_pass;
  CheckpointOptions checkpoints;

  std::uint64_t last_step() const { return start.step + steps; }
};

/// Reads of a checkpoint to begin with what is known of it. Makes nothing. Throws OptionError, one line that names the
/// value and the remedy, and StoreError.
SimulationPlan plan_simulation(const WorkloadOptions& options, const GrayScottOptions& gray_scott,
                               std::uint32_t ranks = 1);

}  // namespace tiermap
