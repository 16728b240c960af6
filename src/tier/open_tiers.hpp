// Tiers as their options say, with memory that they are promised.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tier/tier.hpp"

namespace tiermap {

/// The fastest first. Those in memory have no more of their capacity than is left beside what caches and other tiers of
/// this process may still take, which `warn` is told; they take no more than the store behind them has, `most_bytes`.
/// Throws OptionError and StoreError.
std::vector<std::unique_ptr<Tier>> open_tiers(const TieringOptions& options, std::uint64_t most_bytes,
                                              const std::function<void(const std::string&)>& warn);

}  // namespace tiermap
