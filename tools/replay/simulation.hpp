// Access traces played through the very policy objects that the engine uses, driven as the engine drives them, and
// through two that no engine could have: LRU that sees every hit, and Belady's optimum, which sees the future.
//
// A page is one unit. Once the cache is full, an evictor keeps the policy's share of it unmapped; a touch of an
// unmapped page is a rescue; a miss frees what the policy names. Or pages are dropped, as the engine does with small
// ones: then what the policy names is gone, but for one in so many. Everything happens at once and in order: there are
// no threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "cache/eviction_policy.hpp"
#include "replay/access_trace.hpp"

namespace tiermap::simulation {

struct Outcome {
  std::uint64_t misses = 0;
  std::uint64_t rescues = 0;
};

/// Whether pages that are to go are kept unmapped for a while first.
struct SecondChance {
  bool all = true;
  /// Unless all: one in so many is kept, the others are dropped.
  std::uint32_t one_in = 64;
};

/// Requires a capacity of 2 frames or more. `batch` pages are unmapped at a time.
Outcome run_policy(const Trace& trace, std::string_view name, std::uint32_t capacity, const PolicyOptions& wishes,
                   std::uint32_t batch, SecondChance second_chance = {});

/// Misses of LRU that sees every touch.
std::uint64_t lru_misses(const Trace& trace, std::uint32_t capacity);

/// Misses of Belady's optimum: the page goes that is wanted again last. No policy that has to keep the page that was
/// touched has fewer.
std::uint64_t optimal_misses(const Trace& trace, std::uint32_t capacity);

}  // namespace tiermap::simulation
