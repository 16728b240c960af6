// The queues of the search by visitors: lowest level first, nothing lost, blocks used again, a full room refused.
#include "bfs/vertex_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

TEST(VertexQueue, GivesTheLowestLevelFirstAndLosesNothing) {
  BlockPool pool;
  VertexQueue queue(pool);
  constexpr Vertex each = 3 * BlockPool::block_vertices + 7;
  for (Vertex vertex = 0; vertex < each; ++vertex) {
    queue.push(vertex, 5);
    queue.push(each + vertex, 2);
  }
  std::vector<Vertex> taken;
  for (const std::uint32_t level : {2U, 5U}) {
    std::set<Vertex> all;
    while (all.size() < each) {
      ASSERT_FALSE(queue.empty());
      EXPECT_EQ(queue.lowest_level(), level);
      EXPECT_EQ(queue.pop(taken, 1000), level);
      ASSERT_FALSE(taken.empty());
      ASSERT_LE(taken.size(), 1000U);
      all.insert(taken.begin(), taken.end());
    }
    EXPECT_EQ(all.size(), each);
    EXPECT_EQ(*all.begin(), level == 2 ? each : 0);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(VertexQueue, UsesItsRoomAgainAndRefusesMoreThanThat) {
  std::vector<Vertex> room(2 * BlockPool::block_vertices);
  BlockPool pool(room);
  VertexQueue queue(pool);
  std::vector<Vertex> taken;
  for (int round = 0; round < 5; ++round) {
    for (Vertex vertex = 0; vertex < room.size(); ++vertex) {
      queue.push(vertex, 1);
    }
    queue.pop(taken, room.size());
    EXPECT_EQ(taken.size(), room.size());
    EXPECT_TRUE(queue.empty());
  }
  for (Vertex vertex = 0; vertex < room.size() + BlockPool::block_vertices - 1; ++vertex) {
    queue.push(vertex, 1);
  }
  try {
    queue.push(1, 1);
    FAIL() << "there was no room for a third block";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), ENOSPC);
    EXPECT_NE(std::string(error.what()).find("--threads"), std::string::npos);
  }
}

TEST(VertexQueue, LevelsWithFewVerticesTakeNoBlock) {
  std::vector<Vertex> room(BlockPool::block_vertices);
  BlockPool pool(room);
  VertexQueue queue(pool);
  constexpr Vertex levels = 10'000;
  for (Vertex level = levels; level-- > 0;) {
    queue.push(level, level);
  }
  std::vector<Vertex> taken;
  for (Vertex level = 0; level < levels; ++level) {
    ASSERT_EQ(queue.pop(taken, 1000), level);
    ASSERT_EQ(taken, std::vector<Vertex>{level});
  }
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace tiermap::test
