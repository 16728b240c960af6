#include "gray-scott/gray_scott_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_size = 8;
constexpr std::uint64_t most_size = 8192;
constexpr std::uint64_t most_steps = 1'000'000'000;
constexpr std::uint64_t most_steps_a_pass = 64;

/// `text`, or if it is empty what is there already: the checkpoint's that `restart` names.
void take_rate(const std::string& text, const std::string& restart, const char* what, double most, double& rate) {
  if (text.empty()) {
    if (!(rate >= 0 && rate <= most)) {
      throw OptionError(fmt::format("{} says that {} is {}, which is no number from 0 to {}: choose one by --{}",
                                    restart, what, rate, most, what));
    }
    return;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error != std::errc{} || end != text.data() + text.size() || !(rate >= 0 && rate <= most)) {
    throw OptionError(fmt::format("{} {} is no number from 0 to {}: choose one", what, text, most));
  }
}

void take_reaction(const GrayScottOptions& gray_scott, const std::string& restart, Reaction& reaction) {
  take_rate(gray_scott.feed, restart, "feed", 1, reaction.feed);
  take_rate(gray_scott.kill, restart, "kill", 1, reaction.kill);
  take_rate(gray_scott.diffusion_u, restart, "diffusion-u", 100, reaction.diffusion_u);
  take_rate(gray_scott.diffusion_v, restart, "diffusion-v", 100, reaction.diffusion_v);
  take_rate(gray_scott.time_step, restart, "time-step", 1000, reaction.time_step);
}

CheckpointState start_of(const GrayScottOptions& gray_scott, const std::string& restart) {
  CheckpointState start;
  start.size = gray_scott.size.empty() ? 128 : parse_whole_number(gray_scott.size, "size", least_size, most_size);
  if (!gray_scott.precision.empty() && gray_scott.precision != "float" && gray_scott.precision != "double") {
    throw OptionError(fmt::format("precision {} is unknown: choose float or double", gray_scott.precision));
  }
  start.doubles = gray_scott.precision == "double";
  if (!restart.empty()) {
    const CheckpointState there = read_checkpoint_state(restart);
    if (!gray_scott.size.empty() && start.size != there.size) {
      throw OptionError(fmt::format("{} is of size {}, not {}: leave --size out", restart, there.size, start.size));
    }
    if (!gray_scott.precision.empty() && start.doubles != there.doubles) {
      throw OptionError(fmt::format("{} has {}s, not {}s: leave --precision out", restart,
                                    there.doubles ? "double" : "float", gray_scott.precision));
    }
    if (there.size < least_size || there.size > most_size) {
      throw OptionError(
          fmt::format("{} is of size {}: choose one of {} to {}", restart, there.size, least_size, most_size));
    }
    start = there;
  }
  take_reaction(gray_scott, restart, start.reaction);
  return start;
}

/// Several ranks have one grid as a shared vector, and go through it step by step.
void check_ranks(const WorkloadOptions& options, const GrayScottOptions& gray_scott, std::uint64_t size,
                 std::uint32_t ranks) {
  if (ranks > size) {
    throw OptionError(fmt::format("{} ranks cannot share {} planes: start {} at most", ranks, size, size));
  }
  if (options.system != System::tiermap) {
    throw OptionError(fmt::format("--system {} is for one process, and there are {} ranks: leave it out",
                                  system_name(options.system), ranks));
  }
  if (gray_scott.checkpoint == "background") {
    throw OptionError("ranks write checkpoints between the steps: leave --checkpoint background out");
  }
  if (!gray_scott.steps_per_pass.empty() && gray_scott.steps_per_pass != "1") {
    throw OptionError(
        fmt::format("ranks make one step a pass, not {}: leave --steps-per-pass out", gray_scott.steps_per_pass));
  }
}

CheckpointOptions checkpoints_of(const WorkloadOptions& options, const GrayScottOptions& gray_scott,
                                 std::uint32_t ranks) {
  CheckpointOptions checkpoints{gray_scott.checkpoints, gray_scott.tiers,
                                options.system == System::tiermap && ranks == 1};
  if (!gray_scott.checkpoint.empty()) {
    if (gray_scott.checkpoint != "background" && gray_scott.checkpoint != "synchronous") {
      throw OptionError(
          fmt::format("checkpoint {} is unknown: choose background or synchronous", gray_scott.checkpoint));
    }
    checkpoints.background = gray_scott.checkpoint == "background";
    if (checkpoints.background && options.system != System::tiermap) {
      throw OptionError(
          fmt::format("checkpoint background takes vectors, which are Tiermap's: choose --checkpoint "
                      "synchronous with --system {}",
                      system_name(options.system)));
    }
  }
  if (checkpoints.folder.empty()) {
    if (!gray_scott.tiers.empty() || !gray_scott.checkpoint.empty()) {
      throw OptionError("--tiers and --checkpoint are for checkpoints: name a folder by --checkpoints");
    }
  } else if (!std::filesystem::is_directory(checkpoints.folder)) {
    throw OptionError(fmt::format("{} is no folder: make it, or name another by --checkpoints", checkpoints.folder));
  }
  if (!gray_scott.tiers.empty()) {
    static_cast<void>(read_tiering_options(gray_scott.tiers));
  }
  return checkpoints;
}

void refuse_checkpoints_that_are_there(const SimulationPlan& plan) {
  const std::map<std::uint64_t, std::string> there = finished_checkpoints(plan.checkpoints.folder);
  const auto next = there.upper_bound(plan.start.step);
  if (next != there.end() && next->first <= plan.last_step()) {
    throw OptionError(fmt::format("{} exists: name another folder by --checkpoints, or remove it", next->second));
  }
}

void check_image(const std::string& image) {
  if (!image.empty() && !image.ends_with(".pgm") && !image.ends_with(".ppm")) {
    throw OptionError(fmt::format("{} is neither .pgm (grey) nor .ppm (in colours): choose one", image));
  }
  if (!image.empty() && path_exists(image)) {
    throw OptionError(fmt::format("{} exists: name a new file by --image, or remove it", image));
  }
}

}  // namespace

void declare(CLI::App& app, GrayScottOptions& gray_scott) {
  app.add_option("--size", gray_scott.size, "Cells along each edge of the cube (default: 128)");
  app.add_option("--precision", gray_scott.precision, "float or double (default: float)");
  app.add_option("--steps", gray_scott.steps, "Steps to make (default: 100)");
  app.add_option("--plotgap", gray_scott.plotgap, "Steps from one checkpoint to the next (default: 10)");
  app.add_option("--checkpoints", gray_scott.checkpoints, "Folder for checkpoints, HDF5 files (default: none)");
  app.add_option("--checkpoint", gray_scott.checkpoint,
                 "background: while the next steps are made; synchronous: between the steps, by plain writes");
  app.add_option("--tiers", gray_scott.tiers, "YAML file of tiers in front of the checkpoints");
  app.add_option("--restart", gray_scott.restart,
                 "Checkpoint to go on from, by its rates, or a folder: its last one (default: begin anew)");
  app.add_option("--feed", gray_scott.feed, "How fast u is fed (default: 0.025)");
  app.add_option("--kill", gray_scott.kill, "How fast v is killed, beside that (default: 0.055)");
  app.add_option("--diffusion-u", gray_scott.diffusion_u, "How fast u spreads (default: 0.08)");
  app.add_option("--diffusion-v", gray_scott.diffusion_v, "How fast v spreads (default: 0.04)");
  app.add_option("--time-step", gray_scott.time_step, "Time between two steps (default: 1)");
  app.add_option("--image", gray_scott.image, "Picture of v in one plane at the end: a new .pgm or .ppm");
  app.add_option("--slice", gray_scott.slice, "Which plane (default: the middle one)");
  app.add_option("--steps-per-pass", gray_scott.steps_per_pass,
                 "Steps made in one pass over the grid (default: by memory)");
  app.add_flag("--check-in-memory", gray_scott.check_in_memory, "Compare with plain loops over arrays in memory");
}

SimulationPlan plan_simulation(const WorkloadOptions& options, const GrayScottOptions& gray_scott,
                               std::uint32_t ranks) {
  if (options.bytes) {
    throw OptionError("a grid has a size and no --bytes: choose --size");
  }
  SimulationPlan plan;
  plan.steps = parse_whole_number(gray_scott.steps, "steps", 1, most_steps);
  plan.plotgap = parse_whole_number(gray_scott.plotgap, "plotgap", 1, most_steps);
  if (!gray_scott.steps_per_pass.empty()) {
    plan.steps_per_pass = static_cast<std::uint32_t>(
        parse_whole_number(gray_scott.steps_per_pass, "steps-per-pass", 1, most_steps_a_pass));
  }
  plan.checkpoints = checkpoints_of(options, gray_scott, ranks);
  plan.plotgap = plan.checkpoints.folder.empty() ? 0 : plan.plotgap;
  check_image(gray_scott.image);
  plan.restart = gray_scott.restart.empty() ? "" : find_checkpoint(gray_scott.restart);
  plan.start = start_of(gray_scott, plan.restart);
  if (ranks > 1) {
    check_ranks(options, gray_scott, plan.start.size, ranks);
  }
  plan.slice = gray_scott.slice.empty() ? plan.start.size / 2
                                        : parse_whole_number(gray_scott.slice, "slice", 0, plan.start.size - 1);
  if (plan.plotgap > 0) {
    refuse_checkpoints_that_are_there(plan);
  }
  return plan;
}

}  // namespace tiermap
