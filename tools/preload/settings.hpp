// What `tiermap run` tells the library in the program's memory, by variables of the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tiermap::preload {

/// The variables. Lists are separated by line feeds.
inline constexpr const char* match_variable = "TIERMAP_RUN_MATCH";
inline constexpr const char* exclude_variable = "TIERMAP_RUN_EXCLUDE";
inline constexpr const char* minimum_size_variable = "TIERMAP_RUN_MINIMUM_SIZE";
inline constexpr const char* read_only_variable = "TIERMAP_RUN_READ_ONLY";
inline constexpr const char* serve_all_variable = "TIERMAP_RUN_SERVE_ALL";
inline constexpr const char* verbose_variable = "TIERMAP_RUN_VERBOSE";
/// A path to append to, or "-" for standard error.
inline constexpr const char* report_variable = "TIERMAP_RUN_REPORT";
/// The number of the process that `tiermap run` became.
inline constexpr const char* process_variable = "TIERMAP_RUN_PROCESS";

struct Settings {
  std::vector<std::string> match;
  std::vector<std::string> exclude;
  std::uint64_t minimum_bytes = 1 << 20;
  bool read_only = false;  ///< Shared mappings that can be written are the kernel's.
  bool serve_all = false;  ///< Also what fits in memory.
  bool verbose = false;
  std::string report;          ///< Empty: none.
  bool first_process = false;  ///< This is the program that was named, and none that it started.
};

/// Never throws for what a variable says: a size that cannot be read is as if it were not set.
Settings read_settings();

/// Null if the file may be served. With no `match` every one may, unless the mapping is private.
const char* why_not_chosen(const Settings& settings, std::string_view path, bool private_mapping);

/// The same of a mapping that is smaller than the least that is served: with whatever else stands against it, so that
/// who changes the size is not told of the rest afterwards.
const char* why_small_not_chosen(const Settings& settings, std::string_view path, bool private_mapping);

}  // namespace tiermap::preload
