// tiermap-gray-scott: a reaction of two species in a cube of cells, which may be larger than memory, with checkpoints.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "gray-scott/gray_scott_options.hpp"
#include "gray-scott/initial_state.hpp"
#include "gray-scott/simulation.hpp"
#include "gray-scott/slice_image.hpp"
#include "platform/memory_limits.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-gray-scott";
constexpr std::uint64_t default_page_size = std::uint64_t{256} << 10U;

/// One run of the program, with cells of type T.
template <typename T>
class GrayScottRun {
 public:
  GrayScottRun(const WorkloadOptions& options, const GrayScottOptions& gray_scott, const SimulationPlan& plan,
               Ranks& ranks)
      : options_(options),
        gray_scott_(gray_scott),
        plan_(plan),
        ranks_(ranks),
        team_(options.threads),
        progress_("preparing", 0) {}

  Report run() {
    check_memory();
    system_ = MemorySystem::make(options_);
    url_ = options_.file.empty() ? scratch_path(program_name, "grid") : options_.file;
    if (!ranks_.alone() && options_.keep && backing_exists(url_)) {
      throw OptionError(fmt::format("{} exists: name a new file by --file, or remove it", url_));
    }
    const StopWatch preparing;
    const std::unique_ptr<Grid<T>> grid =
        ranks_.alone() ? make_grid()
                       : Grid<T>::make_shared(ranks_, options_, plan_.start.size, system_->budget_bytes());
    check_results();
    Simulation<T> simulation(plan_, *grid, *system_, ranks_, team_, progress_);
    simulation.begin(options_.seed);
    report_.fields["prepare_seconds"] = preparing.seconds();

    ranks_.barrier();
    const MessageCounts before = grid->messages();
    Measurement measured(*system_);
    simulation.run();
    measured.pause();
    if (!ranks_.alone()) {
      (grid->messages() - before).describe(ranks_, report_.fields);
    }

    const StopWatch verifying;
    const Survey found = survey<T>(ranks_, plan_.start.size, grid->planes(), simulation.reader());
    grid->publish();
    if (options_.verify || gray_scott_.check_in_memory) {
      verify(simulation, *grid, found);
    }
    report_.fields["verify_seconds"] = verifying.seconds();
    describe(simulation, found, measured);
    keep(*grid, simulation);
    return std::move(report_);
  }

 private:
  std::unique_ptr<Grid<T>> make_grid() {
    system_->check_url(url_);
    const std::uint64_t bytes = Grid<T>::bytes_of(plan_.start.size);
    cells_ = Backing::create(url_, bytes);
    cells_->require_size(bytes, "the grid");
    return Grid<T>::make(*system_, options_, plan_.start.size, *cells_);
  }

  void check_memory() const {
    const std::uint64_t usable = read_machine_memory().usable_bytes();
    const std::uint64_t needed = 2 * Grid<T>::bytes_of(plan_.start.size);
    if (gray_scott_.check_in_memory && needed > usable) {
      throw OptionError(fmt::format("--check-in-memory needs {} of memory, and {} is left: leave it out",
                                    format_size_rounded(needed), format_size_rounded(usable)),
                        ENOMEM);
    }
  }

  /// What is made at the end only: whether it can be is to be known before the steps are.
  void check_results() const {
    if (!gray_scott_.image.empty() && ranks_.is_first()) {
      check_slice_image(gray_scott_.image);
    }
    if (options_.keep && !ranks_.alone() && ranks_.is_first() && is_plain_path(url_)) {
      Backing::create(url_, Grid<T>::bytes_of(plan_.start.size));  // And removes it again.
    }
  }

  /// What there is of the last step: its checkpoint, or else the grid's own store. Of several ranks it is the homes of
  /// all, as far as a rank has not made the planes that it reads.
  PlaneReader<T> stored_result(const Simulation<T>& simulation, Grid<T>& grid) {
    if (plan_.plotgap > 0 && plan_.steps % plan_.plotgap == 0) {
      return checkpoint_reader<T>(checkpoint_path(plan_.checkpoints.folder, plan_.last_step()), plan_.start.size);
    }
    if (!ranks_.alone()) {
      return simulation.reader();
    }
    grid.save();
    cells_->make_cold();
    return grid_reader<T>(*cells_->store(), plan_.start.size);
  }

  PlaneReader<T> start_reader() const {
    if (!plan_.restart.empty()) {
      return checkpoint_reader<T>(plan_.restart, plan_.start.size);
    }
    return [initial = InitialState(plan_.start.size, options_.seed)](std::uint64_t z, T* u, T* v) {
      initial.fill_plane(z, u, v);
    };
  }

  void verify(const Simulation<T>& simulation, Grid<T>& grid, const Survey& found) {
    progress_.restart("checking", 0);
    const PlaneReader<T> stored = stored_result(simulation, grid);
    const VectorRange planes_of_next =
        partition(plan_.start.size, (ranks_.rank() + 1) % ranks_.count(), ranks_.count());
    report_.failure = find_impossible(found);
    if (report_.failure.empty()) {
      report_.failure = simulation.imbalance();
    }
    if (report_.failure.empty() &&
        survey<T>(ranks_, plan_.start.size, planes_of_next, stored).checksum != found.checksum) {
      report_.failure = "what is stored of the last step is not what is in memory";
    }
    if (report_.failure.empty() && gray_scott_.check_in_memory && ranks_.is_first()) {
      compare_with_plain_loops(stored);
    }
    report_.verified = report_.failure.empty();
  }

  void compare_with_plain_loops(const PlaneReader<T>& stored) {
    const double difference =
        difference_from_plain_loops<T>(plan_.start.size, plan_.steps, plan_.start.reaction, start_reader(), stored);
    const double most = plan_.start.doubles ? 1e-10 : 1e-3;
    report_.fields["largest_difference"] = difference;
    if (!(difference <= most)) {
      report_.failure = fmt::format("a cell differs by {:g} from plain loops, and {:g} is the most", difference, most);
    }
  }

  void describe(const Simulation<T>& simulation, const Survey& found, const Measurement& measured) {
    report_.workload = "gray-scott";
    report_.operations = plan_.start.cells() * plan_.steps;
    report_.bytes = Grid<T>::bytes_of(plan_.start.size);
    report_.fields["size"] = plan_.start.size;
    report_.fields["precision"] = plan_.start.doubles ? "double" : "float";
    report_.fields["first_step"] = plan_.start.step;
    report_.fields["last_step"] = plan_.last_step();
    report_.fields["steps_per_pass"] = simulation.steps_per_pass();
    report_.fields["plotgap"] = plan_.plotgap;
    report_.fields["checkpoints"] = simulation.checkpoints();
    report_.fields["checkpoint_bytes"] = simulation.checkpoints() * report_.bytes;
    report_.fields["checkpoint_wait_seconds"] = simulation.waited_seconds();
    report_.fields["sum_u"] = found.sums.u;
    report_.fields["sum_v"] = found.sums.v;
    report_.fields["checksum"] = fmt::format("{:016x}", found.checksum);
    report_.remark = fmt::format("{0}^3 cells, steps {1} to {2}, {3} checkpoints: {4:.4f} of u and {5:.4f} of v a cell",
                                 plan_.start.size, plan_.start.step + 1, plan_.last_step(), simulation.checkpoints(),
                                 found.sums.u / static_cast<double>(plan_.start.cells()),
                                 found.sums.v / static_cast<double>(plan_.start.cells()));
    report_.describe(options_, *system_, measured);
  }

  void keep(Grid<T>& grid, const Simulation<T>& simulation) {
    if (!gray_scott_.image.empty() && ranks_.is_first()) {
      std::vector<T> u(plan_.start.size * plan_.start.size);
      std::vector<T> v(u.size());
      simulation.reader()(plan_.slice, u.data(), v.data());
      write_slice_image(gray_scott_.image, std::vector<double>(v.begin(), v.end()), plan_.start.size);
    }
    if (options_.keep) {
      url_ = ranks_.text_of_first(url_);
      grid.keep_as(url_);
      report_.fields["file"] = url_;
      if (cells_.has_value()) {
        cells_->keep();
      }
    }
  }

  const WorkloadOptions& options_;
  const GrayScottOptions& gray_scott_;
  const SimulationPlan& plan_;
  Ranks& ranks_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::unique_ptr<MemorySystem> system_;
  std::string url_;  ///< Where the grid is, or is kept.
  std::optional<Backing> cells_;
  Report report_;
};

Report run_gray_scott(const WorkloadOptions& options, const GrayScottOptions& gray_scott, Ranks& ranks) {
  const SimulationPlan plan = plan_simulation(options, gray_scott, ranks.count());
  return plan.start.doubles ? GrayScottRun<double>(options, gray_scott, plan, ranks).run()
                            : GrayScottRun<float>(options, gray_scott, plan, ranks).run();
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Computes a reaction of two species in a cube of cells, out of core, with checkpoints.",
                           tiermap::default_page_size);
  tiermap::GrayScottOptions gray_scott;
  tiermap::declare(program.app(), gray_scott);
  return program.run_on_ranks(argc, argv, [&](const tiermap::WorkloadOptions& options, tiermap::Ranks& ranks) {
    return tiermap::run_gray_scott(options, gray_scott, ranks);
  });
}
