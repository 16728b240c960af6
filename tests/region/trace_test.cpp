// TIERMAP_TRACE: what an engine records is what its policy was told, in that order.
#include <set>

#include "observe/trace_file.hpp"
#include "region/engine_fixture.hpp"
#include "region/settled_statistics.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 64 * kib;

class TraceTest : public EngineTest {
 protected:
  CacheOptions recorded(std::uint64_t budget_bytes) const {
    CacheOptions options = cache_options(budget_bytes);
    options.trace_file = path_;
    return options;
  }
  static RegionOptions without_read_ahead(RegionOptions options) {
    options.read_ahead_bytes = 0;
    return options;
  }
  std::vector<TraceRecord> read_back(const std::string& suffix = "") const {
    TraceReader reader(path_ + suffix);
    std::vector<TraceRecord> records;
    while (const auto record = reader.next()) {
      records.push_back(*record);
    }
    EXPECT_TRUE(reader.complete());
    return records;
  }

  TemporaryDirectory directory_ = shared_memory_directory();
  std::string path_ = directory_ / "trace";
};
INSTANTIATE_TEST_SUITE_P(Engines, TraceTest, every_engine, engine_name);

TEST_P(TraceTest, AccessesAreRecordedInTheirOrder) {
  {
    Cache cache(recorded(4 * mib));
    Region region = cache.map(known_store(8 * page), without_read_ahead(read_write(page)));
    touch(region.data() + 5 * page);
    poke(region.data() + 2 * page, std::byte{1});
    poke(region.data() + 5 * page, std::byte{1});
    touch(region.data() + 5 * page);
    region.discard({5 * page, page});
    touch(region.data() + 5 * page);
  }
  const std::vector<TraceRecord> records = read_back();
  ASSERT_FALSE(records.empty());
  const std::uint32_t region = records[0].region;
  const std::vector<TraceRecord> expected = {
      {TraceKind::region, false, region, trace_region_words},
      {TraceKind::fill, false, region, 5},
      {TraceKind::fill, true, region, 2},
      {TraceKind::first_write, true, region, 5},
      {TraceKind::discarded, false, region, 5},
      {TraceKind::fill, false, region, 5},
      {TraceKind::discarded, false, region, 2},
      {TraceKind::discarded, false, region, 5},
      {TraceKind::region_end, false, region, 0},
      {TraceKind::end, false, 0, 0},
  };
  EXPECT_EQ(records, expected);
}

TEST_P(TraceTest, EachPageIsFilledBeforeItIsTouchedAndGoesOnceForEachFill) {
  constexpr std::uint64_t pages = 96;
  Statistics counted;
  {
    Cache cache(recorded(32 * page));
    const Region region = cache.map(known_store(pages * page), read_write(page));
    for (std::uint64_t index = 0; index < 6 * pages; ++index) {
      const std::uint64_t number = index < 2 * pages ? index % pages : index * 7919 % pages;
      if (index % 5 == 0) {
        poke(region.data() + number * page, known_byte(number * page));
      }
      touch(region.data() + number * page + kib);
    }
    counted = settled(region);
  }
  std::set<std::uint64_t> present;
  std::uint64_t fills = 0;
  std::uint64_t read_ahead = 0;
  std::uint64_t rescues = 0;
  std::uint64_t evictions = 0;
  for (const TraceRecord& record : read_back()) {
    switch (record.kind) {
      case TraceKind::fill:
      case TraceKind::read_ahead:
        EXPECT_TRUE(present.insert(record.page).second);
        ++(record.kind == TraceKind::fill ? fills : read_ahead);
        break;
      case TraceKind::rescue:
      case TraceKind::first_use:
        ++rescues;
        [[fallthrough]];
      case TraceKind::first_write:
        EXPECT_TRUE(present.contains(record.page));
        break;
      case TraceKind::evicted:
        ++evictions;
        [[fallthrough]];
      case TraceKind::discarded:
        EXPECT_EQ(present.erase(record.page), 1U);
        break;
      default:
        break;
    }
  }
  EXPECT_TRUE(present.empty());
  EXPECT_EQ(fills + read_ahead, counted[Counter::fills]);
  EXPECT_EQ(read_ahead, counted[Counter::prefetched_pages]);
  EXPECT_EQ(rescues, counted[Counter::rescues]);
  EXPECT_GE(evictions, counted[Counter::evictions]);
}

TEST_P(TraceTest, ARegionWhosePageSizeFollowsTheAccessIsOne) {
  {
    Cache cache(recorded(4 * mib));
    const Region first = cache.map(known_store(16 * page), {});
    const Region second = cache.map(known_store(16 * page), {});
    touch(first.data());
    touch(second.data());
  }
  TraceReader reader(path_);
  std::set<std::uint32_t> regions;
  std::set<std::uint32_t> accessed;
  std::set<std::uint64_t> page_sizes;
  while (const auto record = reader.next()) {
    if (record->kind == TraceKind::region) {
      regions.insert(reader.first_of_same_bytes(record->region));
      page_sizes.insert(reader.region(record->region).page_bytes);
    } else if (is_access(record->kind)) {
      accessed.insert(reader.first_of_same_bytes(record->region));
    }
  }
  EXPECT_EQ(regions.size(), 2U);
  EXPECT_EQ(accessed, regions);
  // Of one size where all pages are moved, or all copied.
  EXPECT_TRUE(page_sizes == std::set<std::uint64_t>{page} ||
              page_sizes == (std::set<std::uint64_t>{4 * kib, page, mib}));
}

TEST_P(TraceTest, EachCacheRecordsIntoAFileOfItsOwn) {
  for (std::uint64_t pages = 1; pages <= 2; ++pages) {
    Cache cache(recorded(4 * mib));
    const Region region = cache.map(known_store(4 * page), without_read_ahead(read_only(page)));
    for (std::uint64_t number = 0; number < pages; ++number) {
      touch(region.data() + number * page);
    }
  }
  EXPECT_EQ(read_back().size() + 2, read_back(".2").size());
}

TEST(Trace, FaultModeKernelHasNothingToRecord) {
  CacheOptions options;
  options.fault_mode = FaultMode::kernel;
  options.trace_file = "never";
  try {
    const Cache cache(options);
    FAIL() << "it was accepted";
  } catch (const OptionError& error) {
    EXPECT_EQ(std::string(error.what()),
              "trace file never would stay empty: fault mode kernel, asked for, sees no accesses; leave out the trace, "
              "or use fault mode notify or self-serving");
  }
}

}  // namespace
}  // namespace tiermap
