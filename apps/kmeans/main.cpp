// tiermap-kmeans: puts points, which together may be larger than memory, into clusters by k-means, and writes down
// which one each is in.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "kmeans/clustering_check.hpp"
#include "kmeans/initial_centroids.hpp"
#include "kmeans/kmeans_options.hpp"
#include "kmeans/lloyd.hpp"
#include "platform/memory_limits.hpp"
#include "points/cluster_truth.hpp"
#include "points/particles.hpp"
#include "points/point_memory.hpp"
#include "points/point_numbers.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-kmeans";
constexpr std::uint64_t default_page_size = std::uint64_t{1} << 20U;
/// With as many clusters as were planted the two are to agree at least so far.
constexpr double least_agreement = 0.9;

/// What is no plain file is read by fillers, each of which waits for the page that it reads, or decodes it: it takes
/// many of them to keep a disk or a network at work.
WorkloadOptions with_enough_fillers(WorkloadOptions options, const KMeansOptions& kmeans) {
  constexpr std::uint32_t reads_in_flight = 16;
  if (!kmeans.makes_points() && !names_one_file(kmeans.points)) {
    options.fillers = reads_in_flight;
  }
  return options;
}

/// One run of the program: points, a system, clusters.
class KMeansRun {
 public:
  KMeansRun(const WorkloadOptions& options, const KMeansOptions& kmeans, Ranks& ranks)
      : options_(with_enough_fillers(options, kmeans)),
        kmeans_(kmeans),
        ranks_(ranks),
        team_(options.threads),
        progress_("preparing", 0) {}

  Report run() {
    check_options(options_, kmeans_);
    if (kmeans_.makes_points()) {
      refuse_ranks_that_make_points(ranks_);
    }
    ranks_.barrier();  // All have looked what is there before one makes anything.
    system_ = MemorySystem::make(options_);
    if (kmeans_.only_generates()) {
      return generate();
    }
    const std::string& url = kmeans_.makes_points() ? options_.file : kmeans_.points;
    if (!url.empty()) {
      system_->check_url(url);
    }
    const StopWatch preparing;
    prepare();
    report_.fields["prepare_seconds"] = preparing.seconds();
    const StopWatch loading;
    const std::unique_ptr<PointMemory> memory =
        PointMemory::make(*system_, options_, layout_, *points_, assignments_->mapped());
    report_.fields["load_seconds"] = loading.seconds();
    cluster(*memory);
    return std::move(report_);
  }

 private:
  Report generate() {
    Measurement measured(*system_);
    make_points(options_.file, kmeans_.truth);
    points_->make_cold();
    measured.pause();
    report_.workload = "kmeans-generate";
    report_.operations = layout_.points;
    report_.bytes = layout_.bytes();
    describe_points();
    report_.fields["file"] = points_->url();
    report_.describe(options_, *system_, measured);
    points_->keep();
    return std::move(report_);
  }

  void make_points(const std::string& url, const std::string& truth_url) {
    const std::uint64_t bytes = generated_bytes(options_, kmeans_);
    points_ = Backing::create(url, bytes);
    points_->require_size(bytes, "the points");
    layout_ = layout_of_points(*points_->store(), parse_dimensions(kmeans_));
    std::optional<Backing> truth;
    if (!truth_url.empty()) {
      truth = Backing::create(truth_url, layout_.points * sizeof(std::uint32_t));
    }
    progress_.restart("generating", bytes);
    particles_.emplace(parse_clusters(kmeans_), layout_.dimensions, options_.seed);
    write_particles(*particles_, *points_->store(), truth ? truth->store().get() : nullptr, team_, progress_);
    if (truth) {
      truth->make_cold();
      truth->keep();
    }
  }

  void prepare() {
    if (kmeans_.makes_points()) {
      make_points(options_.file.empty() ? scratch_path(program_name, "points") : options_.file, "");
      truth_ = planted_truth(*particles_);
    } else {
      points_ = Backing::open(kmeans_.points, false);
      layout_ = layout_of_points(*points_->store(), parse_dimensions(kmeans_));
    }
    if (!kmeans_.truth.empty()) {
      truth_ = stored_truth(Backing::open(kmeans_.truth, false).store(), layout_.points);
    }
    if (parse_clusters(kmeans_) > layout_.points) {
      throw OptionError(fmt::format("{} clusters are more than the {} points of {}: choose --clusters {}, or fewer",
                                    kmeans_.clusters, layout_.points, points_->url(), layout_.points));
    }
    check_memory();
    points_->make_cold();
    // From here on it is only read.
    points_->reopen_read_only();
    assignments_.emplace(ranks_, program_name, "assignments", kmeans_.assignments, layout_.points);
  }

  void check_memory() const {
    const std::uint64_t usable = read_machine_memory().usable_bytes();
    if (kmeans_.check_in_memory && layout_.bytes() > usable) {
      throw OptionError(fmt::format("--check-in-memory needs {} of memory, and {} is left: leave it out",
                                    format_size_rounded(layout_.bytes()), format_size_rounded(usable)),
                        ENOMEM);
    }
  }

  void cluster(PointMemory& memory) {
    const PointPass pass{memory, team_, progress_, ranks_};
    Measurement measured(*system_);
    const StopWatch choosing;
    const InitialCentroids initial = choose_initial_centroids(pass, parse_initial(options_, kmeans_));
    report_.fields["initial_seconds"] = choosing.seconds();
    const Clustering clustering = iterate(pass, initial.centroids, parse_lloyd(kmeans_));
    progress_.restart("writing assignments", 0);
    memory.save_assignments();
    assignments_->put(clustering.assigned);
    measured.pause();

    const StopWatch verifying;
    if (options_.verify || kmeans_.check_in_memory) {
      verify(initial, clustering);
    }
    report_.fields["verify_seconds"] = verifying.seconds();
    describe(initial, clustering);
    report_.describe(options_, *system_, measured);
    keep_files();
  }

  void verify(const InitialCentroids& initial, const Clustering& clustering) {
    const ClusteringFiles files{*points_->store(), assignments_->cold_store(), layout_};
    progress_.restart("checking", layout_.points);
    Agreement agreement;
    report_.failure = find_wrong_assignment(files, clustering, truth_.get(), agreement, progress_, ranks_);
    if (report_.failure.empty() && truth_ != nullptr) {
      check_agreement(agreement, clustering.centroids.size());
    }
    if (report_.failure.empty() && kmeans_.check_in_memory && ranks_.is_first()) {
      progress_.restart("checking in memory", layout_.points * clustering.iterations);
      report_.failure = compare_with_plain_lloyd(files, initial.centroids, clustering, progress_);
    }
    report_.verified = report_.failure.empty();
  }

  void check_agreement(const Agreement& agreement, std::uint32_t clusters) {
    const double index = agreement.adjusted_rand_index();
    report_.fields["adjusted_rand_index"] = index;
    if (agreement.others() == clusters && index < least_agreement) {
      report_.failure = fmt::format(
          "the clusters are not those that were planted: the adjusted Rand index is {:.3f}, "
          "where {} is the least",
          index, least_agreement);
    }
  }

  void describe_points() {
    report_.fields["points"] = layout_.points;
    report_.fields["dimensions"] = layout_.dimensions;
    report_.fields["clusters"] = parse_clusters(kmeans_);
  }

  void describe(const InitialCentroids& initial, const Clustering& clustering) {
    report_.workload = "kmeans";
    // Each round, each iteration, and the last looks of both.
    report_.operations = layout_.points * (initial.rounds + clustering.iterations + 2);
    report_.bytes = layout_.bytes();
    describe_points();
    report_.fields["rounds"] = initial.rounds;
    report_.fields["candidates"] = initial.candidates;
    report_.fields["iterations"] = clustering.iterations;
    report_.fields["converged"] = clustering.converged;
    report_.fields["inertia"] = clustering.inertia;
    report_.fields["sizes"] = clustering.sizes;
    report_.fields["centroids"] = nlohmann::ordered_json::array();
    for (std::uint32_t cluster = 0; cluster < clustering.centroids.size(); ++cluster) {
      report_.fields["centroids"].push_back(clustering.centroids.point(cluster));
    }
    report_.remark =
        fmt::format("{} points of {} dimensions in {} clusters: inertia {:.6g} after {} iterations", layout_.points,
                    layout_.dimensions, clustering.centroids.size(), clustering.inertia, clustering.iterations);
    if (report_.fields.contains("adjusted_rand_index")) {
      report_.remark += fmt::format(", adjusted Rand index {:.4f} against those planted",
                                    report_.fields.at("adjusted_rand_index").get<double>());
    }
  }

  void keep_files() {
    if (!kmeans_.assignments.empty()) {
      report_.fields["assignments"] = assignments_->url();
      assignments_->keep();
    }
    if (options_.keep && kmeans_.makes_points()) {
      report_.fields["file"] = points_->url();
      points_->keep();
    }
  }

  const WorkloadOptions options_;
  const KMeansOptions& kmeans_;
  Ranks& ranks_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::unique_ptr<MemorySystem> system_;
  std::optional<Particles> particles_;
  std::unique_ptr<ClusterTruth> truth_;
  std::optional<Backing> points_;
  std::optional<PointNumbers> assignments_;
  PointLayout layout_;
  Report report_;
};

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Puts points into clusters by k-means, out of core, and writes down which one each is in.",
                           tiermap::default_page_size);
  tiermap::KMeansOptions kmeans;
  tiermap::declare(program.app(), kmeans);
  return program.run_on_ranks(argc, argv, [&](const tiermap::WorkloadOptions& options, tiermap::Ranks& ranks) {
    return tiermap::KMeansRun(options, kmeans, ranks).run();
  });
}
