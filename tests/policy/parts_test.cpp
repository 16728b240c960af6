// The parts that policies are made of: lists, the memory of evicted pages, the duel.
#include <gtest/gtest.h>

#include "cache/policy/absence.hpp"
#include "cache/policy/frame_list.hpp"
#include "cache/policy/ghost_table.hpp"
#include "cache/policy/page_hash.hpp"
#include "cache/policy/rule_duel.hpp"

namespace tiermap {
namespace {

constexpr Place left_list = first_list;
constexpr Place right_list = first_list + 1;

TEST(FrameLists, KeepOrderCountAndUnitsThroughEveryMove) {
  FrameLists<2> lists(8);
  for (FrameId frame = 0; frame < 4; ++frame) {
    lists.enter(frame, frame + 1);
    EXPECT_EQ(lists.place(frame), named_place);
    lists.put_young(left_list, frame);
  }
  EXPECT_EQ(lists.list_units(left_list), 10U);
  lists.put_young(right_list, 1);  // From the middle.
  lists.put_old(right_list, 3);    // From the young end.
  lists.put_old(left_list, 2);     // Within its list, to the old end.
  EXPECT_EQ(lists.oldest(left_list), 2U);
  EXPECT_EQ(lists.oldest(right_list), 3U);
  EXPECT_EQ(lists.list_units(left_list), 1U + 3U);
  EXPECT_EQ(lists.list_units(right_list), 2U + 4U);
  lists.name(2);
  EXPECT_EQ(lists.oldest(left_list), 0U);
  lists.leave(0);
  EXPECT_TRUE(lists.empty(left_list));
  EXPECT_EQ(lists.oldest(left_list), no_frame);
  EXPECT_EQ(lists.resident_frames(), 3U);
  lists.leave(2);
  lists.leave(2);  // Again: nothing happens.
  EXPECT_EQ(lists.resident_frames(), 2U);
}

TEST(GhostTable, RemembersTheLastEvictionsOnceEach) {
  GhostTable ghosts(64);
  for (std::uint64_t page = 0; page < 32; ++page) {
    ghosts.insert(hash_of({1, page}));
  }
  EXPECT_FALSE(ghosts.take(hash_of({1, 5}), 20)) << "evicted 27 evictions ago";
  EXPECT_FALSE(ghosts.take(hash_of({1, 5}), 1000)) << "a look-up forgets";
  EXPECT_TRUE(ghosts.take(hash_of({1, 31}), 1));
  EXPECT_FALSE(ghosts.take(hash_of({2, 30}), 1000)) << "another region's page";
}

TEST(GhostTable, ReturnsTheNoteAndHowManyWereInsertedSince) {
  GhostTable ghosts(64);
  for (std::uint8_t page = 0; page < 32; ++page) {
    ghosts.insert(hash_of({1, page}), page);
  }
  for (std::uint8_t page = 0; page < 32; ++page) {
    const std::optional<GhostTable::Remembered> remembered = ghosts.take(hash_of({1, page}));
    ASSERT_TRUE(remembered.has_value());
    EXPECT_EQ(remembered->note, page);
    EXPECT_EQ(remembered->evictions_since, 31U - page);
    EXPECT_FALSE(ghosts.take(hash_of({1, page})).has_value()) << "a look-up forgets";
  }
}

TEST(Absence, GrowsWithTheEvictionsMeanwhileByQuartersOfADoubling) {
  EXPECT_EQ(absence_of(0), 1);
  EXPECT_EQ(absence_of(1), 5);
  EXPECT_EQ(absence_of(3), 9);
  EXPECT_EQ(absence_of(4), 10);
  EXPECT_EQ(absence_of(5), 11);
  EXPECT_EQ(absence_of(1023), 41);
  for (std::uint64_t evictions = 0; evictions < 100'000; ++evictions) {
    ASSERT_LE(absence_of(evictions), absence_of(evictions + 1));
  }
  EXPECT_EQ(absence_of((std::uint64_t{1} << 40) - 1), longest_absence);
}

TEST(Absence, OfAPageThatWasAwayBeforeIsTheMean) {
  EXPECT_EQ(absence_after(20, 30), 25);
  EXPECT_EQ(absence_after(1, 1), 1);
  EXPECT_GT(absence_after(0, 20), 20) << "once may be chance";
  EXPECT_EQ(absence_after(0, longest_absence), longest_absence);
}

// Whatever the absences are: the limit finds its place.
TEST(AbsenceLimit, AllowsOneInSixteenAndTheShortestOfThem) {
  for (const Absence shortest : {Absence{1}, Absence{30}, Absence{90}}) {
    AbsenceLimit limit;
    int allowed = 0;
    int allowed_of_longest = 0;
    for (int fill = 0; fill < 20'000; ++fill) {
      const auto absence = static_cast<Absence>(shortest + fill * 7 % 32);
      const bool may_stay = limit.allows(absence, absence);
      if (fill >= 4'000) {
        allowed += may_stay ? 1 : 0;
        allowed_of_longest += may_stay && absence >= shortest + 16 ? 1 : 0;
      }
    }
    EXPECT_NEAR(allowed, 1000, 20) << int{shortest};
    EXPECT_EQ(allowed_of_longest, 0) << int{shortest};
  }
}

// As in a scan that comes round: to keep one instead of another gains nothing.
TEST(AbsenceLimit, AllowsNoneWhereAllAreAwayAlike) {
  AbsenceLimit limit;
  int allowed = 0;
  for (int fill = 0; fill < 20'000; ++fill) {
    const auto now = static_cast<Absence>(30 + fill % 2);
    allowed += limit.allows(absence_after(fill % 3 == 0 ? 0 : 30, now), now) && fill > 2'000 ? 1 : 0;
  }
  EXPECT_EQ(allowed, 0);
}

TEST(AbsenceLimit, NeverAllowsAPageThatIsNotKnown) {
  AbsenceLimit limit;
  for (int fill = 0; fill < 10'000; ++fill) {
    ASSERT_FALSE(limit.allows(0, 0));
  }
}

TEST(GhostTable, ForgetsTheOldestFirstWhenItIsFull) {
  GhostTable ghosts(4);
  for (std::uint64_t page = 0; page < 1000; ++page) {
    ghosts.insert(hash_of({1, page}));
  }
  EXPECT_TRUE(ghosts.take(hash_of({1, 999}), 1000));
  int remembered = 0;
  for (std::uint64_t page = 0; page < 900; ++page) {
    remembered += ghosts.take(hash_of({1, page}), 1000) ? 1 : 0;
  }
  EXPECT_EQ(remembered, 0);
}

TEST(RuleDuel, FollowsTheChallengerWhenItIsFarEnoughAheadAndDropsItWhenItIsNot) {
  RuleDuel duel;
  for (int miss = 0; miss < 39; ++miss) {
    EXPECT_FALSE(duel.follow_challenger()) << "after " << miss;
    duel.incumbent_missed(99);
  }
  duel.incumbent_missed(99);
  duel.incumbent_missed(99);  // One step back was taken on the way.
  EXPECT_TRUE(duel.follow_challenger());
  for (int miss = 0; miss < 39; ++miss) {
    duel.challenger_missed(99);
    EXPECT_TRUE(duel.follow_challenger()) << "after " << miss;
  }
  duel.challenger_missed(99);
  EXPECT_FALSE(duel.follow_challenger());
}

TEST(RuleDuel, AChallengerThatHasLostMuchStartsAgainForOneSampleOfMisses) {
  RuleDuel duel;
  for (int miss = 0; miss < 50; ++miss) {
    EXPECT_FALSE(duel.challenger_starts_again()) << "after " << miss;
    duel.challenger_missed(99);
  }
  for (int miss = 0; miss < 100; ++miss) {
    EXPECT_TRUE(duel.challenger_starts_again()) << "after " << miss;
    duel.incumbent_missed(99);  // Not counted.
    duel.challenger_missed(99);
  }
  EXPECT_FALSE(duel.challenger_starts_again());
  EXPECT_FALSE(duel.follow_challenger());
}

TEST(RuleDuel, AChallengerThatNeverWinsStartsAgain) {
  RuleDuel duel;
  int misses = 0;
  while (!duel.challenger_starts_again() && misses < 10000) {
    duel.incumbent_missed(99);
    duel.challenger_missed(99);
    ++misses;
  }
  EXPECT_EQ(misses, 601);
}

}  // namespace
}  // namespace tiermap
