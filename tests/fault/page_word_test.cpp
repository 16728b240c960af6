// The word of a page: its parts do not disturb each other, ownership is exclusive, nobody sleeps through a change.
#include "cache/page_word.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

TEST(PageWord, PartsAreIndependent) {
  const PageWord word = PageWord{}
                            .with_state(PageState::writing)
                            .with_frame(0xDEADBEEF)
                            .with_pins(0xABCD)
                            .with(PageWord::prefetched_bit | PageWord::waiters_bit);
  EXPECT_EQ(word.state(), PageState::writing);
  EXPECT_EQ(word.frame(), 0xDEADBEEFU);
  EXPECT_EQ(word.pins(), 0xABCDU);
  EXPECT_TRUE(word.prefetched());
  EXPECT_TRUE(word.waiters());
  EXPECT_FALSE(word.probation());
  EXPECT_FALSE(word.placing());
  const PageWord other = word.with_state(PageState::clean)
                             .without(PageWord::waiters_bit)
                             .with(PageWord::probation_bit)
                             .with_pins(most_pins);
  EXPECT_EQ(other.frame(), 0xDEADBEEFU);
  EXPECT_EQ(other.pins(), most_pins);
  EXPECT_TRUE(other.prefetched());
  EXPECT_FALSE(other.waiters());
  EXPECT_TRUE(other.probation());
}

TEST(PageWord, EveryStateFitsAndSaysWhetherItIsOwnedOrMapped) {
  for (std::uint8_t number = 0; number <= static_cast<std::uint8_t>(PageState::failed); ++number) {
    const auto state = static_cast<PageState>(number);
    const PageWord word = PageWord{}.with_frame(no_frame).with_state(state);
    EXPECT_EQ(word.state(), state);
    EXPECT_FALSE(word.waiters());
    const bool owned = state == PageState::filling || state == PageState::busy || state == PageState::cleaning ||
                       state == PageState::writing;
    const bool mapped = state == PageState::clean || state == PageState::dirty || state == PageState::cleaning;
    EXPECT_EQ(word.owned(), owned) << int{number};
    EXPECT_EQ(word.mapped(), mapped) << int{number};
  }
}

TEST(PageTable, AWordChangesOnlyFromWhatWasSeen) {
  PageTable table(10);
  PageWord seen = table.load(3);
  EXPECT_EQ(seen.state(), PageState::absent);
  EXPECT_TRUE(table.change(3, seen, seen.with_state(PageState::filling)));
  PageWord stale;
  EXPECT_FALSE(table.change(3, stale, stale.with_state(PageState::busy)));
  EXPECT_EQ(stale.state(), PageState::filling) << "what was found is told";
}

TEST(PageTable, PublishingKeepsPinsAndTellsOfWaiters) {
  PageTable table(10);
  PageWord word = table.load(0);
  ASSERT_TRUE(table.change(0, word, word.with_state(PageState::filling).with_pins(3)));
  EXPECT_FALSE(table.publish(0, PageWord{}.with_state(PageState::clean).with_frame(7)));
  EXPECT_EQ(table.load(0).pins(), 3U);
  EXPECT_EQ(table.load(0).frame(), 7U);
  word = table.load(0);
  ASSERT_TRUE(table.change(0, word, word.with_state(PageState::busy)));
  ASSERT_TRUE(table.announce_waiter(0, table.load(0)));
  EXPECT_TRUE(table.load(0).waiters());
  EXPECT_TRUE(table.publish(0, table.load(0).with_state(PageState::clean)));
  EXPECT_FALSE(table.load(0).waiters());
  EXPECT_EQ(table.load(0).pins(), 3U);
}

TEST(PageTable, AWaiterForAWordThatHasChangedIsTurnedAway) {
  PageTable table(10);
  const PageWord before = PageWord{}.with_state(PageState::busy);
  EXPECT_FALSE(table.announce_waiter(0, before));
  table.wait(0, before);  // Returns at once.
}

TEST(PageTable, ASleeperWakesWhenTheOwnerIsDone) {
  PageTable table(10);
  PageWord word = table.load(0);
  ASSERT_TRUE(table.change(0, word, word.with_state(PageState::filling)));
  std::atomic<bool> awake{false};
  std::thread sleeper([&] {
    while (table.load(0).owned()) {
      table.wait(0, table.load(0));
    }
    awake = true;
  });
  while (!table.load(0).waiters()) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(awake.load());
  if (table.publish(0, PageWord{}.with_state(PageState::clean))) {
    table.wake(0);
  }
  sleeper.join();
  EXPECT_TRUE(awake.load());
}

TEST(PageTable, PlacingIsSeenAndEndsWithTheFill) {
  PageTable table(10);
  PageWord word = table.load(0);
  ASSERT_TRUE(table.change(0, word, word.with_state(PageState::filling)));
  table.mark_placing(0);
  EXPECT_TRUE(table.load(0).placing());
  EXPECT_EQ(table.load(0).state(), PageState::filling);
  static_cast<void>(table.publish(0, PageWord{}.with_state(PageState::clean)));
  EXPECT_FALSE(table.load(0).placing());
}

TEST(PageTable, WalksVisitWhatIsNotAbsentAndSkipWhatNeverWas) {
  PageTable table(std::uint64_t{1} << 30);  // Costs address space only.
  const std::vector<std::uint64_t> used = {0, 1, 4095, 4096, 1'000'000, (std::uint64_t{1} << 30) - 1};
  for (const std::uint64_t page : used) {
    PageWord word;
    ASSERT_TRUE(table.change(page, word, word.with_state(PageState::clean)));
    table.mark_used(page);
  }
  std::vector<std::uint64_t> visited;
  table.for_each_used(0, std::uint64_t{1} << 30, [&](std::uint64_t page) { visited.push_back(page); });
  EXPECT_EQ(visited, used);
  visited.clear();
  table.for_each_used(1, 4096, [&](std::uint64_t page) { visited.push_back(page); });
  EXPECT_EQ(visited, (std::vector<std::uint64_t>{1, 4095}));
}

TEST(PageTable, OwnershipIsExclusiveAndPinsAreNeverLost) {
  PageTable table(1);
  std::uint64_t guarded = 0;  // Changed by owners only.
  constexpr int each = 3000;
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < each; ++turn) {
        PageWord word = table.load(0);
        while (word.owned() || !table.change(0, word, word.with_state(PageState::busy))) {
          if (word.owned()) {
            table.wait(0, word);
            word = table.load(0);
          }
        }
        ++guarded;
        if (table.publish(0, word.with_state(PageState::clean))) {
          table.wake(0);
        }
        PageWord now = table.load(0);
        while (!table.change(0, now, now.with_pins(now.pins() + 1))) {
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(guarded, 3U * each);
  EXPECT_EQ(table.load(0).pins(), 3U * each);
}

}  // namespace
}  // namespace tiermap
