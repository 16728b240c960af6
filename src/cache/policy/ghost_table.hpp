// Remembers which pages were evicted lately, without their bytes: a fixed table of hashed keys, four to a set, each
// with the number of the eviction that put it there and a note of whoever did. A page that comes back while it is
// remembered was evicted too early.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "platform/lazy_array.hpp"

namespace tiermap {

/// Not thread-safe; no call allocates or throws but the constructor. Two pages are mistaken for one another with a
/// chance of about one in four million a look-up.
class GhostTable {
 public:
  static constexpr std::uint8_t largest_note = 127;
  struct Remembered {
    std::uint64_t evictions_since;
    std::uint8_t note;
  };
  /// Room for the last `entries` evictions at least, 16 to 32 bytes each.
  explicit GhostTable(std::size_t entries)
      : sets_(std::bit_ceil(std::max<std::size_t>(entries, 4)) * 2 / ways), set_mask_(sets_.size() - 1) {}

  /// Uses only so much of the table that `entries` evictions fit; what was remembered elsewhere is forgotten.
  void limit(std::size_t entries) noexcept {
    const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(entries, 4)) * 2 / ways;
    set_mask_ = std::min(wanted, sets_.size()) - 1;
  }
  /// Remembers an evicted page in place of the one of its set that was evicted first.
  void insert(std::uint64_t page_hash, std::uint8_t note = 0) noexcept {
    Set& set = set_of(page_hash);
    Ghost* oldest = std::min_element(set.ghosts, set.ghosts + ways,
                                     [this](const Ghost& left, const Ghost& right) { return age(left) > age(right); });
    *oldest = {mark_of(page_hash) << note_bits | note, ++evictions_};
  }
  /// Forgets the page; true if it was among the last `reach` that were inserted.
  bool take(std::uint64_t page_hash, std::uint64_t reach) noexcept {
    const std::optional<Remembered> remembered = take(page_hash);
    return remembered && remembered->evictions_since < reach;
  }
  /// Forgets the page; what was known of it, if it was remembered.
  std::optional<Remembered> take(std::uint64_t page_hash) noexcept {
    for (Ghost& ghost : set_of(page_hash).ghosts) {
      if (ghost.mark_and_note >> note_bits == mark_of(page_hash)) {
        const Remembered remembered{age(ghost), static_cast<std::uint8_t>(ghost.mark_and_note & largest_note)};
        ghost = {};
        return remembered;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t ways = 4;
  static constexpr unsigned note_bits = 7;
  struct Ghost {
    std::uint32_t mark_and_note;  ///< Never zero in use.
    std::uint32_t eviction;
  };
  struct Set {
    Ghost ghosts[ways];
  };

  static std::uint32_t mark_of(std::uint64_t page_hash) noexcept {
    return static_cast<std::uint32_t>(page_hash >> (32 + note_bits)) | 1U;
  }
  Set& set_of(std::uint64_t page_hash) noexcept { return sets_[page_hash & set_mask_]; }
  /// Evictions since; an empty place is older than any. Numbers wrap around, which the subtraction allows for.
  std::uint64_t age(const Ghost& ghost) const noexcept {
    return ghost.mark_and_note == 0 ? std::uint64_t{1} << 32 : evictions_ - ghost.eviction;
  }

  LazyArray<Set> sets_;
  std::size_t set_mask_;
  std::uint32_t evictions_ = 0;
};

}  // namespace tiermap
