// Rows of a mapped file, gone through in order, or put on two sides in place: for trees whose nodes are ranges of rows
// side by side.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "command_line/memory_system.hpp"

namespace tiermap {

/// Rows of a fixed length, and whether what will be touched of them is said in advance.
struct MappedRows {
  MappedBytes& bytes;
  std::uint64_t row_bytes;
  bool hints;

  std::byte* at(std::uint64_t row) const noexcept { return bytes.data() + row * row_bytes; }
  std::uint64_t room() const noexcept { return bytes.size() / row_bytes; }
  /// How many rows are announced at a time.
  std::uint64_t announced() const noexcept { return (std::uint64_t{1} << 20U) / row_bytes + 1; }
  /// Fewer are not worth it.
  bool worth_announcing(std::uint64_t count) const noexcept { return hints && count > 8 * announced(); }
  void announce(std::uint64_t first, std::uint64_t count) const {
    bytes.prefetch({first * row_bytes, count * row_bytes});
  }
};

/// Calls use(row) with all rows of a range, in order.
template <typename Use>
void for_each_row(const MappedRows& rows, std::uint64_t first, std::uint64_t count, const Use& use) {
  const std::uint64_t end = first + count;
  const std::uint64_t ahead = rows.announced();
  const bool hints = rows.worth_announcing(count);
  for (std::uint64_t row = first; row < end;) {
    const std::uint64_t piece_end = std::min(row + ahead, end);
    if (hints && piece_end < end) {
      rows.announce(piece_end, std::min(ahead, end - piece_end));
    }
    for (; row < piece_end; ++row) {
      use(rows.at(row));
    }
  }
}

inline void swap_rows(std::byte* one, std::byte* other, std::uint64_t bytes) noexcept {
  std::array<std::byte, 256> held;
  for (std::uint64_t done = 0; done < bytes; done += held.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(bytes - done, held.size());
    std::memcpy(held.data(), one + done, count);
    std::memcpy(one + done, other + done, count);
    std::memcpy(other + done, held.data(), count);
  }
}

/// Hoare's partition: rows of which is_low(row) is true to the front, the others to the back; returns how many are in
/// front. Each row is shown to low(row) or high(row) once, where it comes to lie. It comes from both ends, and so do
/// the pages. The order that comes out is the same for the same rows.
template <typename IsLow, typename Low, typename High>
std::uint64_t partition_rows(const MappedRows& rows, std::uint64_t first, std::uint64_t count, const IsLow& is_low,
                             const Low& low, const High& high) {
  const std::uint64_t ahead = rows.announced();
  std::uint64_t begin = first;
  std::uint64_t end = first + count;
  std::uint64_t begin_announced = begin;
  std::uint64_t end_announced = end;
  while (begin < end) {
    if (rows.worth_announcing(end - begin)) {
      if (begin + ahead > begin_announced) {
        rows.announce(begin, 2 * ahead);
        begin_announced = begin + 2 * ahead;
      }
      if (end - ahead < end_announced) {
        end_announced = end - 2 * ahead;
        rows.announce(end_announced, 2 * ahead);
      }
    }
    if (is_low(rows.at(begin))) {
      low(rows.at(begin++));
    } else if (!is_low(rows.at(end - 1))) {
      high(rows.at(--end));
    } else {
      swap_rows(rows.at(begin), rows.at(end - 1), rows.row_bytes);
    }
  }
  return begin - first;
}

}  // namespace tiermap
