// What tiers may be: checks, and the YAML file.
#pragma once

#include <string>
#include <vector>

#include "tiermap/tiers.hpp"

namespace tiermap {

/// Throws OptionError, one line with the tier's name and the remedy.
void check_tiering_options(const TieringOptions& options);

/// Takes DRAM of this process.
bool is_in_memory(const TierOptions& tier) noexcept;

/// The tiers as they are used: of those whose bandwidth or latency is known the fastest first, for a block, and of
/// equally fast ones the cheapest, in the places where such are listed; the others stay in theirs.
std::vector<TierOptions> tiers_by_speed(const TieringOptions& options);
/// What is to be said of that; empty if they are listed so.
std::string order_of_tiers(const TieringOptions& options);

/// What `yaml` says; `path` is for messages. Throws as read_tiering_options().
TieringOptions parse_tiering_options(const std::string& yaml, const std::string& path);

}  // namespace tiermap
