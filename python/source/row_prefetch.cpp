#include "row_prefetch.hpp"

#include <algorithm>

namespace tiermap::python {

std::vector<ByteRange> pages_of_rows(const RowLayout& layout, std::span<const std::int64_t> rows) {
  const std::uint64_t mask = layout.page_bytes - 1;
  std::vector<ByteRange> pages;
  pages.reserve(rows.size());
  for (const std::int64_t row : rows) {
    const std::uint64_t first = layout.offset + static_cast<std::uint64_t>(row) * layout.stride;
    const std::uint64_t last = first + std::max<std::uint64_t>(layout.row_bytes, 1) - 1;
    const std::uint64_t begin = first & ~mask;
    pages.push_back({begin, (last | mask) + 1 - begin});
  }
  std::sort(pages.begin(), pages.end(),
            [](const ByteRange& left, const ByteRange& right) { return left.offset < right.offset; });
  std::size_t kept = 0;
  for (const ByteRange& page : pages) {
    if (kept > 0 && page.offset <= pages[kept - 1].offset + pages[kept - 1].bytes) {
      ByteRange& before = pages[kept - 1];
      before.bytes = std::max(before.offset + before.bytes, page.offset + page.bytes) - before.offset;
    } else {
      pages[kept++] = page;
    }
  }
  pages.resize(kept);
  if (kept > 0 && pages.back().offset + pages.back().bytes > layout.end) {
    pages.back().bytes = layout.end - pages.back().offset;
  }
  return pages;
}

}  // namespace tiermap::python
