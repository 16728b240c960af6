// The stream detector alone: what it asks for, given pages that are missed.
#include "fault/stream_detector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace tiermap {
namespace {

// Plays a reader: pages asked for ahead are there when it comes to them, the others are missed.
struct Reader {
  StreamDetector detector;
  std::set<std::uint64_t> fetched;
  std::uint64_t misses = 0;

  explicit Reader(std::uint32_t most_pages) { detector.configure(most_pages); }
  void take(const ReadAhead& plan) {
    for (std::uint32_t index = 0; index < plan.count; ++index) {
      fetched.insert(plan.first + static_cast<std::uint64_t>(plan.step * static_cast<std::int64_t>(index)));
    }
  }
  void read(std::uint64_t page) {
    const bool there = fetched.count(page) != 0;
    misses += there ? 0 : 1;
    take(there ? detector.used(page) : detector.missed(page));
  }
};

TEST(StreamDetector, AForwardReaderSoonMissesNothing) {
  Reader reader(64);
  for (std::uint64_t page = 1000; page < 2000; ++page) {
    reader.read(page);
  }
  EXPECT_LE(reader.misses, 8U);
  EXPECT_LE(*reader.fetched.rbegin(), 2000U + 64U);
  EXPECT_GE(*reader.fetched.begin(), 1000U);
}

TEST(StreamDetector, PastTheEndOfAShortReaderLittleIsFetched) {
  for (std::uint64_t length = 1; length <= 128; length *= 2) {
    Reader reader(1024);
    for (std::uint64_t page = 0; page < length; ++page) {
      reader.read(page);
    }
    const std::uint64_t past_end = reader.fetched.empty() ? 0 : *reader.fetched.rbegin() + 1 - length;
    EXPECT_LE(past_end, std::max<std::uint64_t>(2 * length, 4)) << length;
  }
}

TEST(StreamDetector, WhereWhatWasFetchedGoesUntouchedLessIsFetched) {
  const auto fetched_by_a_new_reader = [](Reader& reader, std::uint64_t start) {
    reader.fetched.clear();
    for (std::uint64_t page = start; page < start + 2000; ++page) {
      reader.read(page);
    }
    return *reader.fetched.rbegin() - (start + 1999);
  };
  Reader reader(256);
  EXPECT_GE(fetched_by_a_new_reader(reader, 10000), 128U);
  std::uint64_t fetched = 256;
  for (std::uint64_t start = 20'000; start < 100'000 && fetched > 1; start += 10'000) {
    for (int page = 0; page < 100; ++page) {
      reader.detector.ended(page % 4 == 0);
    }
    const std::uint64_t now = fetched_by_a_new_reader(reader, start);
    EXPECT_LT(now, fetched);
    fetched = now;
  }
  EXPECT_EQ(fetched, 1U);
  for (int page = 0; page < 10000; ++page) {
    reader.detector.ended(page % 4 != 0);  // Neither good nor bad.
  }
  EXPECT_EQ(fetched_by_a_new_reader(reader, 130'000), 1U);
  for (int page = 0; page < 10000; ++page) {
    reader.detector.ended(page % 16 != 0);
  }
  EXPECT_GE(fetched_by_a_new_reader(reader, 140'000), 128U);
}

TEST(StreamDetector, AWindowMayNarrowInTheMiddleOfAStream) {
  constexpr std::uint32_t most_pages = 256;
  for (std::uint64_t until_waste = 1; until_waste < 1200; until_waste += 7) {
    Reader reader(most_pages);
    for (std::uint64_t page = 0; page < 2000; ++page) {
      for (int end = 0; page >= until_waste && end < 100; ++end) {
        reader.detector.ended(false);
      }
      reader.read(page);
      ASSERT_LE(reader.fetched.empty() ? 0 : *reader.fetched.rbegin(), page + most_pages) << until_waste;
    }
    EXPECT_LE(*reader.fetched.rbegin(), 2001U) << until_waste;
  }
}

TEST(StreamDetector, WithoutReadAheadNothingIsFetchedWhateverEnds) {
  Reader reader(0);
  for (int page = 0; page < 1000; ++page) {
    reader.detector.ended(page % 2 == 0);
    reader.read(static_cast<std::uint64_t>(page));
  }
  EXPECT_TRUE(reader.fetched.empty());
}

TEST(StreamDetector, ABackwardReaderToo) {
  Reader reader(64);
  for (std::uint64_t page = 2000; page > 1000; --page) {
    reader.read(page);
  }
  EXPECT_LE(reader.misses, 8U);
}

TEST(StreamDetector, EveryStrideUpTo64IsSeenAndOnlyItsPagesAreFetched) {
  for (std::uint64_t stride = 2; stride <= 64; ++stride) {
    Reader reader(64);
    for (std::uint64_t step = 0; step < 200; ++step) {
      reader.read(step * stride);
    }
    EXPECT_LE(reader.misses, 8U) << stride;
    for (const std::uint64_t page : reader.fetched) {
      EXPECT_EQ(page % stride, 0U) << stride;
    }
  }
}

TEST(StreamDetector, AStrideBeyond64IsNoStream) {
  Reader reader(64);
  for (std::uint64_t step = 0; step < 200; ++step) {
    reader.read(step * 1000);
  }
  EXPECT_EQ(reader.misses, 200U);
  EXPECT_TRUE(reader.fetched.empty());
}

TEST(StreamDetector, SixteenReadersAtOnceAreTold) {
  Reader reader(32);
  for (std::uint64_t step = 0; step < 200; ++step) {
    for (std::uint64_t stream = 0; stream < 16; ++stream) {
      reader.read(stream * 1'000'000 + step);
    }
  }
  EXPECT_LE(reader.misses, 16U * 8U);
}

TEST(StreamDetector, RandomAccessFetchesAlmostNothing) {
  Reader reader(64);
  std::mt19937_64 random(1);
  for (int access = 0; access < 20'000; ++access) {
    reader.read(random() % 1'000'000);
  }
  EXPECT_LE(reader.fetched.size(), 20U);
}

TEST(StreamDetector, TheWindowStartsSmallAndNeverPassesTheMost) {
  StreamDetector detector;
  detector.configure(32);
  std::uint64_t frontier = 0;
  std::uint32_t first_count = 0;
  for (std::uint64_t page = 0; page < 100; ++page) {
    const ReadAhead plan = detector.missed(page);
    if (plan.count == 0) {
      continue;
    }
    first_count = first_count == 0 ? plan.count : first_count;
    frontier = plan.first + plan.count - 1;
    EXPECT_LE(frontier - page, 32U);
  }
  EXPECT_GT(frontier, 0U);
  EXPECT_LE(first_count, 8U);
}

/// How far ahead of the reader each request ended, in his steps, while he read `count` pages in order.
std::vector<std::int64_t> reaches(StreamDetector& detector, std::uint64_t start, std::int64_t step, int count) {
  std::vector<std::int64_t> result;
  std::set<std::uint64_t> asked;
  for (std::uint64_t page = start; count > 0; --count, page += static_cast<std::uint64_t>(step)) {
    const ReadAhead plan = asked.count(page) != 0 ? detector.used(page) : detector.missed(page);
    for (std::int64_t index = 0; index < plan.count; ++index) {
      const std::uint64_t wanted = plan.first + static_cast<std::uint64_t>(plan.step * index);
      asked.insert(wanted);
      if (index + 1 == plan.count) {
        result.push_back(static_cast<std::int64_t>(wanted - page) / step);
      }
    }
  }
  return result;
}

/// Each twice the one before, from a few pages to `most`, and there it stays.
void expect_ramp(const std::vector<std::int64_t>& reaches, std::int64_t most) {
  ASSERT_GE(reaches.size(), 2U);
  EXPECT_LE(reaches.front(), 4);
  for (std::size_t index = 1; index < reaches.size(); ++index) {
    EXPECT_EQ(reaches[index], std::min(most, reaches[index - 1] * 2)) << "request " << index;
  }
  EXPECT_EQ(reaches.back(), most);
}

TEST(StreamDetector, TheWindowDoublesUpToTheMost) {
  for (const std::int64_t step : {1, -1, 5, -64}) {
    for (const std::uint32_t most : {8U, 32U, 256U}) {
      StreamDetector detector;
      detector.configure(most);
      SCOPED_TRACE("step " + std::to_string(step) + ", most " + std::to_string(most));
      expect_ramp(reaches(detector, 1'000'000, step, 600), most);
    }
  }
}

// Far more often than there are streams, so that each is taken over from one that read ahead at full width.
TEST(StreamDetector, AReaderThatJumpsOrTurnsBeginsWithASmallWindow) {
  StreamDetector detector;
  detector.configure(32);
  for (std::uint64_t place = 1; place <= 40; ++place) {
    SCOPED_TRACE("place " + std::to_string(place));
    const std::uint64_t start = place * 1'000'000;
    expect_ramp(reaches(detector, start, 1, 100), 32);
    expect_ramp(reaches(detector, start + 99, -1, 100), 32);
    expect_ramp(reaches(detector, start + 500'000, 3, 100), 32);
  }
}

// The store is the slower one: what it gets to do must not run out before it is asked for more.
TEST(StreamDetector, OfAWideWindowWhatWasUsedIsAskedForAtOnceRequestByRequest) {
  constexpr std::uint32_t most = 64;
  for (const std::int64_t step : {1, -1, 3}) {
    for (const std::uint32_t request : {1U, 16U, 32U}) {
      SCOPED_TRACE("step " + std::to_string(step) + ", request " + std::to_string(request));
      StreamDetector detector;
      detector.configure(most, 1, request);
      std::int64_t frontier = 0;
      std::int64_t least_ahead = most;
      for (std::int64_t index = 0; index < 1000; ++index) {
        const auto page = static_cast<std::uint64_t>(1'000'000 + index * step);
        const ReadAhead plan = index < frontier ? detector.used(page) : detector.missed(page);
        if (plan.count > 0) {
          frontier = (static_cast<std::int64_t>(plan.first) - 1'000'000) / step + plan.count;
        }
        if (index >= 500) {  // The window is as wide as it may be.
          least_ahead = std::min(least_ahead, frontier - 1 - index);
          EXPECT_TRUE(plan.count == 0 || plan.count >= request) << plan.count;
        }
      }
      EXPECT_GT(least_ahead, static_cast<std::int64_t>(most - request));
    }
  }
}

TEST(StreamDetector, PagesInMemoryArePassedAndNoOthers) {
  const std::vector<std::uint64_t> misses = {0, 3, 5, 9, 10, 16, 18};
  const auto asked_for = [&](std::uint32_t too_few) {
    StreamDetector detector;
    detector.configure(32);
    std::uint64_t count = 0;
    std::uint64_t before = 0;
    for (const std::uint64_t page : misses) {
      const std::uint64_t between = page == 0 ? 0 : page - before - 1;
      const ReadAhead plan =
          detector.missed(page, static_cast<std::uint32_t>(between - std::min<std::uint64_t>(between, too_few)));
      EXPECT_TRUE(plan.count == 0 || (plan.step == 1 && plan.first > page));
      count += plan.count;
      before = page;
    }
    return count;
  };
  EXPECT_GE(asked_for(0), 4U);
  EXPECT_EQ(asked_for(1), 0U);
}

TEST(StreamDetector, NothingIsAskedForTwice) {
  StreamDetector detector;
  detector.configure(32);
  std::set<std::uint64_t> asked;
  for (std::uint64_t page = 0; page < 500; ++page) {
    const ReadAhead plan = asked.count(page) != 0 ? detector.used(page) : detector.missed(page);
    for (std::uint64_t index = 0; index < plan.count; ++index) {
      EXPECT_TRUE(asked.insert(plan.first + index).second) << plan.first + index;
    }
  }
}

TEST(StreamDetector, OfAReaderInOrderEveryPageIsLeftOnceButTheOneBeforeLast) {
  StreamDetector detector;
  detector.configure(32);
  std::vector<std::uint64_t> left;
  std::uint64_t frontier = 0;
  const auto read = [&](std::uint64_t page) {
    const ReadAhead plan = page <= frontier && page > 0 ? detector.used(page) : detector.missed(page);
    frontier = plan.count > 0 ? plan.first + plan.count - 1 : frontier;
    for (std::uint64_t index = 0; index < plan.count_behind; ++index) {
      left.push_back(plan.behind + index);
    }
  };
  for (std::uint64_t page = 0; page < 10; ++page) {
    read(page);
  }
  EXPECT_TRUE(left.empty()) << "nobody said that these are read once";
  detector.advise(Advice::sequential);
  frontier = 0;
  for (std::uint64_t page = 100; page < 600; ++page) {
    read(page);
    ASSERT_EQ(left.size(), page < 102 ? 0 : page - 101) << page;
  }
  for (std::uint64_t page = 100; page < 598; ++page) {
    ASSERT_EQ(left[page - 100], page);
  }
}

TEST(StreamDetector, AReaderInOrderMayGoBackwardOrInSteps) {
  for (const std::int64_t step : {1, -1, 3, -3, 60}) {
    Reader reader(32);
    reader.detector.advise(Advice::sequential);
    for (std::int64_t number = 0; number < 200; ++number) {
      reader.read(static_cast<std::uint64_t>(100'000 + number * step));
    }
    EXPECT_LE(reader.misses, 4U) << "step " << step;
    EXPECT_LE(reader.fetched.size(), 300U) << "step " << step;
  }
}

/// Readers of a few pages each, far apart, who never come to what is fetched for them; returns how much that was.
std::uint64_t fetched_in_vain(Reader& reader, std::uint64_t readers, std::uint64_t pages_each) {
  std::uint64_t fetched = 0;
  for (std::uint64_t number = 0; number < readers; ++number) {
    reader.fetched.clear();
    for (std::uint64_t page = 0; page < pages_each; ++page) {
      // Missed although it was fetched: it was evicted meanwhile.
      reader.take(reader.detector.missed((number << 20) + page));
    }
    fetched += reader.fetched.size();
  }
  return fetched;
}

TEST(StreamDetector, StreamsThatEndEarlyAreNoticedBeforeTheirPagesGo) {
  Reader reader(1024);
  const std::uint64_t first = fetched_in_vain(reader, 64, 4);
  EXPECT_GE(first, 2 * 64U) << "nothing to be noticed";
  EXPECT_LT(fetched_in_vain(reader, 10'000, 4), 2'000U);
}

TEST(StreamDetector, WhereAllIsInVainNothingIsReadAheadForAWhileThatGrows) {
  Reader reader(32);
  std::uint64_t tries = 0;
  for (std::uint64_t number = 0; number < 50'000; ++number) {
    for (std::uint64_t page = 0; page < 5; ++page) {
      const ReadAhead plan = reader.detector.missed((number << 20) + page);
      for (std::uint32_t index = 0; index < plan.count; ++index) {
        ++tries;
        reader.detector.ended(false);
      }
    }
  }
  EXPECT_LT(tries, 5'000U);
}

TEST(StreamDetector, TheEndOfOneWideWindowIsJudgedOnce) {
  Reader reader(1024);
  for (std::uint64_t page = 0; page < 600; ++page) {
    reader.read(page);
  }
  for (int end = 0; end < 1000; ++end) {
    reader.detector.ended(false);
  }
  reader.fetched.clear();
  reader.misses = 0;
  for (std::uint64_t page = 1'000'000; page < 1'000'200; ++page) {
    reader.read(page);
  }
  EXPECT_LE(reader.misses, 8U);
}

TEST(StreamDetector, AReaderThatComesAfterAPauseIsFollowedInTheEnd) {
  Reader reader(32);
  fetched_in_vain(reader, 2000, 4);
  ASSERT_EQ(fetched_in_vain(reader, 10, 4), 0U) << "no pause";
  reader.fetched.clear();
  reader.misses = 0;
  std::uint64_t last_misses = 0;
  for (std::uint64_t page = 1'000'000; page < 1'040'000; ++page) {
    const std::uint64_t before = reader.misses;
    reader.read(page);
    if (reader.misses == before) {
      reader.detector.ended(true);
    }
    last_misses = page < 1'039'000 ? reader.misses : last_misses;
  }
  EXPECT_LE(reader.misses - last_misses, 10U);
}

TEST(StreamDetector, WhatIsLeftBehindIsToldAlsoIfNothingIsReadAhead) {
  StreamDetector detector;
  detector.configure(0);
  detector.advise(Advice::sequential);
  std::uint64_t left = 0;
  for (std::uint64_t page = 10; page < 110; ++page) {
    const ReadAhead plan = detector.missed(page);
    EXPECT_EQ(plan.count, 0U);
    left += plan.count_behind;
  }
  EXPECT_EQ(left, 98U);
}

TEST(StreamDetector, ZeroPagesTurnItOff) {
  Reader reader(0);
  for (std::uint64_t page = 0; page < 100; ++page) {
    reader.read(page);
  }
  EXPECT_EQ(reader.misses, 100U);
}

TEST(StreamDetector, AdviceRandomTurnsItOffAndNormalOnAgain) {
  Reader reader(32);
  reader.detector.advise(Advice::random);
  for (std::uint64_t page = 0; page < 50; ++page) {
    reader.read(page);
  }
  EXPECT_TRUE(reader.fetched.empty());
  reader.detector.advise(Advice::normal);
  for (std::uint64_t page = 50; page < 100; ++page) {
    reader.read(page);
  }
  EXPECT_FALSE(reader.fetched.empty());
}

TEST(StreamDetector, AdviceSequentialFetchesTheWholeWindowAtTheFirstMiss) {
  StreamDetector detector;
  detector.configure(32);
  detector.advise(Advice::sequential);
  const ReadAhead plan = detector.missed(100);
  EXPECT_EQ(plan.first, 101U);
  EXPECT_EQ(plan.step, 1);
  EXPECT_EQ(plan.count, 32U);
}

}  // namespace
}  // namespace tiermap
