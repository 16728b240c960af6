// What a level of tiermap-bfs says ahead of the threads that read it.
#include "bfs/range_announcer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/graph_in_memory.hpp"

namespace tiermap::test {
namespace {

constexpr std::uint64_t small_page = 4096;
constexpr std::uint64_t chunks = 6;
constexpr std::uint64_t vertex_arcs = 8;
constexpr std::uint64_t chunk_bytes = RangeAnnouncer::chunk_vertices * vertex_arcs * sizeof(Vertex);
constexpr std::uint64_t lookahead_bytes = 2 * chunk_bytes;

struct Way {
  bool backwards;
  std::uint64_t page_bytes;
};
class RangeAnnouncerTest : public testing::TestWithParam<Way> {};

TEST_P(RangeAnnouncerTest, TellsOfEachChunkBeforeItIsBegunAndNotOfAllAtOnce) {
  const auto [backwards, page_bytes] = GetParam();
  GraphInMemory memory(Neighbours(chunks * RangeAnnouncer::chunk_vertices, std::vector<Vertex>(vertex_arcs)));
  const CsrGraph graph = memory.graph();
  std::vector<std::uint64_t> told((memory.size() + small_page - 1) / small_page);
  memory.told = [&](std::span<const ByteRange> ranges) {
    for (const ByteRange& range : ranges) {
      for (std::uint64_t at = range.offset; at < range.offset + range.bytes; at += small_page) {
        ++told[at / small_page];
      }
    }
  };
  RangeAnnouncer announcer(graph, lookahead_bytes, page_bytes, backwards,
                           [](std::uint64_t) { return ~std::uint64_t{0}; });
  for (std::uint64_t place = 0; place < chunks; ++place) {
    SCOPED_TRACE(place);
    announcer.reached(place);
    const std::uint64_t first = (backwards ? chunks - 1 - place : place) * RangeAnnouncer::chunk_vertices;
    const std::uint64_t begin = graph.arcs_of(first).first;
    const ByteRange read = graph.range_of_arcs(begin, begin + RangeAnnouncer::chunk_vertices * vertex_arcs);
    const ByteRange offsets = graph.range_of_offsets(first, first + RangeAnnouncer::chunk_vertices);
    for (const ByteRange& needed : {offsets, read}) {
      for (std::uint64_t at = needed.offset; at < needed.offset + needed.bytes; at += small_page) {
        ASSERT_GE(told[at / small_page], 1U) << at;
      }
    }
    const auto known = static_cast<std::uint64_t>(
        std::ranges::count_if(std::span(told).subspan(graph.range_of_arcs(0, 0).offset / small_page),
                              [](std::uint64_t times) { return times > 0; }));
    EXPECT_LE(known * small_page, (place + 1) * chunk_bytes + lookahead_bytes + 2 * page_bytes);
  }
  // A page that two calls touch is told of by both.
  EXPECT_LE(std::ranges::max(told), chunks);
}

// Of many chunks with few vertices each, as most levels have them.
TEST_P(RangeAnnouncerTest, WhereNeighboursBeginIsToldOfTheChunksThatAreReadAlone) {
  constexpr std::uint64_t many_chunks = 200;
  constexpr std::uint64_t distance = 50;
  const auto [backwards, page_bytes] = GetParam();
  GraphInMemory memory(Neighbours(many_chunks * RangeAnnouncer::chunk_vertices, std::vector<Vertex>{0}));
  const CsrGraph graph = memory.graph();
  std::uint64_t told_bytes = 0;
  std::uint64_t calls = 0;
  memory.told = [&](std::span<const ByteRange> ranges) {
    calls += ranges.front().offset < graph.range_of_arcs(0, 0).offset ? 1U : 0U;
    for (const ByteRange& range : ranges) {
      told_bytes += range.bytes;
    }
  };
  RangeAnnouncer announcer(graph, 64 * page_bytes, small_page, backwards, [](std::uint64_t index) {
    return index % (distance * RangeAnnouncer::chunk_vertices / 64) == 0 ? std::uint64_t{1} : 0;
  });
  for (std::uint64_t place = 0; place < many_chunks; ++place) {
    announcer.reached(place);
  }
  EXPECT_LE(calls, many_chunks / 32 + 1);
  constexpr std::uint64_t of_one = (RangeAnnouncer::chunk_vertices + 1) * sizeof(std::uint64_t) + 3 * small_page;
  EXPECT_LE(told_bytes, (many_chunks / distance) * of_one);
  EXPECT_GE(told_bytes, (many_chunks / distance) * RangeAnnouncer::chunk_vertices * sizeof(std::uint64_t));
}

INSTANTIATE_TEST_SUITE_P(Both, RangeAnnouncerTest,
                         testing::Values(Way{false, small_page}, Way{true, small_page}, Way{false, 2 * chunk_bytes},
                                         Way{true, 2 * chunk_bytes}),
                         [](const testing::TestParamInfo<Way>& chosen) {
                           return std::string(chosen.param.backwards ? "Backwards" : "Forwards") +
                                  (chosen.param.page_bytes == small_page ? "SmallPages" : "LargePages");
                         });

}  // namespace
}  // namespace tiermap::test
