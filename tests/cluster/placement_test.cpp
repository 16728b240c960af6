// Where the bytes of a data set lie on its servers, there and back, and what that is chosen by.
#include "cluster/remote/placement.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "cluster/job/wanted_stripes.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t stripe_bytes = 8192;

DataSetPlacement placement_over(std::uint32_t servers, std::shared_ptr<const StripeTable> table) {
  DataSetLayout layout;
  layout.kind = DataSetLayout::Kind::striped;
  layout.servers = servers;
  layout.stripe_bytes = stripe_bytes;
  return DataSetPlacement(layout, std::move(table));
}

std::shared_ptr<const StripeTable> draw_table(std::uint32_t servers, std::size_t stripes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> server_of(stripes);
  for (std::uint32_t& one : server_of) {
    one = static_cast<std::uint32_t>(random() % servers);
  }
  return std::make_shared<const StripeTable>(servers, server_of);
}

/// Of `bytes`, in stripes.
void expect_each_byte_has_its_place(const DataSetPlacement& placement, std::uint32_t servers, std::uint64_t bytes) {
  std::map<std::uint32_t, std::set<std::uint64_t>> taken;
  std::map<std::uint32_t, std::uint64_t> last;
  for (std::uint64_t offset = 0; offset < bytes; offset += stripe_bytes / 4) {
    const std::uint32_t server = placement.server(offset, 0);
    const std::uint64_t local = placement.local_offset(offset, 0);
    ASSERT_LT(server, servers);
    EXPECT_TRUE(taken[server].insert(local).second) << offset;
    EXPECT_LE(local + stripe_bytes / 4, placement.local_bytes_of(server, bytes));
    EXPECT_EQ(placement.whole_offset(server, local), offset);
    EXPECT_EQ(placement.run(offset, bytes), stripe_bytes - offset % stripe_bytes);
    EXPECT_GE(local, last[server]);  // Lists of changes come in the order of offsets.
    last[server] = local;
  }
}

TEST(PlacementTest, ByATableEachByteHasAPlaceOfItsOwn) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto servers = static_cast<std::uint32_t>(2 + seed % 3);
    const DataSetPlacement placement = placement_over(servers, draw_table(servers, 1 + seed * 5, seed));
    expect_each_byte_has_its_place(placement, servers, (1 + seed * 5) * stripe_bytes);
  }
}

TEST(PlacementTest, StripedEachByteHasAPlaceOfItsOwn) {
  expect_each_byte_has_its_place(placement_over(3, nullptr), 3, 17 * stripe_bytes);
}

TEST(PlacementTest, AServerThatHasNothingHasAStripeThatIsNobodys) {
  const DataSetPlacement placement =
      placement_over(2, std::make_shared<const StripeTable>(2, std::vector<std::uint32_t>{1, 1, 1}));
  EXPECT_EQ(placement.local_bytes_of(0, 3 * stripe_bytes), stripe_bytes);
  EXPECT_EQ(placement.local_bytes_of(1, 3 * stripe_bytes), 3 * stripe_bytes);
  EXPECT_EQ(placement.whole_offset(0, 100), UINT64_MAX);
}

TEST(PlacementTest, AStripeGoesWhereItIsWantedMostAndElseStays) {
  const auto chosen = [](const std::vector<std::uint64_t>& wanted, std::uint32_t present, std::uint64_t stripe = 0) {
    return server_that_wants_most(wanted, present, stripe);
  };
  EXPECT_EQ(chosen({1, 5, 2}, 0), 1U);
  EXPECT_EQ(chosen({0, 0, 0}, 2), 2U);
  EXPECT_EQ(chosen({5, 1, 5}, 2), 2U);
  EXPECT_EQ(chosen({5, 1, 5}, 1, 0), 0U);
  EXPECT_EQ(chosen({5, 1, 5}, 1, 1), 2U);
}

TEST(PlacementTest, WhatIsWantedIsReadAsItWasWritten) {
  WantedStripes wanted(10 * stripe_bytes - 1, stripe_bytes);
  wanted.add(0, 2 * stripe_bytes);
  wanted.add(5 * stripe_bytes + 100, 2 * stripe_bytes);
  wanted.add(9 * stripe_bytes, stripe_bytes, 0.5);
  std::vector<std::uint64_t> read(wanted.stripes());
  const std::string text = wanted.text();
  EXPECT_TRUE(wanted.read(text, [&](std::uint64_t stripe, std::uint64_t bytes) { read.at(stripe) += bytes; }));
  EXPECT_EQ(read, (std::vector<std::uint64_t>{8192, 8192, 0, 0, 0, 8092, 8192, 100, 0, 4096}));
  const auto nothing = [](std::uint64_t, std::uint64_t) {};
  EXPECT_FALSE(wanted.read(text.substr(1), nothing));
  EXPECT_FALSE(WantedStripes(stripe_bytes, stripe_bytes).read(text, nothing));
  wanted.forget();
  EXPECT_EQ(wanted.text(), "");
}

}  // namespace
}  // namespace tiermap
