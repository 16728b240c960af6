// What a block is worth: what is said of it, by whom, and how it fades.
#include "tier/block_score.hpp"

#include <gtest/gtest.h>

namespace tiermap {
namespace {

constexpr ScoreTimes times{1000, 10'000};
constexpr std::uint64_t reader = 1;
constexpr std::uint64_t other = 2;

TEST(BlockScoreTest, halves_with_each_half_life) {
  BlockScore score;
  set_score(score, 0.8, reader, 500, times);
  EXPECT_NEAR(score_now(score, 500, times), 0.8, 1e-6);
  EXPECT_NEAR(score_now(score, 10'500, times), 0.4, 1e-6);
  EXPECT_NEAR(score_now(score, 20'500, times), 0.2, 1e-6);
}

TEST(BlockScoreTest, the_highest_of_several_sharers_holds_within_the_window) {
  BlockScore score;
  set_score(score, 0.8, reader, 0, times);
  set_score(score, 0.3, other, 999, times);
  EXPECT_NEAR(score_now(score, 0, times), 0.8, 1e-6);
  set_score(score, 0.9, other, 999, times);
  EXPECT_NEAR(score_now(score, 999, times), 0.9, 1e-6);
  set_score(score, 0.1, reader, 999 + 1000, times);  // The window is over.
  EXPECT_NEAR(score_now(score, 1999, times), 0.1, 1e-6);
}

TEST(BlockScoreTest, one_takes_back_what_he_said_himself) {
  BlockScore score;
  set_score(score, 1, reader, 0, times);
  set_score(score, 0, reader, 1, times);
  EXPECT_EQ(score_now(score, 1, times), 0);
}

TEST(BlockScoreTest, what_the_next_one_said_holds_when_the_highest_is_taken_back) {
  constexpr std::uint64_t third = 3;
  BlockScore score;
  set_score(score, 1, reader, 0, times);
  set_score(score, 0.3, other, 500, times);
  set_score(score, 0, reader, 900, times);  // He is done with it.
  EXPECT_NEAR(score_now(score, 500, times), 0.3, 1e-6);
  set_score(score, 0, other, 950, times);
  EXPECT_EQ(score_now(score, 950, times), 0);
  set_score(score, 0.5, reader, 1000, times);
  set_score(score, 0.7, other, 1000, times);
  set_score(score, 0.6, third, 1000, times);
  set_score(score, 0.1, other, 1001, times);
  EXPECT_NEAR(score_now(score, 1000, times), 0.6, 1e-6);
}

TEST(BlockScoreTest, what_the_next_one_said_holds_within_its_window_only) {
  BlockScore score;
  set_score(score, 1, reader, 0, times);
  set_score(score, 0.3, other, 0, times);
  set_score(score, 0, reader, 1000, times);
  EXPECT_EQ(score_now(score, 1000, times), 0);
}

TEST(BlockScoreTest, what_is_no_score_is_the_nearest_one) {
  BlockScore score;
  set_score(score, 7, reader, 0, times);
  EXPECT_EQ(score_now(score, 0, times), 1);
  set_score(score, -1, reader, 0, times);
  EXPECT_EQ(score_now(score, 0, times), 0);
}

TEST(BlockScoreTest, touches_make_it_worth_half_at_most) {
  BlockScore score;
  double before = 0;
  for (std::uint32_t touch = 0; touch < 3; ++touch) {
    touch_score(score, touch, times);
    EXPECT_GT(score_now(score, touch, times), before);
    before = score_now(score, touch, times);
  }
  for (std::uint32_t touch = 3; touch < 100; ++touch) {
    touch_score(score, touch, times);
  }
  EXPECT_LE(score_now(score, 100, times), 0.5);
}

TEST(BlockScoreTest, a_touch_says_nothing_against_what_was_said_of_late) {
  BlockScore score;
  set_score(score, 0, reader, 0, times);
  touch_score(score, 9'999, times);
  EXPECT_EQ(score_now(score, 9'999, times), 0);
  touch_score(score, 10'001, times);
  EXPECT_GT(score_now(score, 10'001, times), 0);
}

}  // namespace
}  // namespace tiermap
