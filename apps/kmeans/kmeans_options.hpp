// What tiermap-kmeans is told beside the shared options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line/options.hpp"
#include "kmeans/initial_centroids.hpp"
#include "kmeans/lloyd.hpp"

namespace tiermap {

/// The program's own options, as they are typed.
struct KMeansOptions {
  std::string points;
  std::string dimensions;
  std::string clusters = "8";
  std::string rounds = "5";
  std::string oversampling = "2";
  std::string iterations = "100";
  std::string tolerance = "0.0001";
  std::string assignments;
  std::string truth;
  bool check_in_memory = false;
  CLI::App* generate = nullptr;  ///< The word that asks for points and no clusters.

  /// Whether the points are to be made.
  bool makes_points() const { return points.empty(); }
  bool only_generates() const;
};

/// Declares them on `app`; `kmeans` must stay.
void declare(CLI::App& app, KMeansOptions& kmeans);

/// What can be known to be wrong before anything is read or made. Throws OptionError, as do those that follow: one line
/// that names the value and the remedy.
void check_options(const WorkloadOptions& options, const KMeansOptions& kmeans);

std::uint32_t parse_clusters(const KMeansOptions& kmeans);
/// Nothing if the file is to tell.
std::optional<std::uint32_t> parse_dimensions(const KMeansOptions& kmeans);
InitialOptions parse_initial(const WorkloadOptions& options, const KMeansOptions& kmeans);
LloydOptions parse_lloyd(const KMeansOptions& kmeans);
/// How large the points to be made are: as many whole ones as --bytes has room for.
std::uint64_t generated_bytes(const WorkloadOptions& options, const KMeansOptions& kmeans);

}  // namespace tiermap
