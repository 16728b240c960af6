// Runs of free slabs and ranges of pages, against sets of single ones.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "heap/free_runs.hpp"
#include "heap/page_ranges.hpp"

namespace tiermap {
namespace {

TEST(FreeRuns, TheShortestThatIsLongEnoughIsTaken) {
  FreeRuns runs;
  runs.give(10, 5);
  runs.give(20, 3);
  runs.give(30, 9);
  EXPECT_EQ(runs.take(3), 20U);
  EXPECT_EQ(runs.take(3), 10U);
  EXPECT_EQ(runs.take(2), 13U);
  EXPECT_EQ(runs.take(10), FreeRuns::none);
  EXPECT_EQ(runs.take(4, 16), 32U);
  EXPECT_EQ(runs.end_of_run(30), 32U);
  EXPECT_EQ(runs.end_of_run(32), FreeRuns::none);
  runs.give(32, 4);
  EXPECT_EQ(runs.longest(), 9U);
}

TEST(FreeRuns, AgainstSingleSlabs) {
  constexpr std::uint64_t slabs = 300;
  std::mt19937_64 random(7);
  FreeRuns runs;
  runs.give(0, slabs);
  std::set<std::uint64_t> free;
  for (std::uint64_t slab = 0; slab < slabs; ++slab) {
    free.insert(slab);
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (int turn = 0; turn < 5000; ++turn) {
    if (random() % 2 == 0) {
      const std::uint64_t count = 1 + random() % 20;
      const std::uint64_t alignment = 1ULL << random() % 4;
      const std::uint64_t first = runs.take(count, alignment);
      if (first != FreeRuns::none) {
        ASSERT_EQ(first % alignment, 0U);
        for (std::uint64_t slab = first; slab < first + count; ++slab) {
          ASSERT_EQ(free.erase(slab), 1U);
        }
        taken.emplace_back(first, count);
      }
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      const auto [first, count] = taken.back();
      taken.pop_back();
      runs.give(first, count);
      for (std::uint64_t slab = first; slab < first + count; ++slab) {
        free.insert(slab);
      }
    }
    ASSERT_EQ(runs.free_slabs(), free.size());
    const std::uint64_t looked_at = random() % slabs;
    ASSERT_EQ(runs.end_of_run(looked_at) != FreeRuns::none, free.contains(looked_at));
  }
}

TEST(PageRanges, AgainstSinglePages) {
  constexpr std::uint64_t pages = 200;
  std::mt19937_64 random(8);
  PageRanges ranges;
  std::set<std::uint64_t> model;
  for (int turn = 0; turn < 20000; ++turn) {
    const std::uint64_t begin = random() % pages;
    const std::uint64_t end = begin + random() % 12;
    if (random() % 2 == 0) {
      ranges.add({begin, end});
      for (std::uint64_t page = begin; page < end; ++page) {
        model.insert(page);
      }
    } else {
      std::set<std::uint64_t> left;
      ranges.remove({begin, end}, [&](PageRange range) {
        for (std::uint64_t page = range.begin; page < range.end; ++page) {
          ASSERT_TRUE(left.insert(page).second);
        }
      });
      for (std::uint64_t page = begin; page < end; ++page) {
        ASSERT_EQ(model.erase(page), left.erase(page));
      }
      ASSERT_TRUE(left.empty());
    }
  }
  PageRanges other;
  other.add({150, 160});
  ranges.add_all(other);
  EXPECT_TRUE(other.empty());
  for (std::uint64_t page = 150; page < 160; ++page) {
    model.insert(page);
  }
  std::uint64_t last_end = 0;
  while (!ranges.empty()) {
    const PageRange range = ranges.first();
    ASSERT_TRUE(last_end == 0 || range.begin > last_end) << "ranges that touch are one";
    last_end = range.end;
    for (std::uint64_t page = range.begin; page < range.end; ++page) {
      ASSERT_EQ(model.erase(page), 1U);
    }
    ranges.remove(range);
  }
  EXPECT_TRUE(model.empty());
}

}  // namespace
}  // namespace tiermap
