#include "bfs/range_announcer.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tiermap {

RangeAnnouncer::RangeAnnouncer(const CsrGraph& graph, std::uint64_t lookahead_bytes, std::uint64_t page_size_bytes,
                               bool backwards, std::function<std::uint64_t(std::uint64_t)> word)
    : graph_(graph),
      lookahead_bytes_(lookahead_bytes),
      page_size_bytes_(page_size_bytes),
      backwards_(backwards),
      word_(std::move(word)),
      chunks_((graph.vertices() + chunk_vertices - 1) / chunk_vertices) {
  if (lookahead_bytes_ != 0) {
    bytes_before_chunk_.reserve(chunks_);
  }
}

void RangeAnnouncer::reached(std::uint64_t place) {
  if (lookahead_bytes_ == 0 || announced_chunks_.load(std::memory_order_relaxed) >= chunks_) {
    return;
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) {
    announce_until_enough(place);
  }
}

void RangeAnnouncer::announce_until_enough(std::uint64_t place) {
  std::uint64_t announced = announced_chunks_.load(std::memory_order_relaxed);
  const auto ahead = [&] {
    return place < announced ? announced_bytes_ - bytes_before_chunk_[place] : std::uint64_t{0};
  };
  if (announced >= chunks_ || ahead() >= lookahead_bytes_ / 2) {
    return;
  }
  ranges_.clear();
  while (announced < chunks_ && ahead() < lookahead_bytes_) {
    bytes_before_chunk_.push_back(announced_bytes_);
    // What has been passed already is not worth asking for.
    if (announced >= place) {
      announce_offsets(announced);
      add_chunk(chunk_in(announced));
    }
    ++announced;
  }
  announced_chunks_.store(announced, std::memory_order_relaxed);
  if (!ranges_.empty()) {
    graph_.mapped().prefetch(ranges_);
  }
}

// Of the chunks from one place on, some way ahead, and many at once.
void RangeAnnouncer::announce_offsets(std::uint64_t from_place) {
  constexpr std::uint64_t chunks_ahead = 64;  // 2 MiB.
  if (chunks_with_offsets_ >= from_place + chunks_ahead / 2) {
    return;
  }
  const std::uint64_t end_place = std::min(from_place + chunks_ahead, chunks_);
  std::vector<ByteRange> ranges;
  for (std::uint64_t place = std::max(chunks_with_offsets_, from_place); place < end_place; ++place) {
    if (const std::uint64_t chunk = chunk_in(place); is_wanted(chunk)) {
      const std::uint64_t first = chunk * chunk_vertices;
      add_range(ranges, graph_.range_of_offsets(first, std::min(first + chunk_vertices, graph_.vertices())));
    }
  }
  chunks_with_offsets_ = end_place;
  if (!ranges.empty()) {
    graph_.mapped().prefetch(ranges);
  }
}

bool RangeAnnouncer::is_wanted(std::uint64_t chunk) const {
  const auto words = words_of(chunk);
  return std::ranges::any_of(words, [this](std::uint64_t index) { return word_(index) != 0; });
}

void RangeAnnouncer::add_chunk(std::uint64_t chunk) {
  for (const std::uint64_t index : words_of(chunk)) {
    for (std::uint64_t bits = word_(index); bits != 0; bits &= bits - 1) {
      const auto vertex = index * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      const auto [begin_arc, end_arc] = graph_.arcs_of(vertex);
      if (begin_arc != end_arc) {
        announced_bytes_ += add_range(ranges_, graph_.range_of_arcs(begin_arc, end_arc));
      }
    }
  }
}

// Returns how many bytes more than before there are.
std::uint64_t RangeAnnouncer::add_range(std::vector<ByteRange>& ranges, ByteRange range) const {
  const std::uint64_t begin = range.offset / page_size_bytes_ * page_size_bytes_;
  const std::uint64_t rounded_end =
      (range.offset + range.bytes + page_size_bytes_ - 1) / page_size_bytes_ * page_size_bytes_;
  const std::uint64_t end = std::min(rounded_end, graph_.mapped().size());
  // Backwards, the next chunk lies before what was announced last.
  if (!ranges.empty() && begin <= ranges.back().offset + ranges.back().bytes && end >= ranges.back().offset) {
    ByteRange& last = ranges.back();
    const std::uint64_t joined_begin = std::min(begin, last.offset);
    const std::uint64_t joined_bytes = std::max(end, last.offset + last.bytes) - joined_begin;
    const std::uint64_t added = joined_bytes - last.bytes;
    last = {joined_begin, joined_bytes};
    return added;
  }
  ranges.push_back({begin, end - begin});
  return end - begin;
}

}  // namespace tiermap
