#include "tier/open_tiers.hpp"

#include <algorithm>
#include <utility>

#include "config/size.hpp"
#include "platform/memory_limits.hpp"
#include "tier/tiering_options.hpp"

namespace tiermap {
namespace {

/// The program takes memory that nobody promised it.
constexpr std::uint64_t most_spared_bytes = std::uint64_t{1} << 30;

/// As much as it may take, or as is left.
MemoryPromise promise_memory(std::uint64_t wanted_bytes, std::uint64_t block_bytes) {
  const std::uint64_t machine_bytes = read_machine_memory().most_bytes();
  if (machine_bytes == 0) {  // Nothing is known.
    return MemoryPromise(wanted_bytes);
  }
  const auto choose = [&](std::uint64_t left_bytes) {
    return std::min(wanted_bytes, std::max(left_bytes / block_bytes, std::uint64_t{1}) * block_bytes);
  };
  return MemoryPromise(choose, std::min(machine_bytes / 8, most_spared_bytes));
}

}  // namespace

std::vector<std::unique_ptr<Tier>> open_tiers(const TieringOptions& options, std::uint64_t most_bytes,
                                              const std::function<void(const std::string&)>& warn) {
  check_tiering_options(options);
  std::vector<std::unique_ptr<Tier>> tiers;
  for (TierOptions tier : tiers_by_speed(options)) {
    MemoryPromise memory;
    if (is_in_memory(tier)) {
      const std::uint64_t blocks = most_bytes / options.block_bytes + 1;  // The last may be a part.
      const std::uint64_t wanted = std::min(tier.capacity_bytes / options.block_bytes, blocks) * options.block_bytes;
      memory = promise_memory(wanted, options.block_bytes);
      if (memory.bytes() < wanted) {
        warn("tier " + quote_value(tier.name) + " has " + format_size_rounded(memory.bytes()) + " of its capacity of " +
             format_size_rounded(tier.capacity_bytes) +
             ": no more memory is left beside what caches and other tiers may take: give those, or it, less");
        tier.capacity_bytes = memory.bytes();
      }
    }
    tiers.push_back(std::make_unique<Tier>(tier, options.block_bytes));
    tiers.back()->hold(std::move(memory));
  }
  return tiers;
}

}  // namespace tiermap
