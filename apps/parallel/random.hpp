// Random numbers by position: the i-th number of a seed is the same whoever asks, in whatever order. So that what is
// generated does not depend on how many threads generate it.
#pragma once

#include <cstdint>

namespace tiermap {

/// A bijection of 64-bit words in which every input bit reaches every output bit (the finalizer of splitmix64).
constexpr std::uint64_t mix_word(std::uint64_t word) noexcept {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31U);
}

/// The index-th random word of a seed.
constexpr std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) noexcept {
  return mix_word(mix_word(seed + 0x9e3779b97f4a7c15U) + (index + 1) * 0x9e3779b97f4a7c15U);
}

}  // namespace tiermap
