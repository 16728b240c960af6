// A set of pages, as ranges: adjacent ones are one range.
#pragma once

#include <cstdint>
#include <map>

namespace tiermap {

struct PageRange {
  std::uint64_t begin;
  std::uint64_t end;  ///< The first page after it.
};

/// Not thread-safe.
class PageRanges {
 public:
  void add(PageRange range);
  /// Whatever there is of `range` in the set leaves it; `leaves(PageRange)` is told of each piece.
  template <typename Leaves>
  void remove(PageRange range, Leaves&& leaves);
  void remove(PageRange range) {
    remove(range, [](PageRange) {});
  }
  /// All of `other` comes here.
  void add_all(PageRanges& other);

  bool empty() const noexcept { return ranges_.empty(); }
  /// The set must not be empty.
  PageRange first() const noexcept { return {ranges_.begin()->first, ranges_.begin()->second}; }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  ///< Begin and end of each; they neither overlap nor touch.
};

template <typename Leaves>
void PageRanges::remove(PageRange range, Leaves&& leaves) {
  if (range.begin >= range.end) {
    return;
  }
  auto place = ranges_.upper_bound(range.begin);
  if (place != ranges_.begin()) {
    --place;
  }
  while (place != ranges_.end() && place->first < range.end) {
    const PageRange found{place->first, place->second};
    if (found.end <= range.begin) {
      ++place;
      continue;
    }
    if (found.begin < range.begin) {
      place->second = range.begin;
      ++place;
    } else {
      place = ranges_.erase(place);
    }
    if (found.end > range.end) {
      place = ranges_.emplace(range.end, found.end).first;
    }
    leaves(PageRange{found.begin < range.begin ? range.begin : found.begin,
                     found.end > range.end ? range.end : found.end});
  }
}

}  // namespace tiermap
