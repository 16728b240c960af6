// One well-mixed number for a page, for tables that remember pages no longer in memory.
#pragma once

#include <cstdint>

#include "cache/eviction_policy.hpp"

namespace tiermap {

/// Mixes the bits of a number so that each bit of the result depends on all of them (a bijection).
inline std::uint64_t mix_bits(std::uint64_t value) noexcept {
  value ^= value >> 31;
  value *= 0x9fb21c651e98df25ULL;
  value ^= value >> 29;
  value *= 0xd6e8feb86659fd93ULL;
  return value ^ (value >> 32);
}

/// The same page always yields the same number; different pages of one region never collide.
inline std::uint64_t hash_of(PageKey key) noexcept {
  return mix_bits(key.page + mix_bits(std::uint64_t{key.region} + 1));
}

}  // namespace tiermap
