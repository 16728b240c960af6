#include "dbscan/dbscan_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "command_line/backing.hpp"
#include "config/size.hpp"
#include "dbscan/point_tree.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t default_bytes = std::uint64_t{256} << 20U;
constexpr std::uint32_t default_dimensions = 3;

}  // namespace

void declare(CLI::App& app, DbscanOptions& dbscan) {
  app.add_option("points", dbscan.points,
                 "URL or path of the points: floats, those of a point one after the other (default: generate)");
  app.add_option("--dimensions", dbscan.dimensions,
                 "Coordinates of a point (default: what the file's format says, else 3)");
  app.add_option("--reach", dbscan.reach, "How far from a point its neighbours may be (epsilon; default: 8)");
  app.add_option("--neighbours", dbscan.neighbours,
                 "Points within reach, itself counted, that make one a core point (min_pts; default: 64)");
  app.add_option("--clusters", dbscan.clusters, "Clusters to plant in generated points (default: 8)");
  app.add_option(
      "--labels", dbscan.labels,
      "File to be made: the number of the cluster of each point, in four bytes, all ones for none (default: a "
      "scratch file)");
  app.add_option("--truth", dbscan.truth,
                 "File with the number of the cluster that each point belongs to, to be compared with, as "
                 "`tiermap-kmeans generate` makes it");
  app.add_flag("--check-in-memory", dbscan.check_in_memory,
               "Compare with a plain search of every point's neighbours among all, of 100000 points at most");
}

void check_options(const WorkloadOptions& options, const DbscanOptions& dbscan) {
  parse_point_dimensions(dbscan);
  parse_reach(dbscan);
  parse_neighbours(dbscan);
  parse_planted_clusters(dbscan);
  if (!dbscan.labels.empty() && !names_one_file(dbscan.labels)) {
    throw OptionError(fmt::format("{} is not one plain file: name one by --labels", dbscan.labels));
  }
  for (const auto& [url, option] : {std::pair(dbscan.labels, "--labels"), std::pair(options.file, "--file")}) {
    if (!url.empty() && backing_exists(url)) {
      throw OptionError(fmt::format("{} exists: name a new file by {}, or remove it", url, option));
    }
  }
  if (dbscan.makes_points()) {
    generated_point_bytes(options, dbscan);
    if (!dbscan.truth.empty()) {
      throw OptionError(
          "--truth is of points that are there: name them, or leave it out, as it is known of points that are made");
    }
  } else if (!options.file.empty() || options.bytes.has_value()) {
    throw OptionError(fmt::format(
        "{} is there to be read, and --file and --bytes are for points to be made: leave one of the two out",
        dbscan.points));
  }
}

double parse_reach(const DbscanOptions& dbscan) {
  const std::string& text = dbscan.reach;
  double reach = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), reach);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(reach) || reach <= 0) {
    throw OptionError(fmt::format("reach {} is no number above 0: choose one by --reach", text));
  }
  return reach;
}

std::uint32_t parse_neighbours(const DbscanOptions& dbscan) {
  return static_cast<std::uint32_t>(parse_whole_number(dbscan.neighbours, "neighbours", 1, 1'000'000'000));
}

std::uint32_t parse_planted_clusters(const DbscanOptions& dbscan) {
  return static_cast<std::uint32_t>(parse_whole_number(dbscan.clusters, "clusters", 1, 16384));
}

std::optional<std::uint32_t> parse_point_dimensions(const DbscanOptions& dbscan) {
  if (dbscan.dimensions.empty()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(parse_whole_number(dbscan.dimensions, "dimensions", 1, most_tree_dimensions));
}

std::uint64_t generated_point_bytes(const WorkloadOptions& options, const DbscanOptions& dbscan) {
  const std::uint64_t point_bytes = parse_point_dimensions(dbscan).value_or(default_dimensions) * sizeof(float);
  const std::uint64_t bytes = options.bytes.value_or(default_bytes);
  if (bytes < point_bytes) {
    throw OptionError(
        fmt::format("{} are no whole point of {} bytes: choose more --bytes", format_size(bytes), point_bytes));
  }
  return bytes / point_bytes * point_bytes;
}

}  // namespace tiermap
