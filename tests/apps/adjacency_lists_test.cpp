// The parts of tiermap-ingest: blocks that are nobody else's, lists in the order of their edges, and a reader that no
// damage leads astray.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "ingest/adjacency_lists.hpp"
#include "ingest/graph_store.hpp"
#include "parallel/random.hpp"
#include "parallel/thread_team.hpp"
#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

/// A file of zeros in memory, aligned as a mapped one is.
class ZeroFile {
 public:
  explicit ZeroFile(std::uint64_t bytes) : pages_(bytes / sizeof(Page)) {}
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(pages_)); }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> pages_;
};

AdjacencyHeader header_for(std::uint64_t vertices, std::span<const Edge> edges) {
  std::vector<std::uint64_t> degrees(vertices);
  for (const Edge& edge : edges) {
    ++degrees[edge.source];
  }
  BlockCounts counts{};
  for (const std::uint64_t degree : degrees) {
    add_blocks(degree, counts);
  }
  return AdjacencyHeader::for_graph(vertices, edges.size(), counts);
}

/// Few vertices with many neighbours, many with few, some with none.
std::vector<Edge> skewed_edges(std::uint64_t vertices, std::uint64_t count) {
  std::vector<Edge> edges;
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::uint64_t least = std::min(random_word(1, index) % vertices, random_word(2, index) % vertices);
    edges.push_back({static_cast<Vertex>(least * least / vertices), static_cast<Vertex>(random_word(3, index))});
  }
  return edges;
}

TEST(BlockSizes, AreAtMostWhatIsReckonedWith) {
  std::uint64_t bytes = 0;
  std::uint64_t room = 0;
  for (std::uint64_t degree = 1; degree <= 200'000; ++degree) {
    if (room == 0) {
      const std::uint32_t size_class = next_block_class(degree - 1);
      ASSERT_LT(size_class, block_classes);
      bytes += block_bytes(size_class);
      room = block_capacity(size_class);
    }
    --room;
    ASSERT_LE(bytes, 22 + 10 * degree) << degree;
    if (degree % 997 == 1) {
      BlockCounts counts{};
      add_blocks(degree, counts);
      std::uint64_t counted = 0;
      for (std::uint32_t size_class = 0; size_class < block_classes; ++size_class) {
        counted += counts[size_class] * block_bytes(size_class);
      }
      ASSERT_EQ(counted, bytes) << degree;
    }
  }
}

TEST(BlockAllocator, GivesEveryBlockOnceAndNoneInTwoPages) {
  constexpr std::uint32_t threads = 8;
  constexpr std::uint64_t each = 20'000;
  constexpr std::uint64_t begin = 3 * chunk_bytes;
  AllocatorState state;
  BlockAllocator allocator(state, begin, std::uint64_t{1} << 40U);
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> given(threads);
  ThreadTeam team(threads);
  team.run([&](std::uint32_t member) {
    for (std::uint64_t index = 0; index < each; ++index) {
      const auto size_class = static_cast<std::uint32_t>(random_word(member, index) % block_classes);
      given[member].emplace_back(allocator.allocate(size_class), block_bytes(size_class));
    }
  });
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  BlockCounts counts{};
  for (const auto& part : given) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  std::uint64_t end = begin;
  for (const auto& [at, bytes] : all) {
    ASSERT_GE(at, end);
    ASSERT_EQ(at / 4096, (at + bytes - 1) / 4096);
    end = at + bytes;
    ++counts[static_cast<std::uint32_t>(std::countr_zero(bytes / least_block_bytes))];
  }
  // As large as the counts say, whoever came first.
  const AdjacencyHeader header = AdjacencyHeader::for_graph(1, 1, counts);
  EXPECT_EQ(allocator.top() - begin, header.file_bytes - header.blocks_at);
}

TEST(BlockAllocator, SaysThatTheFileIsFull) {
  AllocatorState state;
  BlockAllocator allocator(state, chunk_bytes, 2 * chunk_bytes);
  for (std::uint64_t at = chunk_bytes; at < 2 * chunk_bytes; at += 4096) {
    EXPECT_EQ(allocator.allocate(block_classes - 1), at);
  }
  EXPECT_THROW(allocator.allocate(block_classes - 1), StoreError);
  EXPECT_THROW(allocator.allocate(0), StoreError);
  EXPECT_EQ(allocator.top(), 2 * chunk_bytes);
}

TEST(AdjacencyLists, HoldEveryEdgeWhoeverInsertsIt) {
  constexpr std::uint64_t vertices = 700;
  const std::vector<Edge> edges = skewed_edges(vertices, 100'000);
  const AdjacencyHeader header = header_for(vertices, edges);
  EXPECT_LE(header.file_bytes, AdjacencyHeader::most_bytes(vertices, edges.size()));
  ListSums sums(vertices);
  sums.add(edges);
  for (const std::uint32_t threads : {1U, 6U}) {
    ZeroFile file(header.file_bytes);
    const auto builder = std::make_unique<AdjacencyBuilder>(file.bytes(), header);
    ThreadTeam team(threads);
    constexpr std::uint64_t piece = 1000;
    team.for_each(edges.size() / piece,
                  [&](std::uint64_t index) { builder->insert(std::span(edges).subspan(index * piece, piece)); });
    builder->finish();
    const AdjacencyReader reader(file.bytes(), header);
    for (Vertex vertex = 0; vertex < vertices; ++vertex) {
      ASSERT_EQ(reader.follow(vertex), sums.of(vertex)) << vertex;
    }
  }
}

TEST(AdjacencyLists, AreFinishedWithAllEdgesOnly) {
  const std::vector<Edge> edges = skewed_edges(100, 5000);
  const AdjacencyHeader header = header_for(100, edges);
  ZeroFile file(header.file_bytes);
  const auto builder = std::make_unique<AdjacencyBuilder>(file.bytes(), header);
  builder->insert(std::span(edges).first(10));
  EXPECT_THROW(builder->finish(), StoreError);
  EXPECT_EQ(file.bytes()[0], std::byte{0});
  builder->insert(std::span(edges).subspan(10));
  builder->finish();
  EXPECT_EQ(file.bytes()[0], std::byte{'T'});
}

TEST(AdjacencyLists, DamageIsFoundOrHarmless) {
  constexpr std::uint64_t vertices = 60;
  const std::vector<Edge> edges = skewed_edges(vertices, 4000);
  const AdjacencyHeader header = header_for(vertices, edges);
  ListSums sums(vertices);
  sums.add(edges);
  ZeroFile file(header.file_bytes);
  const auto builder = std::make_unique<AdjacencyBuilder>(file.bytes(), header);
  builder->insert(edges);
  const std::vector<std::byte> sound(file.bytes().begin(), file.bytes().end());
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    // Somewhere in the table, or in a word that is not zero.
    std::uint64_t at = header.records_at + random() % (vertices * sizeof(VertexRecord));
    while (round % 2 == 0 && (at < header.blocks_at || sound[at] == std::byte{0})) {
      at = random() % header.file_bytes;
    }
    const auto value = static_cast<std::byte>(random());
    const bool changed = file.bytes()[at] != value;
    file.bytes()[at] = value;
    const AdjacencyReader reader(file.bytes(), header);
    bool found = false;
    for (Vertex vertex = 0; vertex < vertices; ++vertex) {
      found |= reader.follow(vertex) != sums.of(vertex);
    }
    EXPECT_TRUE(found || !changed) << "byte " << at;
    file.bytes()[at] = sound[at];
  }
}

TEST(GraphStore, HasAsManySegmentsAsAskedOrFewer) {
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{4097}, std::uint64_t{100} << 20U}) {
    for (const std::uint64_t segments : {1U, 32U, 1024U}) {
      const std::uint64_t segment = segment_bytes_for(bytes, segments);
      EXPECT_EQ(segment % 4096, 0U);
      EXPECT_GE(segment * segments, bytes);
      EXPECT_TRUE(segment == 4096 || (segment - 4096) * segments < bytes);
    }
  }
  EXPECT_EQ(with_segment_bytes("sparse:/a", 65536), "sparse:/a?segment=64KiB");
  EXPECT_EQ(with_segment_bytes("sparse:/a?direct=off", 4096), "sparse:/a?direct=off&segment=4KiB");
  EXPECT_THROW(choose_store("/a", 32), OptionError);
  EXPECT_EQ(choose_store("sparse:/a", 32), "sparse:/a");
}

}  // namespace
}  // namespace tiermap::test
