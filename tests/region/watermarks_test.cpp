// When the evictors begin and when they rest, seen by how much stays mapped.
#include <thread>

#include "cache/frame_pool.hpp"
#include "region/engine_fixture.hpp"
#include "region/settled_statistics.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 64 * kib;
constexpr std::uint64_t budget_bytes = 64 * mib;
/// In percent of the budget. Frames get their memory 2 MiB at a time, and count as used while they do: evictors that
/// are at work just then go that much further.
constexpr std::uint64_t slack = 4;

/// How many pages are so many percent of the budget.
std::uint64_t pages_of(std::uint64_t percent) {
  return budget_bytes / 100 * percent / FramePool::cost(page);
}

class WatermarksTest : public EngineTest {
 protected:
  void open(const CacheOptions& options) {
    cache_ = std::make_unique<Cache>(options);
    RegionOptions region = read_only(page);
    region.advice = Advice::random;
    region_ = cache_->map(std::make_shared<MemoryStore>(2 * budget_bytes), region);
  }
  void touch_pages(std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t number = first; number < end; ++number) {
      touch(region_.data() + number * page);
    }
  }
  std::uint64_t mapped_pages() const { return region_.statistics().mapped_bytes / page; }

  std::unique_ptr<Cache> cache_;
  Region region_;
};
INSTANTIATE_TEST_SUITE_P(Engines, WatermarksTest, every_engine, engine_name);

TEST_P(WatermarksTest, EvictorsBeginAtTheHighAndRestAtTheLowOne) {
  struct {
    std::uint32_t high, low;
  } const settings[] = {{95, 90}, {80, 20}, {50, 40}};
  for (const auto& [high, low] : settings) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(high) + "/" + std::to_string(low));
    CacheOptions options = cache_options(budget_bytes);
    options.policy = "fifo";  // It keeps nothing unmapped for its own purposes.
    options.high_watermark_percent = high;
    options.low_watermark_percent = low;
    open(options);
    touch_pages(0, pages_of(high - slack));
    EXPECT_EQ(settled(region_)[Counter::unmaps], 0U) << "they began too early";
    // There is room for these still: nothing but the mark makes the evictors work.
    touch_pages(pages_of(high - slack), pages_of(high + slack));
    EXPECT_TRUE(comes_to_be([&] { return mapped_pages() <= pages_of(low + slack); })) << mapped_pages();
    EXPECT_GE(settled(region_).mapped_bytes / page, pages_of(low - slack)) << "they rested too late";
    EXPECT_EQ(region_.statistics()[Counter::frame_waits], 0U);
  }
}

// The evictors drop small pages many at once: a percentage of a large budget is more than faults can take meanwhile.
TEST_P(WatermarksTest, OfSmallPagesFewMakeRoomInAdvanceUnlessAMarkIsChosen) {
  if (GetParam().placement != Placement::automatic || !kernel_moves()) {
    GTEST_SKIP() << "needs small pages that come by copy, and others that do not";
  }
  constexpr std::uint64_t budget = 160 * mib;
  constexpr std::uint64_t tenth = budget / 10;
  constexpr std::uint64_t more = 2 * mib;  // As above.
  const std::uint64_t most = std::min(std::max<std::uint64_t>(4, std::thread::hardware_concurrency()) * mib, tenth);
  for (const bool chosen : {false, true}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, chosen ? "chosen" : "by default");
    CacheOptions options = cache_options(budget);
    options.policy = "fifo";
    if (chosen) {
      options.low_watermark_percent = 90;
    }
    const auto cache = std::make_unique<Cache>(options);
    RegionOptions small = read_only(4 * kib);
    small.advice = Advice::random;
    const Region region = cache->map(std::make_shared<MemoryStore>(budget + tenth), small);
    std::uint64_t next = 0;
    const auto read_pages = [&](std::uint64_t count) {
      for (; count > 0; --count) {
        touch(region.data() + next);
        next = (next + 4 * kib) % region.size();
      }
    };
    read_pages(region.size() / (4 * kib));
    EXPECT_GT(settled(region)[Counter::evictions], 0U);
    // Evictors that get no processor for a while are late, and give up more than they would have had to by then.
    std::uint64_t free = 0;
    EXPECT_TRUE(comes_to_be([&] {
      read_pages(64);
      free = budget - settled(region).resident_bytes;
      return free + more >= (chosen ? tenth / 2 : 0) && free <= (chosen ? tenth : most) + more;
    })) << free;
  }
}

TEST_P(WatermarksTest, AShareIsKeptUnmappedIfThePolicyIsToldSo) {
  for (const std::uint32_t share : {15U, 60U}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(share));
    CacheOptions options = cache_options(budget_bytes);
    options.policy = "segmented-fifo";
    options.unmapped_share_percent = share;
    open(options);
    touch_pages(0, region_.size() / page);
    // Pages that can only be copied in are dropped, not unmapped: there the usual watermarks count.
    const bool copies = GetParam().placement == Placement::copy || !kernel_moves();
    const std::uint64_t most_mapped = copies ? 95 : 100 - share + 5;
    const std::uint64_t least_mapped = copies ? 90 : 100 - share;
    EXPECT_TRUE(comes_to_be([&] { return mapped_pages() <= pages_of(most_mapped + slack); })) << mapped_pages();
    const Statistics now = settled(region_);
    EXPECT_GE(now.mapped_bytes / page, pages_of(least_mapped - slack));
    if (copies) {
      EXPECT_EQ(now.resident_bytes, now.mapped_bytes);
    } else {
      EXPECT_GE((now.resident_bytes - now.mapped_bytes) / page, pages_of(share - 5 - slack));
    }
  }
}

TEST_P(WatermarksTest, NothingIsGivenUpWhereAllRegionsFit) {
  Cache cache(cache_options(budget_bytes));
  const std::uint64_t most = pages_of(96) * page;
  // Read-ahead would have frames on their way that a fault may have to wait for.
  RegionOptions fixed = read_write(page);
  fixed.advice = Advice::random;
  Region first = cache.map(std::make_shared<MemoryStore>(most / 2), fixed);
  RegionOptions growing = read_write(page, most / 2);
  growing.advice = Advice::random;
  growing.reserve_bytes = budget_bytes;
  Region second = cache.map(std::make_shared<MemoryStore>(budget_bytes), growing);
  const auto touch_all = [&] {
    for (const Region* region : {&first, &second}) {
      for (std::uint64_t offset = 0; offset < region->size(); offset += page) {
        region->data()[offset] = std::byte{7};
      }
    }
  };
  touch_all();
  touch_all();
  const Statistics now = settled(second);
  EXPECT_EQ(now[Counter::unmaps] + settled(first)[Counter::unmaps], 0U);
  EXPECT_EQ(now[Counter::write_backs] + settled(first)[Counter::write_backs], 0U);
  EXPECT_EQ(now.resident_bytes, most / 2);

  second.resize(second.size() + budget_bytes / 8);  // Now they do not.
  touch_all();
  EXPECT_TRUE(comes_to_be([&] { return cache.statistics()[Counter::write_backs] > 0; }));
  first.unmap();
  touch(second.data());
}

}  // namespace
}  // namespace tiermap
