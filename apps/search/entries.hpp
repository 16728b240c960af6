// What a structure holds, and what is looked up in it: all of it known from a seed, so that every answer can be checked
// although none is kept.
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/random.hpp"

namespace tiermap {

struct Entry {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};

/// The entries of a seed, by rank: the entry of rank 0 has the smallest key.
class Entries {
 public:
  /// A key is its rank and, below it, this many random bits: keys ascend, and between any two there is one that no
  /// entry has.
  static constexpr unsigned random_bits = 24;
  static constexpr std::uint64_t most = std::uint64_t{1} << (64 - random_bits);

  explicit Entries(std::uint64_t seed) noexcept : seed_(seed) {}

  Entry at(std::uint64_t rank) const noexcept {
    const std::uint64_t key = key_of(rank);
    return {key, random_word(~seed_, key)};
  }
  /// A key that no entry has, and that lies beside the one of this rank; which one, `random` decides.
  std::uint64_t absent_key(std::uint64_t rank, std::uint64_t random) const noexcept {
    constexpr std::uint64_t others = (std::uint64_t{1} << random_bits) - 1;
    return key_of(rank) ^ (1 + random % others);
  }

 private:
  std::uint64_t key_of(std::uint64_t rank) const noexcept {
    return rank << random_bits | random_word(seed_, rank) >> (64 - random_bits);
  }

  std::uint64_t seed_;
};

/// A key, and the value that must be found: none if the key must be missed.
struct Lookup {
  std::uint64_t key = 0;
  std::optional<std::uint64_t> value;
};

/// Look-ups of random ranks, the same ones for the same seeds. Ranks may come again.
class LookupSequence {
 public:
  /// Among `count` entries; of a hundred look-ups about `hit_percent` are of keys that are there.
  LookupSequence(Entries entries, std::uint64_t count, std::uint64_t seed, std::uint32_t hit_percent) noexcept
      : entries_(entries), count_(count), seed_(seed), hit_percent_(hit_percent) {}

  Lookup at(std::uint64_t index) const noexcept {
    const std::uint64_t rank = random_word(seed_ ^ rank_salt, index) % count_;
    const std::uint64_t random = random_word(seed_ ^ hit_salt, index);
    if (random % 100 < hit_percent_) {
      const Entry entry = entries_.at(rank);
      return {entry.key, entry.value};
    }
    return {entries_.absent_key(rank, random / 100), std::nullopt};
  }

 private:
  static constexpr std::uint64_t rank_salt = 0x72616e6b;
  static constexpr std::uint64_t hit_salt = 0x686974;

  Entries entries_;
  std::uint64_t count_;
  std::uint64_t seed_;
  std::uint32_t hit_percent_;
};

}  // namespace tiermap
