// From what a program set in code, the environment and a YAML file to plain values, each checked and each knowing where
// it came from. Code wins over environment over file over default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tiermap/options.hpp"

namespace tiermap {

/// CacheOptions with every value decided.
struct ResolvedCacheOptions {
  std::uint64_t budget_bytes;
  FaultMode fault_mode;
  Placement placement;
  std::string policy;
  std::uint32_t hot_share_percent;
  std::uint32_t unmapped_share_percent;  ///< 0: the policy's own.
  std::uint32_t high_watermark_percent;
  std::uint32_t low_watermark_percent;
  bool watermarks_chosen;  ///< By somebody: what they say holds for pages of every size.
  std::uint32_t fillers;
  std::uint32_t evictors;
  std::uint32_t managers;
  std::uint32_t max_fault_events;
  std::uint32_t shards;
  std::uint32_t spin_microseconds;
  bool adapt_budget;
  std::uint32_t adapt_history_periods;
  std::uint32_t adapt_forecast_periods;
  std::uint32_t adapt_period_milliseconds;
  bool publish_statistics;
  std::string name;
  std::string trace_file;                                 ///< Empty: none.
  std::shared_ptr<AccessSource> access_source = nullptr;  ///< May be empty.
  bool budget_chosen = false;                             ///< By somebody.
  std::string budget_share;                               ///< As "50%", of what was left; empty: a size was given.
};

/// The two values of RegionOptions that environment and file may set.
struct ResolvedRegionOptions {
  std::uint64_t page_size_bytes;
  std::uint64_t read_ahead_bytes;
  bool page_size_follows_access = false;  ///< Nobody chose it.
};

/// The budget where `left_bytes` of memory are left.
std::uint64_t budget_bytes(const ResolvedCacheOptions& options, std::uint64_t left_bytes);

/// Throws OptionError, one line that names the value, where it came from, and the remedy.
ResolvedCacheOptions resolve(const CacheOptions& options);
ResolvedRegionOptions resolve(const RegionOptions& options);

/// One option as `tiermap config` prints it.
struct OptionReport {
  std::string name;                     ///< As in YAML: page_size.
  std::string environment;              ///< TIERMAP_PAGE_SIZE.
  std::string value;                    ///< As it would be written: 64KiB.
  std::string origin;                   ///< "default", "environment", "file /path:line".
  std::string meaning;                  ///< One sentence, with unit and range.
  std::optional<std::uint64_t> number;  ///< The value as a number, for all but words: the bytes that 50% mean now.
};
/// Every option as environment and file leave it. Throws like resolve().
std::vector<OptionReport> report_options();

}  // namespace tiermap
