// Where blocks belong by their scores, and in what order they go there.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tier/organizer.hpp"

namespace tiermap {
namespace {

std::string text_of(const std::vector<BlockMove>& moves) {
  const auto name = [](TierNumber tier) { return tier == in_backing ? std::string("b") : std::to_string(tier); };
  std::string text;
  for (const BlockMove& move : moves) {
    text += (text.empty() ? "" : " ") + std::to_string(move.block) + ":" + name(move.from) + ">" + name(move.to);
  }
  return text;
}

TEST(PlanTest, the_highest_scores_get_the_fastest_tier) {
  const std::vector<ScoredBlock> blocks = {{1, 0.2, in_backing}, {2, 0.9, in_backing}, {3, 0.5, in_backing}};
  EXPECT_EQ(text_of(plan_moves(blocks, {1, 1}, 0.1)), "2:b>0 3:b>1");
}

TEST(PlanTest, nothing_moves_where_all_is_in_its_place) {
  EXPECT_EQ(text_of(plan_moves({{1, 0.9, 0}, {2, 0.5, 1}, {3, 0, in_backing}}, {1, 1}, 0.1)), "");
  EXPECT_EQ(text_of(plan_moves({}, {4}, 0.1)), "");
}

TEST(PlanTest, a_little_more_is_not_worth_a_move) {
  EXPECT_EQ(text_of(plan_moves({{1, 0.50, 0}, {2, 0.52, in_backing}}, {1}, 0.1)), "");
  EXPECT_EQ(text_of(plan_moves({{1, 0.50, 0}, {2, 0.80, in_backing}}, {1}, 0.1)), "1:0>b 2:b>0");
}

TEST(PlanTest, what_nobody_needs_soon_is_not_fetched) {
  EXPECT_EQ(text_of(plan_moves({{1, 0.09, in_backing}}, {1}, 0.1)), "");
}

TEST(PlanTest, room_is_made_from_the_slowest_tier_up_before_it_is_taken) {
  const std::vector<ScoredBlock> blocks = {{1, 0.3, 0}, {2, 0.1, 1}, {3, 0.9, in_backing}};
  EXPECT_EQ(text_of(plan_moves(blocks, {1, 1}, 0.1)), "2:1>b 1:0>1 3:b>0");
}

TEST(PlanTest, a_tier_without_room_is_emptied) {
  EXPECT_EQ(text_of(plan_moves({{1, 0.9, 0}, {2, 0.8, 1}}, {0, 2}, 0.1)), "1:0>1");
}

// Whatever the scores: no tier gets more than it has room for, and no block in a tier is worth less than one in a
// slower one by more than a move costs.
TEST(PlanTest, holds_for_any_scores) {
  std::mt19937_64 random(20);
  for (int round = 0; round < 200; ++round) {
    std::vector<ScoredBlock> blocks;
    for (std::uint64_t block = 0; block < 50; ++block) {
      const auto tier = static_cast<TierNumber>(random() % 3);
      blocks.push_back({block, static_cast<double>(random() % 1000) / 1000, tier == 2 ? in_backing : tier});
    }
    const std::vector<std::uint64_t> capacities = {random() % 20, random() % 20};
    std::vector<TierNumber> after;
    for (const ScoredBlock& block : blocks) {
      after.push_back(block.tier);
    }
    for (const BlockMove& move : plan_moves(blocks, capacities, 0.1)) {
      EXPECT_EQ(after[move.block], move.from);
      after[move.block] = move.to;
    }
    for (const TierNumber tier : {TierNumber{0}, TierNumber{1}}) {
      EXPECT_LE(static_cast<std::uint64_t>(std::ranges::count(after, tier)), capacities[tier]);
    }
    for (std::size_t one = 0; one < blocks.size(); ++one) {
      for (std::size_t other = 0; other < blocks.size(); ++other) {
        if (after[one] < after[other]) {
          EXPECT_GE(blocks[one].score, blocks[other].score - 0.1) << round;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tiermap
