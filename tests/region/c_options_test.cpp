// The option structs of the C interface: each member becomes the C++ one of its name, and no other.
#include "region/c_options.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

using GivenCache = tiermap_cache_options;
using GivenRegion = tiermap_region_options;

struct Number {
  const char* name;
  std::int32_t GivenCache::* given;
  std::optional<std::uint32_t> CacheOptions::* taken;
};
constexpr Number numbers[] = {
    {"hot share", &GivenCache::hot_share_percent, &CacheOptions::hot_share_percent},
    {"unmapped share", &GivenCache::unmapped_share_percent, &CacheOptions::unmapped_share_percent},
    {"high watermark", &GivenCache::high_watermark_percent, &CacheOptions::high_watermark_percent},
    {"low watermark", &GivenCache::low_watermark_percent, &CacheOptions::low_watermark_percent},
    {"fillers", &GivenCache::fillers, &CacheOptions::fillers},
    {"evictors", &GivenCache::evictors, &CacheOptions::evictors},
    {"managers", &GivenCache::managers, &CacheOptions::managers},
    {"fault events", &GivenCache::max_fault_events, &CacheOptions::max_fault_events},
    {"shards", &GivenCache::shards, &CacheOptions::shards},
    {"spin", &GivenCache::spin_microseconds, &CacheOptions::spin_microseconds},
    {"history", &GivenCache::adapt_history_periods, &CacheOptions::adapt_history_periods},
    {"forecast", &GivenCache::adapt_forecast_periods, &CacheOptions::adapt_forecast_periods},
    {"period", &GivenCache::adapt_period_milliseconds, &CacheOptions::adapt_period_milliseconds},
};

struct Switch {
  const char* name;
  std::int32_t GivenCache::* given;
  std::optional<bool> CacheOptions::* taken;
};
constexpr Switch switches[] = {
    {"adapt", &GivenCache::adapt_budget, &CacheOptions::adapt_budget},
    {"publish", &GivenCache::publish_statistics, &CacheOptions::publish_statistics},
};

// A member that is added to a struct is wanted here too.
static_assert(sizeof(GivenCache) == offsetof(GivenCache, hot_share_percent) +
                                        (std::size(numbers) + std::size(switches)) * sizeof(std::int32_t) +
                                        sizeof(const char*));
static_assert(sizeof(GivenRegion) == 6 * sizeof(std::int32_t) + 5 * sizeof(std::uint64_t) + sizeof(void*));

GivenCache initial_cache() {
  GivenCache options;
  tiermap_cache_options_init(&options);
  return options;
}
GivenRegion initial_region() {
  GivenRegion options;
  tiermap_region_options_init(&options);
  return options;
}

void expect_nothing_set(const CacheOptions& options) {
  EXPECT_EQ(options.budget_bytes, std::nullopt);
  EXPECT_EQ(options.fault_mode, std::nullopt);
  EXPECT_EQ(options.placement, std::nullopt);
  EXPECT_EQ(options.policy, std::nullopt);
  EXPECT_EQ(options.name, std::nullopt);
  EXPECT_EQ(options.trace_file, std::nullopt);
  for (const Number& number : numbers) {
    EXPECT_EQ(options.*number.taken, std::nullopt) << number.name;
  }
  for (const Switch& one : switches) {
    EXPECT_EQ(options.*one.taken, std::nullopt) << one.name;
  }
}

TEST(COptions, OfACacheAreNotSetAfterInitialisingThem) {
  const GivenCache given = initial_cache();
  expect_nothing_set(cache_options_from(&given));
  expect_nothing_set(cache_options_from(nullptr));
}

TEST(COptions, OfACacheEachBecomesItsOwnMember) {
  GivenCache given = initial_cache();
  given.budget_bytes = 123'456'789;
  given.fault_mode = TIERMAP_FAULT_KERNEL;
  given.placement = TIERMAP_PLACEMENT_MOVE;
  given.policy = "a policy";
  given.name = "a name";
  given.trace_file = "a file";
  std::int32_t value = 100;
  for (const Number& number : numbers) {
    given.*number.given = ++value;
  }
  const CacheOptions taken = cache_options_from(&given);
  EXPECT_EQ(taken.budget_bytes, 123'456'789U);
  EXPECT_EQ(taken.fault_mode, FaultMode::kernel);
  EXPECT_EQ(taken.placement, Placement::move);
  EXPECT_EQ(taken.policy, "a policy");
  EXPECT_EQ(taken.name, "a name");
  EXPECT_EQ(taken.trace_file, "a file");
  std::uint32_t expected = 100;
  for (const Number& number : numbers) {
    EXPECT_EQ(taken.*number.taken, ++expected) << number.name;
  }
}

// Two switches have two values: each by itself, so that neither is taken for the other.
TEST(COptions, OfACacheEachSwitchIsItsOwn) {
  for (const Switch& one : switches) {
    for (const std::int32_t value : {0, 1}) {
      GivenCache given = initial_cache();
      given.*one.given = value;
      CacheOptions taken = cache_options_from(&given);
      EXPECT_EQ(taken.*one.taken, value == 1) << one.name;
      taken.*one.taken = std::nullopt;
      expect_nothing_set(taken);
    }
  }
}

TEST(COptions, ZeroIsANumberLikeOthers) {
  GivenCache given = initial_cache();
  for (const Number& number : numbers) {
    given.*number.given = 0;
  }
  const CacheOptions taken = cache_options_from(&given);
  for (const Number& number : numbers) {
    EXPECT_EQ(taken.*number.taken, 0U) << number.name;
  }
}

TEST(COptions, ACallersShorterStructSetsWhatItHas) {
  GivenCache given = initial_cache();
  given.fillers = 7;
  given.evictors = 8;
  given.struct_bytes = offsetof(GivenCache, evictors);
  const CacheOptions taken = cache_options_from(&given);
  EXPECT_EQ(taken.fillers, 7U);
  EXPECT_EQ(taken.evictors, std::nullopt) << "it lies behind the caller's struct";
}

void expect_defaults(const RegionOptions& options) {
  const RegionOptions defaults;
  EXPECT_EQ(options.access, defaults.access);
  EXPECT_EQ(options.sharing, defaults.sharing);
  EXPECT_EQ(options.offset, defaults.offset);
  EXPECT_EQ(options.length, defaults.length);
  EXPECT_EQ(options.reserve_bytes, defaults.reserve_bytes);
  EXPECT_EQ(options.address, defaults.address);
  EXPECT_EQ(options.manual_flush, defaults.manual_flush);
  EXPECT_EQ(options.advice, defaults.advice);
  EXPECT_EQ(options.page_size_bytes, defaults.page_size_bytes);
  EXPECT_EQ(options.read_ahead_bytes, defaults.read_ahead_bytes);
}

TEST(COptions, OfARegionAreTheDefaultsAfterInitialisingThem) {
  const GivenRegion given = initial_region();
  expect_defaults(region_options_from(&given));
  expect_defaults(region_options_from(nullptr));
}

TEST(COptions, OfARegionEachBecomesItsOwnMember) {
  int place = 0;
  GivenRegion given = initial_region();
  given.advice = TIERMAP_ADVICE_RANDOM;
  given.offset = 101;
  given.length = 102;
  given.reserve_bytes = 103;
  given.address = &place;
  given.page_size_bytes = 104;
  given.read_ahead_bytes = 105;
  RegionOptions taken = region_options_from(&given);
  EXPECT_EQ(taken.advice, Advice::random);
  EXPECT_EQ(taken.offset, 101U);
  EXPECT_EQ(taken.length, 102U);
  EXPECT_EQ(taken.reserve_bytes, 103U);
  EXPECT_EQ(taken.address, &place);
  EXPECT_EQ(taken.page_size_bytes, 104U);
  EXPECT_EQ(taken.read_ahead_bytes, 105U);
  given.read_ahead_bytes = 0;
  EXPECT_EQ(region_options_from(&given).read_ahead_bytes, 0U) << "0 turns it off; not set is something else";
}

TEST(COptions, OfARegionEachSwitchIsItsOwn) {
  GivenRegion given = initial_region();
  given.writable = 1;
  RegionOptions taken = region_options_from(&given);
  EXPECT_EQ(taken.access, Access::read_write);
  taken.access = Access::read_only;
  expect_defaults(taken);

  given = initial_region();
  given.private_copy = 1;
  taken = region_options_from(&given);
  EXPECT_EQ(taken.sharing, Sharing::private_copy);
  taken.sharing = Sharing::shared;
  expect_defaults(taken);

  given = initial_region();
  given.manual_flush = 1;
  taken = region_options_from(&given);
  EXPECT_TRUE(taken.manual_flush);
  taken.manual_flush = false;
  expect_defaults(taken);
}

}  // namespace
}  // namespace tiermap
