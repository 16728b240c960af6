// Random numbers of the clustering: each purpose has a seed of its own.
#pragma once

#include <cstdint>

#include "parallel/random.hpp"

namespace tiermap {

enum class Purpose : std::uint8_t { first_point, rounds, reclustering, centres, sizes, members, places };

/// The seed of a purpose that follows from the user's.
constexpr std::uint64_t seed_of(std::uint64_t seed, Purpose purpose, std::uint64_t index = 0) noexcept {
  return random_word(random_word(seed, static_cast<std::uint64_t>(purpose)), index);
}

/// The index-th random number of a seed, from 0 on and below 1.
constexpr double random_share(std::uint64_t seed, std::uint64_t index) noexcept {
  return static_cast<double>(random_word(seed, index) >> 11U) * 0x1p-53;
}

}  // namespace tiermap
