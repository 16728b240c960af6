// A random order by position: where each number stands is computed, so that an order of any length takes no memory.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "parallel/random.hpp"

namespace tiermap {

/// A random order of the numbers under `count`, none of which is stored: a Feistel network over the next power of four,
/// walked until it meets a number that counts (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
class Permutation {
 public:
  /// `count` is 1 at least.
  Permutation(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {
    half_bits_ = (static_cast<unsigned>(std::bit_width(count - 1)) + 1) / 2;
    half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
  }

  /// The number at a place, for places under `count`.
  std::uint64_t at(std::uint64_t place) const noexcept {
    do {
      place = forth(place);
    } while (place >= count_);
    return place;
  }

  /// The place of a number: at(place_of(number)) is the number.
  std::uint64_t place_of(std::uint64_t number) const noexcept {
    do {
      number = back(number);
    } while (number >= count_);
    return number;
  }

 private:
  static constexpr std::uint64_t rounds = 4;

  std::uint64_t forth(std::uint64_t word) const noexcept {
    std::uint64_t left = word >> half_bits_;
    std::uint64_t right = word & half_mask_;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      left = std::exchange(right, left ^ mask(round, right));
    }
    return left << half_bits_ | right;
  }
  std::uint64_t back(std::uint64_t word) const noexcept {
    std::uint64_t left = word >> half_bits_;
    std::uint64_t right = word & half_mask_;
    for (std::uint64_t round = rounds; round-- > 0;) {
      right = std::exchange(left, right ^ mask(round, left));
    }
    return left << half_bits_ | right;
  }
  std::uint64_t mask(std::uint64_t round, std::uint64_t half) const noexcept {
    return random_word(seed_ + round, half) & half_mask_;
  }

  std::uint64_t count_;
  std::uint64_t seed_;
  unsigned half_bits_ = 0;
  std::uint64_t half_mask_ = 0;
};

}  // namespace tiermap
