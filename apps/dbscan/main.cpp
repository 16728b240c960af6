// tiermap-dbscan: puts points, which together may be larger than memory, into clusters of any shape by DBSCAN, and
// writes down which one each is in.
#include <fmt/format.h>

#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "dbscan/dbscan_options.hpp"
#include "dbscan/density_check.hpp"
#include "dbscan/density_clusters.hpp"
#include "dbscan/point_tree.hpp"
#include "dbscan/rank_clusters.hpp"
#include "dbscan/shared_row_exchange.hpp"
#include "points/cluster_truth.hpp"
#include "points/particles.hpp"
#include "points/point_memory.hpp"
#include "points/point_pass.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-dbscan";
constexpr std::uint64_t default_page_size = std::uint64_t{256} << 10U;
/// Fewer points are a leaf of the tree, however far apart.
constexpr std::uint32_t least_to_split = 32;
constexpr std::uint64_t most_points = 0x7fffffffU;
constexpr std::uint64_t most_compared_in_memory = 100'000;
/// With as many clusters as were planted the two are to agree at least so far.
constexpr double least_agreement = 0.9;

class DbscanRun {
 public:
  DbscanRun(const WorkloadOptions& options, const DbscanOptions& dbscan, Ranks& ranks)
      : options_(options), dbscan_(dbscan), ranks_(ranks), team_(options.threads), progress_("preparing", 0) {}

  Report run() {
    check_options(options_, dbscan_);
    if (dbscan_.makes_points()) {
      refuse_ranks_that_make_points(ranks_);
    }
    ranks_.barrier();  // What is not to be there is made from here on.
    system_ = MemorySystem::make(options_);
    const std::string& url = dbscan_.makes_points() ? options_.file : dbscan_.points;
    if (!url.empty()) {
      system_->check_url(url);
    }
    const StopWatch preparing;
    prepare();
    report_.fields["prepare_seconds"] = preparing.seconds();
    Measurement measured(*system_);
    const DensityCounts counts = ranks_.alone() ? cluster() : cluster_with_others();
    measured.pause();
    if (options_.verify || dbscan_.check_in_memory) {
      report_.verified = true;
      if (ranks_.is_first()) {
        verify(counts);
      }
    }
    describe(counts);
    report_.describe(options_, *system_, measured);
    keep_files();
    return std::move(report_);
  }

 private:
  void prepare() {
    if (dbscan_.makes_points()) {
      make_points();
    } else {
      points_ = Backing::open(dbscan_.points, false);
      layout_ = layout_of_points(*points_->store(), parse_point_dimensions(dbscan_));
    }
    if (!dbscan_.truth.empty()) {
      truth_ = stored_truth(Backing::open(dbscan_.truth, false).store(), layout_.points);
    }
    check_size();
    points_->make_cold();
    // From here on it is only read.
    points_->reopen_read_only();
    plan_ = {static_cast<std::uint32_t>(layout_.points), layout_.dimensions, parse_reach(dbscan_), least_to_split};
    make_labels();
  }

  /// One file, which the first rank makes.
  void make_labels() {
    const std::string own = dbscan_.labels.empty() ? scratch_path(program_name, "labels") : dbscan_.labels;
    if (ranks_.is_first()) {
      labels_ = Backing::create(own, layout_.points * sizeof(std::uint32_t));
    }
    const std::string path = ranks_.text_of_first(own);
    if (!ranks_.is_first()) {
      labels_ = Backing::open(path, true);
    }
  }

  /// A scratch file as memory.
  std::unique_ptr<MappedBytes> make_room(const char* what, std::uint64_t bytes) {
    scratch_.push_back(Backing::create(scratch_path(program_name, what), bytes));
    return system_->map(scratch_.back(), Access::read_write);
  }

  void make_points() {
    const std::uint64_t bytes = generated_point_bytes(options_, dbscan_);
    points_ = Backing::create(options_.file.empty() ? scratch_path(program_name, "points") : options_.file, bytes);
    layout_ = layout_of_points(*points_->store(), parse_point_dimensions(dbscan_));
    progress_.restart("generating", bytes);
    particles_.emplace(parse_planted_clusters(dbscan_), layout_.dimensions, options_.seed);
    write_particles(*particles_, *points_->store(), nullptr, team_, progress_);
    truth_ = planted_truth(*particles_);
  }

  void check_size() const {
    if (layout_.dimensions > most_tree_dimensions) {
      throw OptionError(fmt::format("{} has points of {} dimensions, and a tree may have {}: choose some of them",
                                    points_->url(), layout_.dimensions, most_tree_dimensions));
    }
    if (layout_.points > most_points) {
      throw OptionError(fmt::format("{} has {} points, and {} can be clustered at once: name a part of them",
                                    points_->url(), layout_.points, most_points));
    }
    if (dbscan_.check_in_memory && layout_.points > most_compared_in_memory) {
      throw OptionError(
          fmt::format("--check-in-memory compares every point with every other, and there are {}: leave it "
                      "out, or take {} of them at most",
                      layout_.points, most_compared_in_memory));
    }
  }

  DensityCounts cluster() {
    const auto rows = make_room("rows", PointTree::rows_bytes(plan_));
    const auto nodes = make_room("nodes", PointTree::nodes_bytes(plan_));
    const auto links = make_room("links", layout_.points * sizeof(std::uint32_t));
    const auto labels = system_->map(*labels_, Access::read_write);
    PointTree tree(plan_, *rows, *nodes, options_.prefetch);
    const StopWatch loading;
    load(tree);
    report_.fields["load_seconds"] = loading.seconds();
    const StopWatch building;
    tree.build(team_, progress_);
    report_.fields["build_seconds"] = building.seconds();
    DensityClusters clusters(tree, *links, parse_neighbours(dbscan_), team_, progress_);
    const DensityCounts counts = clusters.find();
    clusters.write_labels(*labels, system_->budget_bytes() / 4);
    labels->save();
    report_.fields["micro_clusters"] = tree.leaves();
    return counts;
  }

  DensityCounts cluster_with_others() {
    const RankWork work{*points_->store(),
                        layout_,
                        plan_.reach,
                        least_to_split,
                        parse_neighbours(dbscan_),
                        [this](const char* what, std::uint64_t bytes) { return make_room(what, bytes); },
                        options_.prefetch,
                        system_->budget_bytes() / 4};
    SharedRowExchange exchange(ranks_);
    RankClusters clusters(work, exchange, team_, progress_);
    const DensityCounts counts = clusters.find();
    clusters.visit_labels([this](std::uint64_t first, std::span<const std::uint32_t> labels) {
      write_fully(*labels_->store(), labels.data(), labels.size_bytes(), first * sizeof(std::uint32_t));
    });
    if (const int result = labels_->store()->flush(); result != 0) {
      throw StoreError(-result, fmt::format("{} cannot be written: choose another file by --labels", labels_->url()));
    }
    ranks_.barrier();
    exchange.messages().describe(ranks_, report_.fields);
    std::vector<std::uint64_t> sums{clusters.leaves(), clusters.halo_points()};
    ranks_.add_up(sums);
    report_.fields["micro_clusters"] = sums[0];
    report_.fields["halo_points"] = sums[1];
    return counts;
  }

  /// The points are read once, in order; from then on their rows are.
  void load(PointTree& tree) {
    const std::unique_ptr<PointMemory> memory = PointMemory::make(*system_, options_, layout_, *points_, *labels_);
    progress_.restart("loading", layout_.points);
    for_each_piece({*memory, team_, progress_, ranks_}, Assignments::left, part_count(layout_.points, 1),
                   [&](std::uint32_t, std::uint64_t, const PointPiece& piece) {
                     for (std::uint64_t index = 0; index < piece.count; ++index) {
                       const float* const point = piece.coordinates + index * layout_.dimensions;
                       refuse_if_misplaced(piece.first + index, point, layout_.dimensions);
                       const auto number = static_cast<std::uint32_t>(piece.first + index);
                       tree.set_row(number, point, number);
                     }
                   });
  }

  void verify(const DensityCounts& counts) {
    labels_->make_cold();
    const LabelledPoints files{*points_->store(), *labels_->store(), layout_, plan_.reach, parse_neighbours(dbscan_)};
    progress_.restart("checking", layout_.points);
    Agreement agreement;
    report_.failure = find_wrong_label(files, counts, truth_.get(), agreement, progress_);
    if (report_.failure.empty() && truth_ != nullptr && counts.clusters > 0) {
      check_agreement(agreement, counts.clusters);
    }
    if (report_.failure.empty() && dbscan_.check_in_memory) {
      progress_.restart("checking in memory", layout_.points);
      report_.failure = compare_with_plain_labels(files, progress_);
    }
    report_.verified = report_.failure.empty();
  }

  void check_agreement(const Agreement& agreement, std::uint64_t clusters) {
    const double index = agreement.adjusted_rand_index();
    report_.fields["adjusted_rand_index"] = index;
    if (agreement.others() == clusters && index < least_agreement) {
      report_.failure = fmt::format(
          "the clusters are not those that were planted: the adjusted Rand index is {:.3f}, "
          "where {} is the least",
          index, least_agreement);
    }
  }

  void describe(const DensityCounts& counts) {
    report_.workload = "dbscan";
    report_.operations = layout_.points;
    report_.bytes = layout_.bytes();
    report_.fields["points"] = layout_.points;
    report_.fields["dimensions"] = layout_.dimensions;
    report_.fields["reach"] = plan_.reach;
    report_.fields["neighbours"] = parse_neighbours(dbscan_);
    report_.fields["clusters"] = counts.clusters;
    report_.fields["core_points"] = counts.core;
    report_.fields["border_points"] = counts.border;
    report_.fields["noise_points"] = counts.noise;
    report_.remark = fmt::format("{} points of {} dimensions in {} clusters, {} in none", layout_.points,
                                 layout_.dimensions, counts.clusters, counts.noise);
    if (report_.fields.contains("adjusted_rand_index")) {
      report_.remark += fmt::format(", adjusted Rand index {:.4f} against those planted",
                                    report_.fields.at("adjusted_rand_index").get<double>());
    }
  }

  void keep_files() {
    if (!dbscan_.labels.empty() && ranks_.is_first()) {
      report_.fields["labels"] = labels_->url();
      labels_->keep();
    }
    if (options_.keep && dbscan_.makes_points()) {
      report_.fields["file"] = points_->url();
      points_->keep();
    }
  }

  const WorkloadOptions options_;
  const DbscanOptions& dbscan_;
  Ranks& ranks_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::unique_ptr<MemorySystem> system_;
  std::optional<Particles> particles_;
  std::unique_ptr<ClusterTruth> truth_;
  std::optional<Backing> points_;
  std::list<Backing> scratch_;
  std::optional<Backing> labels_;
  PointLayout layout_;
  TreePlan plan_;
  Report report_;
};

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(
      tiermap::program_name,
      "Puts points into clusters of any shape by DBSCAN, out of core, and writes down which one each is in.",
      tiermap::default_page_size);
  tiermap::DbscanOptions dbscan;
  tiermap::declare(program.app(), dbscan);
  return program.run_on_ranks(argc, argv, [&](const tiermap::WorkloadOptions& options, tiermap::Ranks& ranks) {
    return tiermap::DbscanRun(options, dbscan, ranks).run();
  });
}
