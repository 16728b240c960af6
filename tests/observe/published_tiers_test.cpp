// What tiers hold is seen as it was published, and whatever else is in that memory harms nobody.
#include "observe/published_tiers.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "observe/publication.hpp"

namespace tiermap {
namespace {

TierReport report(const std::string& name, std::uint64_t number) {
  TierReport report;
  report.name = name;
  report.capacity_bytes = number;
  report.used_bytes = number + 1;
  report.dirty_bytes = number + 2;
  report.reads = number + 3;
  report.writes = number + 4;
  report.read_bytes = number + 5;
  report.written_bytes = number + 6;
  report.failed = number % 2 == 1;
  return report;
}

void expect_same(const TierReport& seen, const TierReport& told) {
  EXPECT_EQ(seen.name, told.name);
  EXPECT_EQ(seen.capacity_bytes, told.capacity_bytes);
  EXPECT_EQ(seen.used_bytes, told.used_bytes);
  EXPECT_EQ(seen.dirty_bytes, told.dirty_bytes);
  EXPECT_EQ(seen.reads, told.reads);
  EXPECT_EQ(seen.writes, told.writes);
  EXPECT_EQ(seen.read_bytes, told.read_bytes);
  EXPECT_EQ(seen.written_bytes, told.written_bytes);
  EXPECT_EQ(seen.failed, told.failed);
}

std::vector<TierReport> tiers_seen(const std::string& cache_name) {
  for (const ObservedCache& cache : observe_caches()) {
    if (cache.name == cache_name) {
      return cache.regions.at(0).tiers;
    }
  }
  return {};
}

TEST(PublishedTiers, AreSeenAsTheyWereTold) {
  Publication publication("tiers-told", "lru", "notify", true);
  PublishedRegion* const region = publication.add_region("tiered:///a", 1000, 4096);
  EXPECT_TRUE(tiers_seen("tiers-told").empty());
  for (const std::uint64_t number : {1U, 1000U}) {  // Once with names, and once without.
    region->tiers.publish({report("dram", number), report("disk", number + 1), report("backing", number + 2)});
    const std::vector<TierReport> seen = tiers_seen("tiers-told");
    ASSERT_EQ(seen.size(), 3U);
    expect_same(seen[0], report("dram", number));
    expect_same(seen[1], report("disk", number + 1));
    expect_same(seen[2], report("backing", number + 2));
  }
  // The next region of the slot has other ones, or none.
  publication.remove_region(region);
  ASSERT_EQ(publication.add_region("file:///b", 1000, 4096), region);
  EXPECT_TRUE(tiers_seen("tiers-told").empty());
  region->tiers.publish({report("other", 1)});
  EXPECT_EQ(tiers_seen("tiers-told").at(0).name, "other");
}

TEST(PublishedTiers, AsManyAsThereIsRoomFor) {
  const auto tiers = std::make_unique<PublishedTiers>();
  std::vector<TierReport> reports;
  for (std::uint64_t number = 0; number < PublishedTiers::max_tiers + 3; ++number) {
    reports.push_back(report(std::string(200, 'x'), number));
  }
  tiers->publish(reports);
  const std::vector<TierReport> seen = tiers->observe();
  ASSERT_EQ(seen.size(), PublishedTiers::max_tiers);
  EXPECT_EQ(seen.back().name, std::string(sizeof(PublishedTier::name) - 1, 'x'));
  EXPECT_EQ(seen.back().capacity_bytes, PublishedTiers::max_tiers - 1);
}

TEST(PublishedTiers, RandomBytesHarmNobody) {
  std::mt19937 random(1);
  const auto tiers = std::make_unique<PublishedTiers>();
  for (int round = 0; round < 200; ++round) {
    std::vector<char> bytes(sizeof(PublishedTiers));
    for (char& byte : bytes) {
      byte = static_cast<char>(random());
    }
    std::memcpy(static_cast<void*>(tiers.get()), bytes.data(), bytes.size());
    const std::vector<TierReport> seen = tiers->observe();
    EXPECT_LE(seen.size(), PublishedTiers::max_tiers);
    for (const TierReport& tier : seen) {
      EXPECT_EQ(tier.name.find_first_of("\n\r\x1b"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tiermap
