// From an address to its region, while regions come and go.
#include "fault/region_index.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

// The index looks only at where a region lies: no memory is needed there.
std::unique_ptr<PagedRegion> region_at(std::uint64_t address, std::uint64_t length) {
  auto region = std::make_unique<PagedRegion>();
  region->memory = reinterpret_cast<std::byte*>(address);
  region->length.store(length);
  region->page_bytes = 4096;
  region->page_shift = 12;
  return region;
}

const void* at(std::uint64_t address) {
  return reinterpret_cast<const void*>(address);
}

TEST(RegionIndex, FindsTheRegionThatHoldsAnAddress) {
  RegionIndex index;
  EXPECT_TRUE(index.empty());
  EXPECT_FALSE(index.find(at(0x10000)));
  const auto low = region_at(0x10000, 0x2000);
  const auto high = region_at(0x40000, 0x1000);
  index.add(*high);
  index.add(*low);
  EXPECT_FALSE(index.empty());
  EXPECT_EQ(index.find(at(0x10000)).get(), low.get());
  EXPECT_EQ(index.find(at(0x11FFF)).get(), low.get());
  EXPECT_FALSE(index.find(at(0x12000)));
  EXPECT_FALSE(index.find(at(0xFFFF)));
  EXPECT_EQ(index.find(at(0x40FFF)).get(), high.get());
  EXPECT_FALSE(index.find(at(0x41000)));
  EXPECT_FALSE(index.find(at(~std::uint64_t{0})));
  EXPECT_FALSE(index.find(nullptr));
}

TEST(RegionIndex, TheLastBlockIsMappedToItsEnd) {
  RegionIndex index;
  const auto region = region_at(0x10000, 1);
  index.add(*region);
  EXPECT_EQ(index.find(at(0x10FFF)).get(), region.get());
  EXPECT_FALSE(index.find(at(0x11000)));
}

TEST(RegionIndex, FollowsAResize) {
  RegionIndex index;
  const auto region = region_at(0x10000, 0x1000);
  index.add(*region);
  region->length.store(0x5000);
  EXPECT_TRUE(index.find(at(0x14FFF)));
  region->length.store(0x1000);
  EXPECT_FALSE(index.find(at(0x14FFF)));
}

TEST(RegionIndex, AUseIsCountedAsLongAsItLives) {
  RegionIndex index;
  const auto region = region_at(0x10000, 0x1000);
  index.add(*region);
  {
    const RegionUse use = index.find(at(0x10000));
    EXPECT_EQ(region->users.load(), 1U);
    const RegionUse another = index.find(at(0x10000));
    EXPECT_EQ(region->users.load(), 2U);
  }
  EXPECT_EQ(region->users.load(), 0U);
}

TEST(RegionIndex, AfterRemoveNobodyFindsIt) {
  RegionIndex index;
  const auto one = region_at(0x10000, 0x1000);
  const auto other = region_at(0x20000, 0x1000);
  index.add(*one);
  index.add(*other);
  index.remove(*one);
  EXPECT_FALSE(index.find(at(0x10000)));
  EXPECT_EQ(index.find(at(0x20000)).get(), other.get());
  index.remove(*one);  // Again: nothing to do.
  index.remove(*other);
  EXPECT_TRUE(index.empty());
}

TEST(RegionIndex, LookUpsGoOnWhileRegionsComeAndGo) {
  RegionIndex index;
  constexpr std::uint64_t places = 64;
  const auto always = region_at(0x1000, 0x1000);
  index.add(*always);
  std::atomic<bool> stop{false};
  std::vector<std::thread> lookers;
  for (unsigned number = 0; number < 3; ++number) {
    lookers.emplace_back([&, number] {
      std::mt19937_64 random(number);
      while (!stop.load(std::memory_order_relaxed)) {
        EXPECT_EQ(index.find(at(0x1800)).get(), always.get());
        const std::uint64_t address = 0x100000 + random() % places * 0x10000;
        const RegionUse found = index.find(at(address));
        if (found) {
          // Freed regions must never be seen: the length was overwritten before that.
          EXPECT_EQ(found->length.load(), 0x1000U);
          EXPECT_EQ(found->memory, at(address));
        }
      }
    });
  }
  std::mt19937_64 random(99);
  std::vector<std::unique_ptr<PagedRegion>> there(places);
  for (int change = 0; change < 2000; ++change) {
    const std::uint64_t place = random() % places;
    if (there[place] == nullptr) {
      there[place] = region_at(0x100000 + place * 0x10000, 0x1000);
      index.add(*there[place]);
      continue;
    }
    index.remove(*there[place]);
    while (there[place]->users.load() != 0) {
      std::this_thread::yield();
    }
    there[place]->length.store(0xDEAD);
    there[place].reset();
  }
  stop.store(true);
  for (std::thread& looker : lookers) {
    looker.join();
  }
}

}  // namespace
}  // namespace tiermap
