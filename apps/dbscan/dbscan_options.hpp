// What tiermap-dbscan is told beside the shared options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line/options.hpp"

namespace tiermap {

/// The program's own options, as they are typed.
struct DbscanOptions {
  std::string points;
  std::string dimensions;
  std::string clusters = "8";
  std::string reach = "8";
  std::string neighbours = "64";
  std::string labels;
  std::string truth;
  bool check_in_memory = false;

  /// Whether the points are to be made.
  bool makes_points() const { return points.empty(); }
};

/// Declares them on `app`; `dbscan` must stay.
void declare(CLI::App& app, DbscanOptions& dbscan);

/// What can be known to be wrong before anything is read or made. Throws OptionError, as do those that follow: one line
/// that names the value and the remedy.
void check_options(const WorkloadOptions& options, const DbscanOptions& dbscan);

double parse_reach(const DbscanOptions& dbscan);
std::uint32_t parse_neighbours(const DbscanOptions& dbscan);
std::uint32_t parse_planted_clusters(const DbscanOptions& dbscan);
/// Nothing if the file is to tell.
std::optional<std::uint32_t> parse_point_dimensions(const DbscanOptions& dbscan);
/// How large the points to be made are: as many whole ones as --bytes has room for.
std::uint64_t generated_point_bytes(const WorkloadOptions& options, const DbscanOptions& dbscan);

}  // namespace tiermap
