// Which pages a gather of rows needs, as the few ranges that a prefetch is asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tiermap/region.hpp"

namespace tiermap::python {

/// Rows of an array inside a region, in bytes from the region's start.
struct RowLayout {
  std::uint64_t offset = 0;      ///< Of row 0.
  std::uint64_t stride = 0;      ///< From one row to the next.
  std::uint64_t row_bytes = 0;   ///< Of one row, at most the stride.
  std::uint64_t page_bytes = 0;  ///< Of the region, a power of two.
  std::uint64_t end = 0;         ///< The region's size: no range goes beyond.
};

/// The pages that hold these rows, each once, in the order of their addresses, neighbours as one range.
std::vector<ByteRange> pages_of_rows(const RowLayout& layout, std::span<const std::int64_t> rows);

}  // namespace tiermap::python
