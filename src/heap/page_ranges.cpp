#include "heap/page_ranges.hpp"

#include <algorithm>
#include <iterator>

namespace tiermap {

void PageRanges::add(PageRange range) {
  if (range.begin >= range.end) {
    return;
  }
  auto place = ranges_.upper_bound(range.begin);
  if (place != ranges_.begin() && std::prev(place)->second >= range.begin) {
    --place;
    range.begin = place->first;
  }
  while (place != ranges_.end() && place->first <= range.end) {
    range.end = std::max(range.end, place->second);
    place = ranges_.erase(place);
  }
  ranges_.emplace_hint(place, range.begin, range.end);
}

void PageRanges::add_all(PageRanges& other) {
  if (ranges_.empty()) {
    ranges_.swap(other.ranges_);
    return;
  }
  for (const auto& [begin, end] : other.ranges_) {
    add({begin, end});
  }
  other.ranges_.clear();
}

}  // namespace tiermap
