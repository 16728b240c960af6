// Which rule holds, by how long blocks were away.
#include "tier/newcomer_rule.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tiermap {
namespace {

using Where = NewcomerRule::Where;
constexpr std::uint64_t settled = 100;
constexpr std::uint64_t passing = 4;

class NewcomerRuleTest : public testing::Test {
 protected:
  NewcomerRuleTest() { rule_.set_room(settled, passing); }
  /// A round of a scan of which the first so many are in the tiers.
  void round(std::uint64_t blocks, std::uint64_t there) {
    for (std::uint64_t block = 0; block < blocks; ++block) {
      rule_.use(blocks_[block], block < there ? Where::settled : Where::behind);
    }
  }
  /// Rounds of a scan of so many, of which nothing stays, until a part of it would be better.
  void scan_in_vain(std::uint64_t blocks) {
    for (int times = 0; times < 3 && !rule_.keeps_settled(); ++times) {
      round(blocks, 0);
    }
    ASSERT_TRUE(rule_.keeps_settled()) << blocks;
  }
  NewcomerRule rule_;
  std::vector<BlockVisits> blocks_ = std::vector<BlockVisits>(1000);
};

TEST_F(NewcomerRuleTest, what_is_used_once_changes_nothing) {
  round(1000, 0);
  EXPECT_FALSE(rule_.keeps_settled());
}

TEST_F(NewcomerRuleTest, a_scan_that_comes_round_and_has_nothing_is_better_off_with_a_part) {
  for (const std::uint64_t blocks : {std::uint64_t{110}, std::uint64_t{200}, std::uint64_t{1000}}) {
    rule_ = NewcomerRule();
    rule_.set_room(settled, passing);
    blocks_.assign(1000, BlockVisits());
    scan_in_vain(blocks);
    for (int times = 0; times < 20; ++times) {
      round(blocks, settled);
      EXPECT_TRUE(rule_.keeps_settled()) << blocks << " in round " << times;
    }
  }
}

TEST_F(NewcomerRuleTest, what_comes_back_soon_and_is_gone_speaks_for_what_was_used_last) {
  scan_in_vain(150);
  int rounds = 0;
  for (; rounds < 10 && rule_.keeps_settled(); ++rounds) {
    round(80, 0);
  }
  EXPECT_LT(rounds, 4);
}

TEST_F(NewcomerRuleTest, a_part_that_nobody_uses_is_given_up) {
  scan_in_vain(150);
  int rounds = 0;
  for (; rounds < 10 && rule_.keeps_settled(); ++rounds) {
    round(150, 0);
  }
  EXPECT_LT(rounds, 3);
}

TEST_F(NewcomerRuleTest, what_is_used_last_and_is_there_speaks_for_it) {
  for (int times = 0; times < 20; ++times) {
    round(90, 90);
  }
  EXPECT_FALSE(rule_.keeps_settled());
}

TEST_F(NewcomerRuleTest, the_pieces_of_a_block_are_one_use) {
  for (std::uint64_t block = 0; block < 500; ++block) {
    for (int piece = 0; piece < 16; ++piece) {
      rule_.use(blocks_[block], Where::behind);
      rule_.use(blocks_[block + 1], Where::behind);
    }
  }
  EXPECT_FALSE(rule_.keeps_settled());
  EXPECT_EQ(rule_.since(blocks_[0]), 500U);
}

}  // namespace
}  // namespace tiermap
