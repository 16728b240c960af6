// Regions for which no page size was chosen: what is read follows the access.
#include <random>
#include <vector>

#include "region/engine_fixture.hpp"
#include "region/settled_statistics.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block = 4 * kib;
constexpr std::uint64_t large_page = 64 * kib;

class PageSizeChoiceTest : public EngineTest {
 protected:
  void open(std::uint64_t budget_bytes, std::uint64_t bytes, Access access = Access::read_only) {
    cache_ = std::make_unique<Cache>(cache_options(budget_bytes));
    store_ = std::make_shared<MemoryStore>(bytes);
    region_ = cache_->map(store_, {.access = access});
  }
  void prefetch(ByteRange range) { region_.prefetch({&range, 1}).wait(); }
  /// Other placements keep to large pages.
  static bool chooses() { return GetParam().placement == Placement::automatic && kernel_moves(); }

  std::unique_ptr<Cache> cache_;
  std::shared_ptr<MemoryStore> store_;
  Region region_;
};
INSTANTIATE_TEST_SUITE_P(Engines, PageSizeChoiceTest, every_engine, engine_name);

TEST_P(PageSizeChoiceTest, SingleBlocksFarApartAreReadAlone) {
  open(4 * mib, 64 * mib);
  std::mt19937_64 random(1);
  const auto touch_far_apart = [&](int times) {
    for (int time = 0; time < times; ++time) {
      touch(region_.data() + random() % region_.size());
    }
  };
  touch_far_apart(400);  // Memory fills, and it is learnt how near each other the misses are.
  const std::uint64_t before = settled(region_)[Counter::read_bytes];
  touch_far_apart(400);
  const std::uint64_t read = settled(region_)[Counter::read_bytes] - before;
  if (chooses()) {
    EXPECT_LE(read, 400 * 2 * block);
  } else {
    EXPECT_GE(read, 300 * large_page);
  }
}

TEST_P(PageSizeChoiceTest, AnUpdateLeavesTheChoiceAndTheBlocksBesideIt) {
  open(4 * mib, 64 * mib, Access::read_write);
  region_.advise(Advice::random);
  constexpr std::uint64_t changed = 20 * mib + 3 * block;
  for (const std::uint64_t offset : {changed - block, changed, changed + block}) {
    touch(region_.data() + offset);
  }
  const std::uint64_t before = settled(region_)[Counter::read_bytes];
  region_.update({changed, 8}, [&] {
    const std::byte byte{9};
    EXPECT_EQ(store_->write(&byte, 1, changed), 1);
  });
  EXPECT_EQ(touch(region_.data() + changed), std::byte{9});
  for (const std::uint64_t offset : {changed - block, changed + block, changed + 10 * mib}) {
    touch(region_.data() + offset);
  }
  EXPECT_EQ(settled(region_)[Counter::read_bytes] - before, chooses() ? 2 * block : 2 * large_page);
}

TEST_P(PageSizeChoiceTest, NeighboursAreReadTogether) {
  open(4 * mib, 64 * mib);
  std::mt19937_64 random(1);
  const auto touch_neighbours = [&](int groups) {
    for (int group = 0; group < groups; ++group) {
      const std::uint64_t first = random() % (region_.size() / large_page) * large_page;
      for (std::uint64_t offset = 0; offset < large_page; offset += block) {
        touch(region_.data() + first + (offset * 7) % large_page);  // In no order that a stream would have.
      }
    }
  };
  touch_neighbours(400);
  const std::uint64_t before = settled(region_)[Counter::read_faults];
  touch_neighbours(200);
  // One a group, and sixteen for one group in sixteen at most.
  EXPECT_LE(settled(region_)[Counter::read_faults] - before, 200U * 3);
}

TEST_P(PageSizeChoiceTest, AStreamIsReadInWidePages) {
  open(48 * mib, 96 * mib);
  for (std::uint64_t offset = 0; offset < region_.size(); offset += block) {
    touch(region_.data() + offset);
    if (offset % mib == 0) {
      settled(region_);  // A stream that outruns its read-ahead, as on a busy machine, comes by smaller pages.
    }
  }
  const std::uint64_t fills = settled(region_)[Counter::fills];
  const std::uint64_t large_pages = region_.size() / large_page;
  if (chooses()) {
    EXPECT_LE(fills, large_pages / 2);
  } else {
    EXPECT_GE(fills, large_pages);
  }
}

TEST_P(PageSizeChoiceTest, WhatIsPrefetchedInPartIsReadInPart) {
  open(4 * mib, 64 * mib);
  region_.advise(Advice::random);
  prefetch({20 * mib + 100, 8});
  EXPECT_EQ(settled(region_)[Counter::read_bytes], chooses() ? block : large_page);
  prefetch({30 * mib, 3 * large_page});
  EXPECT_EQ(settled(region_)[Counter::read_bytes], (chooses() ? block : large_page) + 3 * large_page);
}

TEST_P(PageSizeChoiceTest, WhereAPartOfAWidePageIsThereNothingIsEvictedForAWholeOne) {
  open(48 * mib, 64 * mib);
  for (std::uint64_t offset = 0; offset < region_.size(); offset += mib) {
    prefetch({offset, mib - large_page});
  }
  const Statistics before = settled(region_);
  constexpr std::uint64_t completed = 8;
  for (std::uint64_t offset = region_.size() - completed * mib; offset < region_.size(); offset += mib) {
    prefetch({offset, mib});
  }
  const Statistics after = settled(region_);
  if (chooses()) {
    EXPECT_EQ(after[Counter::read_bytes] - before[Counter::read_bytes], completed * large_page);
    EXPECT_LE(after[Counter::evictions] - before[Counter::evictions], 2 * completed);
  }
}

TEST_P(PageSizeChoiceTest, DiscardingAPartOfAWidePageKeepsWhatIsBesideIt) {
  open(48 * mib, 64 * mib, Access::read_write);
  prefetch({0, 32 * mib});
  for (std::uint64_t offset = 0; offset < 32 * mib; offset += large_page) {
    poke(region_.data() + offset, std::byte{7});
  }
  region_.discard({16 * large_page + 8 * large_page, large_page});
  for (std::uint64_t offset = 0; offset < 32 * mib; offset += large_page) {
    if (offset != (16 + 8) * large_page) {
      ASSERT_EQ(touch(region_.data() + offset), std::byte{7}) << offset;
    }
  }
}

TEST_P(PageSizeChoiceTest, ARegionThatGrowsGoesOnToChoose) {
  cache_ = std::make_unique<Cache>(cache_options(40 * mib));
  store_ = std::make_shared<MemoryStore>(64 * mib);
  region_ = cache_->map(store_, {.access = Access::read_write, .length = 5000, .reserve_bytes = 64 * mib});
  region_.advise(Advice::random);
  poke(region_.data() + 4999, std::byte{1});
  std::uint64_t length = 5000;
  for (const std::uint64_t next : {9000 + large_page, mib - block, 3 * mib + 1, 20 * mib, 64 * mib}) {
    region_.resize(next);
    EXPECT_EQ(touch(region_.data() + length - 1), std::byte{1}) << next;
    EXPECT_EQ(touch(region_.data() + length), std::byte{0}) << next;
    length = next;
    poke(region_.data() + length - 1, std::byte{1});
  }
  const std::uint64_t before = settled(region_)[Counter::read_bytes];
  touch(region_.data() + 30 * mib);
  EXPECT_EQ(settled(region_)[Counter::read_bytes] - before, chooses() ? block : large_page);
  region_.advise(Advice::normal);
  const std::uint64_t fills = settled(region_)[Counter::fills];
  prefetch({40 * mib, 8 * mib});
  EXPECT_EQ(settled(region_)[Counter::fills] - fills, chooses() ? 8 : 8 * mib / large_page);
  region_.unmap();
  for (const std::uint64_t end :
       {std::uint64_t{5000}, 9000 + large_page, mib - block, 3 * mib + 1, 20 * mib, 64 * mib}) {
    std::byte stored{};
    store_->read(&stored, 1, end - 1);
    EXPECT_EQ(stored, std::byte{1}) << end;
  }
}

TEST_P(PageSizeChoiceTest, PagesOfAllSizesAreSyncedPinnedAndResized) {
  open(48 * mib, 64 * mib, Access::read_write);
  const std::vector<std::uint64_t> offsets = {5, large_page * 3 + 1, 9 * mib + 77, 40 * mib + 5000, 64 * mib - 1};
  prefetch({8 * mib, 4 * mib});    // In wide pages.
  region_.advise(Advice::random);  // Small ones.
  for (const std::uint64_t offset : offsets) {
    poke(region_.data() + offset, std::byte{1});
  }
  region_.sync();
  const auto stored = [&](std::uint64_t offset) {
    std::byte value{};
    store_->read(&value, 1, offset);
    return value;
  };
  for (const std::uint64_t offset : offsets) {
    EXPECT_EQ(stored(offset), std::byte{1}) << offset;
    poke(region_.data() + offset, std::byte{2});
  }
  region_.pin({9 * mib, 1});
  for (const std::uint64_t offset : offsets) {
    EXPECT_EQ(touch(region_.data() + offset), std::byte{2}) << offset;
    poke(region_.data() + offset, std::byte{3});
  }
  region_.unpin({9 * mib, 1});
  region_.resize(50 * mib);
  for (const std::uint64_t offset : offsets) {
    if (offset < 50 * mib) {
      EXPECT_EQ(touch(region_.data() + offset), std::byte{3}) << offset;
    }
  }
  region_.unmap();
  for (const std::uint64_t offset : offsets) {
    EXPECT_EQ(stored(offset), std::byte{3}) << offset;
  }
}

}  // namespace
}  // namespace tiermap
