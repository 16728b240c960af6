// What `tiermap tune` tries, by what a run showed.
#include "tune/decision_tree.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tiermap {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

Character run_with(const std::map<Counter, std::uint64_t>& counters) {
  Statistics statistics;
  for (const auto& [counter, value] : counters) {
    statistics.counters[static_cast<std::size_t>(counter)] = value;
  }
  return characterise(statistics);
}

std::vector<std::string> values_of(const std::vector<Proposal>& proposals) {
  std::vector<std::string> values;
  for (const Proposal& proposal : proposals) {
    EXPECT_FALSE(proposal.why.empty());
    values.push_back(proposal.settings.front().second);
  }
  return values;
}

const Character scattered = run_with(
    {{Counter::read_faults, 1000}, {Counter::fills, 1000}, {Counter::evictions, 900}, {Counter::read_bytes, 1000}});
const Character sequential = run_with({{Counter::fills, 1000},
                                       {Counter::prefetched_pages, 900},
                                       {Counter::prefetch_used, 890},
                                       {Counter::prefetch_wasted, 10},
                                       {Counter::rescues, 890},
                                       {Counter::evictions, 900}});

using Sizes = std::vector<std::uint64_t>;
using Values = std::vector<std::string>;

TEST(DecisionTree, NothingFollowsFromARunThatDidNothing) {
  const Character idle = characterise(Statistics{});
  EXPECT_TRUE(propose_read_ahead(idle, 4 * mib, 1024 * mib).empty());
  EXPECT_FALSE(propose_watermarks(idle, 4 * kib).has_value());
  EXPECT_TRUE(propose_policies(idle, "cyclic").empty());
  EXPECT_TRUE(propose_fillers(idle, 2).empty());
  EXPECT_TRUE(propose_evictors(idle, 1).empty());
}

TEST(DecisionTree, PagesGetSmallerWhereLittleIsUsedAgainAndLargerElsewhere) {
  const PageSizes for_scattered = propose_page_sizes(scattered, 64 * kib, 64 * mib);
  EXPECT_EQ(for_scattered.likely, (Sizes{16 * kib, 4 * kib}));
  EXPECT_EQ(for_scattered.unlikely, (Sizes{256 * kib, mib}));
  const PageSizes for_sequential = propose_page_sizes(sequential, 64 * kib, 64 * mib);
  EXPECT_EQ(for_sequential.likely, (Sizes{256 * kib, mib}));
  EXPECT_EQ(for_sequential.unlikely, (Sizes{16 * kib, 4 * kib}));
  const Character reused = run_with({{Counter::fills, 1000}, {Counter::rescues, 500}});
  EXPECT_EQ(propose_page_sizes(reused, 4 * kib, mib).likely, (Sizes{16 * kib}));
  EXPECT_EQ(propose_page_sizes(reused, 64 * mib, std::uint64_t{1} << 40).likely, (Sizes{}));
}

TEST(DecisionTree, NoPageSizeFollowsFromOneThatNobodySaw) {
  const PageSizes sizes = propose_page_sizes(scattered, 0, 64 * mib);
  EXPECT_EQ(sizes.likely, (Sizes{}));
  EXPECT_EQ(sizes.unlikely, (Sizes{}));
}

TEST(DecisionTree, ReadAheadFollowsWhetherWhatWasReadAheadWasUsed) {
  EXPECT_EQ(values_of(propose_read_ahead(sequential, 4 * mib, 1024 * mib)), (Values{"16MiB", "64MiB"}));
  EXPECT_EQ(values_of(propose_read_ahead(sequential, 4 * mib, 64 * mib)), (Values{"16MiB"}));
  EXPECT_EQ(values_of(propose_read_ahead(sequential, 4 * mib, 16 * mib)), Values{});
  EXPECT_EQ(values_of(propose_read_ahead(sequential, 0, 1024 * mib)), Values{});
  EXPECT_EQ(values_of(propose_read_ahead(scattered, 4 * mib, 1024 * mib)), Values{});
  const Character small_pages = run_with({{Counter::fills, 1000},
                                          {Counter::prefetched_pages, 900},
                                          {Counter::prefetch_used, 56},
                                          {Counter::prefetch_wasted, 1},
                                          {Counter::evictions, 900}});
  EXPECT_EQ(values_of(propose_read_ahead(small_pages, 4 * mib, 64 * mib)), (Values{"16MiB"}));
  const Character wasteful = run_with({{Counter::fills, 1000},
                                       {Counter::prefetched_pages, 500},
                                       {Counter::prefetch_used, 100},
                                       {Counter::prefetch_wasted, 400}});
  EXPECT_EQ(values_of(propose_read_ahead(wasteful, 4 * mib, 1024 * mib)), (Values{"0"}));
}

TEST(DecisionTree, WatermarksFollowWhetherFaultsWaitForAPage) {
  const Character waiting = run_with({{Counter::fills, 1000},
                                      {Counter::read_faults, 500},
                                      {Counter::write_faults, 500},
                                      {Counter::frame_waits, 200},
                                      {Counter::evictions, 900}});
  EXPECT_EQ(propose_watermarks(waiting, mib)->settings.front(),
            (std::pair<std::string, std::string>{"TIERMAP_HIGH_WATERMARK", "85"}));
  EXPECT_EQ(propose_watermarks(scattered, 4 * kib)->settings.front().second, "99");
  EXPECT_FALSE(propose_watermarks(scattered, mib).has_value()) << "large pages";
}

TEST(DecisionTree, PoliciesAreThoseThatTheAccessesSpeakFor) {
  EXPECT_EQ(values_of(propose_policies(scattered, "cyclic")), (Values{"small-main", "fifo"}));
  const Character recent = run_with({{Counter::fills, 1000}, {Counter::rescues, 200}, {Counter::evictions, 500}});
  EXPECT_EQ(values_of(propose_policies(recent, "hot-fifo")), (Values{"lru", "small-main", "cyclic"}));
}

TEST(DecisionTree, WhereMemoryIsEnoughNothingIsTriedAboutEviction) {
  const Character fits = run_with({{Counter::read_faults, 1000},
                                   {Counter::fills, 1000},
                                   {Counter::evictions, 20},
                                   {Counter::frame_waits, 500},
                                   {Counter::written_bytes, 1000}});
  EXPECT_FALSE(propose_watermarks(fits, 4 * kib).has_value());
  EXPECT_TRUE(propose_policies(fits, "cyclic").empty());
  EXPECT_TRUE(propose_evictors(fits, 1).empty());
}

TEST(DecisionTree, ThreadsAreAddedWhereTheyAreWaitedForOrWriteMuch) {
  const Character writing = run_with(
      {{Counter::fills, 100}, {Counter::evictions, 50}, {Counter::read_bytes, 100}, {Counter::written_bytes, 50}});
  EXPECT_EQ(values_of(propose_evictors(writing, 1)), (Values{"2", "4", "8", "16"}));
  EXPECT_EQ(values_of(propose_evictors(scattered, 1)), Values{});
  Statistics queued;
  queued.stages[static_cast<std::size_t>(Stage::queue)].buckets[14] = 100;
  queued.stages[static_cast<std::size_t>(Stage::read)].buckets[16] = 100;
  EXPECT_EQ(values_of(propose_fillers(characterise(queued), 2)), (Values{"4", "8", "16"}));
  EXPECT_EQ(values_of(propose_fillers(scattered, 2)), Values{});
}

}  // namespace
}  // namespace tiermap
