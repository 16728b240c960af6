// What tiermap-random-forest is told beside the shared options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line/options.hpp"
#include "points/point_memory.hpp"
#include "random-forest/bagging.hpp"
#include "random-forest/tree_growth.hpp"

namespace tiermap {

/// The program's own options, as they are typed.
struct ForestOptions {
  std::string table;
  std::string columns;
  std::string trees = "10";
  std::string depth = "10";
  std::string features_tried;
  std::string least_rows = "2";
  std::string least_gain = "0";
  std::string exact_rows = "8192";
  std::string bagging = "counted";
  std::string sample = "1";
  std::string hold_out = "5";
  std::string classes = "8";
  std::string forest;
  std::string predictions;
  bool check_in_memory = false;
  CLI::App* generate = nullptr;  ///< The word that asks for a table and no forest.
  CLI::App* predict = nullptr;   ///< The word that asks for the classes that a forest says.

  bool only_generates() const;
  bool only_predicts() const;
  /// Whether the table is to be made.
  bool makes_table() const { return table.empty(); }
};

/// Declares them on `app`; `forest` must stay.
void declare(CLI::App& app, ForestOptions& forest);

/// What can be known to be wrong before anything is read or made. Throws OptionError, as do those that follow: one line
/// that names the value and the remedy.
void check_options(const WorkloadOptions& options, const ForestOptions& forest);

/// Of a table whose format does not say it: features and the class.
inline constexpr std::uint32_t default_columns = 7;
inline constexpr PointTerms table_terms{"rows", "columns", "--columns", "tiermap-random-forest generate",
                                        default_columns};

/// Features and the class. Nothing if the file is to tell.
std::optional<std::uint32_t> parse_columns(const ForestOptions& forest);
GrowthPlan parse_growth(const ForestOptions& forest, std::uint32_t features, std::uint32_t classes);
BagPlan parse_bag(const ForestOptions& forest);
std::uint32_t parse_trees(const ForestOptions& forest);
std::uint32_t parse_hold_out(const ForestOptions& forest);
std::uint32_t parse_planted_classes(const ForestOptions& forest);
/// How large the table to be made is: as many whole rows as --bytes has room for.
std::uint64_t generated_table_bytes(const WorkloadOptions& options, const ForestOptions& forest);

}  // namespace tiermap
