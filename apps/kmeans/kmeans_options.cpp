#include "kmeans/kmeans_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "command_line/backing.hpp"
#include "config/size.hpp"
#include "points/point_memory.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t default_point_bytes = std::uint64_t{1} << 30U;
constexpr std::uint64_t most_clusters = 16384;
constexpr std::uint32_t generated_dimensions = 3;

void refuse_what_exists(const std::string& url, const char* option) {
  if (backing_exists(url)) {
    throw OptionError(fmt::format("{} exists: name a new file by {}, or remove it", url, option));
  }
}

void check_assignments(const std::string& url, const char* option) {
  if (!url.empty() && !names_one_file(url)) {
    throw OptionError(fmt::format("{} is not one plain file: name one by {}", url, option));
  }
  refuse_what_exists(url, option);
}

void check_generated(const WorkloadOptions& options, const KMeansOptions& kmeans) {
  if (options.file.empty()) {
    throw OptionError("generate makes a file of points: name it by --file");
  }
  if (parse_store_url(options.file).scheme == "memory") {
    throw OptionError(fmt::format("{} is gone as soon as the points are made: name a file", options.file));
  }
  if (!kmeans.points.empty() || !kmeans.assignments.empty() || kmeans.check_in_memory) {
    throw OptionError(
        "generate makes points and clusters none: name the file to be made by --file alone, and leave out "
        "--assignments "
        "and --check-in-memory");
  }
  check_assignments(kmeans.truth, "--truth");
}

}  // namespace

bool KMeansOptions::only_generates() const {
  return generate->parsed();
}

void declare(CLI::App& app, KMeansOptions& kmeans) {
  app.add_option("points", kmeans.points,
                 "URL or path of the points: floats, those of a point one after the other (default: generate)");
  app.add_option("--dimensions", kmeans.dimensions,
                 "Coordinates of a point (default: what the file's format says, else 3)");
  app.add_option("--clusters", kmeans.clusters, "Clusters to find, and to plant in generated points (default: 8)");
  app.add_option("--rounds", kmeans.rounds, "Rounds in which points are drawn as first centroids (default: 5)");
  app.add_option("--oversampling", kmeans.oversampling, "Points drawn in a round for each cluster (default: 2)");
  app.add_option("--iterations", kmeans.iterations, "Iterations at most (default: 100)");
  app.add_option("--tolerance", kmeans.tolerance,
                 "Ends when an iteration makes the inertia smaller by no more of it (default: 0.0001)");
  app.add_option("--assignments", kmeans.assignments,
                 "File to be made: the number of the cluster of each point, in four bytes (default: a scratch file)");
  app.add_option(
      "--truth", kmeans.truth,
      "File with the number of the cluster that each point belongs to: to be compared with, or with generate "
      "to be made");
  app.add_flag("--check-in-memory", kmeans.check_in_memory, "Compare with plain iterations over all points in memory");
  kmeans.generate = app.add_subcommand("generate", "Makes a file of points with planted clusters, at --file");
  kmeans.generate->fallthrough();
  show_options_of_program(*kmeans.generate, {"--file", "--bytes", "--dimensions", "--clusters", "--truth", "--threads",
                                             "--seed", "--json"});
}

void check_options(const WorkloadOptions& options, const KMeansOptions& kmeans) {
  parse_dimensions(kmeans);
  parse_initial(options, kmeans);
  parse_lloyd(kmeans);
  if (kmeans.only_generates()) {
    check_generated(options, kmeans);
  }
  check_assignments(kmeans.assignments, "--assignments");
  if (kmeans.makes_points()) {
    generated_bytes(options, kmeans);
    refuse_what_exists(options.file, "--file");
    if (!kmeans.truth.empty() && !kmeans.only_generates()) {
      throw OptionError(
          "--truth is of points that are there: name them, or leave it out, as it is known of points that "
          "are made");
    }
  } else if (!options.file.empty() || options.bytes.has_value()) {
    throw OptionError(
        fmt::format("{} is there to be read, and --file and --bytes are for points to be made: leave one of "
                    "the two out",
                    kmeans.points));
  }
}

std::uint32_t parse_clusters(const KMeansOptions& kmeans) {
  return static_cast<std::uint32_t>(parse_whole_number(kmeans.clusters, "clusters", 1, most_clusters));
}

std::optional<std::uint32_t> parse_dimensions(const KMeansOptions& kmeans) {
  if (kmeans.dimensions.empty()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(parse_whole_number(kmeans.dimensions, "dimensions", 1, most_dimensions));
}

InitialOptions parse_initial(const WorkloadOptions& options, const KMeansOptions& kmeans) {
  InitialOptions initial;
  initial.clusters = parse_clusters(kmeans);
  initial.rounds = static_cast<std::uint32_t>(parse_whole_number(kmeans.rounds, "rounds", 1, 100));
  initial.oversampling = parse_real_number(kmeans.oversampling, "oversampling", 0.1, 100);
  initial.seed = options.seed;
  return initial;
}

LloydOptions parse_lloyd(const KMeansOptions& kmeans) {
  LloydOptions lloyd;
  lloyd.iterations = static_cast<std::uint32_t>(parse_whole_number(kmeans.iterations, "iterations", 1, 1'000'000));
  lloyd.tolerance = parse_real_number(kmeans.tolerance, "tolerance", 0, 1);
  return lloyd;
}

std::uint64_t generated_bytes(const WorkloadOptions& options, const KMeansOptions& kmeans) {
  const std::uint64_t point_bytes = parse_dimensions(kmeans).value_or(generated_dimensions) * sizeof(float);
  const std::uint64_t bytes = options.bytes.value_or(default_point_bytes);
  if (bytes / point_bytes < parse_clusters(kmeans)) {
    throw OptionError(fmt::format("{} are {} points of {} bytes, fewer than {} clusters: choose more --bytes",
                                  format_size(bytes), bytes / point_bytes, point_bytes, parse_clusters(kmeans)));
  }
  return bytes / point_bytes * point_bytes;
}

}  // namespace tiermap
