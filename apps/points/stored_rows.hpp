// Rows of a table in a store, gone through in order, without a mapping.
#pragma once

#include <algorithm>
#include <cstdint>

#include "command_line/backing.hpp"
#include "points/point_memory.hpp"

namespace tiermap {

/// Calls use(row's number, its numbers) with the rows of a range, in order, until it returns false. Throws as
/// read_fully().
template <typename Use>
void for_each_stored_row(Store& table, const PointLayout& layout, VectorRange range, const Use& use) {
  constexpr std::uint64_t bytes_at_once = std::uint64_t{1} << 20U;
  constexpr std::uint64_t rows_of_whole_blocks = 1024;  // Of the disk, whatever the number of columns.
  const std::uint64_t row_bytes = layout.dimensions * sizeof(float);
  const std::uint64_t at_once =
      std::max<std::uint64_t>(bytes_at_once / row_bytes / rows_of_whole_blocks, 1) * rows_of_whole_blocks;
  AlignedBuffer rows(at_once * row_bytes);
  const std::uint64_t end = range.first + range.count;
  for (std::uint64_t first = range.first; first < end; first += at_once) {
    const std::uint64_t count = std::min(at_once, end - first);
    read_fully(table, rows.data(), count * row_bytes, first * row_bytes);
    for (std::uint64_t index = 0; index < count; ++index) {
      if (!use(first + index, rows.as_span<float>().data() + index * layout.dimensions)) {
        return;
      }
    }
  }
}

}  // namespace tiermap
