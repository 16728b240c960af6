// A real cache as `tiermap top` sees it: its name and mode, its numbers, and its region by the name of its file.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "config/option_table.hpp"
#include "observe/publication.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

using nlohmann::json;

constexpr std::uint64_t page_bytes = 65536;
constexpr std::uint64_t pages = 32;

class RealCache : public ::testing::TestWithParam<FaultMode> {
 protected:
  RealCache() : name_("real-cache-" + std::to_string(::getpid())) {
    CacheOptions options;
    options.name = name_;
    options.fault_mode = GetParam();
    options.budget_bytes = 4 * pages * page_bytes;
    options.publish_statistics = true;
    cache_.emplace(options);
    RegionOptions writable;
    writable.access = Access::read_write;
    writable.length = 2 * pages * page_bytes;
    writable.page_size_bytes = page_bytes;
    writable.read_ahead_bytes = 0;
    region_ = cache_->map(directory_ / "watched.bin", writable);
    for (std::uint64_t page = 0; page < pages; ++page) {
      region_.data()[page * page_bytes] = std::byte{1};
    }
  }

  bool is_paged() const { return cache_->fault_mode() != FaultMode::kernel; }

  /// This cache among those that can be seen; in fault mode kernel its numbers are counted now and then.
  ObservedCache observed() const {
    ObservedCache found;
    for (int look = 0; look < 1000 && found.statistics.resident_bytes == 0; ++look) {
      for (ObservedCache& cache : observe_caches()) {
        if (cache.process == ::getpid() && cache.name == name_) {
          found = std::move(cache);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return found;
  }

  TemporaryDirectory directory_;
  const std::string name_;
  std::optional<Cache> cache_;
  Region region_;
};

TEST_P(RealCache, IsSeenWithItsNumbersAndItsRegion) {
  const ObservedCache cache = observed();
  ASSERT_EQ(cache.name, name_);
  EXPECT_EQ(cache.fault_mode, fault_mode_name(cache_->fault_mode()));
  EXPECT_EQ(cache.statistics.budget_bytes, 4 * pages * page_bytes);
  EXPECT_GT(cache.statistics.resident_bytes, 0U);
  ASSERT_EQ(cache.regions.size(), 1U);
  const ObservedRegion& region = cache.regions.front();
  EXPECT_TRUE(region.name.ends_with("watched.bin")) << region.name;
  EXPECT_EQ(region.length_bytes, 2 * pages * page_bytes);
  EXPECT_EQ(region.page_size_bytes, page_bytes);
  if (is_paged()) {
    for (const Statistics& numbers : {cache.statistics, region.statistics}) {
      EXPECT_EQ(numbers[Counter::write_faults] + numbers[Counter::read_faults], pages);
      EXPECT_EQ(numbers[Counter::fills] + numbers[Counter::zero_fills], pages);
      EXPECT_EQ(numbers.resident_bytes, pages * page_bytes);
      EXPECT_EQ(numbers.dirty_bytes, pages * page_bytes);
    }
  }
}

TEST_P(RealCache, IsShownByTheCommand) {
  ASSERT_EQ(observed().name, name_);
  const CommandResult shown = run_tiermap({"top", "--json", "--interval", "0.1"});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  const json report = json::parse(shown.output);
  json found;
  for (const json& cache : report.at("caches")) {
    if (cache.at("name") == name_ && cache.at("process") == ::getpid()) {
      found = cache;
    }
  }
  ASSERT_FALSE(found.is_null()) << shown.output;
  EXPECT_GT(found.at("resident_bytes"), 0);
  ASSERT_EQ(found.at("regions").size(), 1U);
  EXPECT_TRUE(found.at("regions")[0].at("name").get<std::string>().ends_with("watched.bin"));
  if (is_paged()) {
    EXPECT_EQ(found.at("counters").at("fills").get<std::uint64_t>() +
                  found.at("counters").at("zero_fills").get<std::uint64_t>(),
              pages);
    EXPECT_EQ(found.at("dirty_bytes"), pages * page_bytes);
  }
}

TEST_P(RealCache, IsCleanAfterSyncAndLosesTheRegionThatIsUnmapped) {
  if (is_paged()) {
    region_.sync();
    EXPECT_EQ(observed().statistics.dirty_bytes, 0U);
    EXPECT_EQ(observed().statistics[Counter::write_backs], pages);
  }
  ASSERT_EQ(observed().regions.size(), 1U);
  Region second = cache_->map(directory_ / "watched.bin");
  EXPECT_EQ(observed().regions.size(), 2U);
  static_cast<void>(*static_cast<const volatile std::byte*>(second.data()));
  region_.unmap();
  EXPECT_EQ(observed().regions.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Modes, RealCache, ::testing::Values(FaultMode::automatic, FaultMode::kernel),
                         [](const ::testing::TestParamInfo<FaultMode>& mode) {
                           return std::string(mode.param == FaultMode::kernel ? "kernel" : "automatic");
                         });

}  // namespace
}  // namespace tiermap
