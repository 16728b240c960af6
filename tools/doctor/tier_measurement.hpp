// `tiermap doctor --tiers`: how fast the places are that tiers could lie in.
#pragma once

#include <string>
#include <vector>

#include "tiermap/tiers.hpp"

namespace tiermap {

/// DRAM and the places, directories and memory servers (remote://HOST:PORT), not measured yet. Throws OptionError for
/// what is neither, and for a place that is named twice.
std::vector<TierOptions> tiers_at(const std::vector<std::string>& places);

/// What a gigabyte of each costs, as PLACE=COST says: `memory`, or a directory or URL as it was named. Throws
/// OptionError.
void set_costs(std::vector<TierOptions>& tiers, const std::vector<std::string>& costs);

/// Measures them by reading what was written there, with direct I/O, and gives each half of what it has free (of a
/// server between a quarter and half); the fastest first. Takes about a second a place, which has to have 64 MiB free,
/// and leaves nothing there. Throws StoreError where no file can be made, and for a server that is not there or has no
/// room.
void measure_tiers(std::vector<TierOptions>& tiers, std::uint64_t bytes_a_block);

/// As read_tiering_options() takes it; where costs are known, with what the capacities cost as comments in front.
std::string tiers_as_yaml(const std::vector<TierOptions>& tiers, std::uint64_t bytes_a_block);

}  // namespace tiermap
