// Tells the memory system which parts of the graph a level will read, some way ahead of the threads that read it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <ranges>
#include <vector>

#include "bfs/csr_file.hpp"

namespace tiermap {

/// One level's announcements. Vertices are gone through in chunks; threads say when they begin one, and whoever finds
/// that too little is ahead announces more. Thread-safe.
class RangeAnnouncer {
 public:
  static constexpr std::uint64_t chunk_vertices = 4096;

  /// `word(i)` is the i-th group of 64 vertices, a bit set for each that will be read.
  RangeAnnouncer(const CsrGraph& graph, std::uint64_t lookahead_bytes, std::uint64_t page_size_bytes, bool backwards,
                 std::function<std::uint64_t(std::uint64_t)> word);

  /// A thread begins the chunk that comes in place `place`: from the first one on, or backwards from the last.
  void reached(std::uint64_t place);

 private:
  void announce_until_enough(std::uint64_t place);
  void announce_offsets(std::uint64_t from_place);
  void add_chunk(std::uint64_t chunk);
  bool is_wanted(std::uint64_t chunk) const;
  auto words_of(std::uint64_t chunk) const noexcept {
    const std::uint64_t first = chunk * chunk_vertices / 64;
    return std::views::iota(first, std::min(first + chunk_vertices / 64, (graph_.vertices() + 63) / 64));
  }
  std::uint64_t chunk_in(std::uint64_t place) const noexcept { return backwards_ ? chunks_ - 1 - place : place; }
  std::uint64_t add_range(std::vector<ByteRange>& ranges, ByteRange range) const;

  const CsrGraph& graph_;
  const std::uint64_t lookahead_bytes_;
  const std::uint64_t page_size_bytes_;
  const bool backwards_;
  const std::function<std::uint64_t(std::uint64_t)> word_;
  const std::uint64_t chunks_;

  std::mutex mutex_;  ///< Guards what is below; who finds it taken goes on reading.
  std::atomic<std::uint64_t> announced_chunks_{0};
  std::uint64_t chunks_with_offsets_ = 0;  ///< Whose offsets are announced, which have to be read to announce the arcs.
  std::uint64_t announced_bytes_ = 0;
  std::vector<std::uint64_t> bytes_before_chunk_;  ///< Announced before each announced chunk.
  std::vector<ByteRange> ranges_;
};

}  // namespace tiermap
