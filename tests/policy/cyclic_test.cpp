// What `cyclic` promises: on a scan that comes round and is larger than memory, most of what the optimum would hit; on
// other accesses, not much more misses than segmented FIFO; and neither for long when the accesses change.
#include "cache/policy/cyclic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "cache/policy/make_policy.hpp"
#include "policy/engine_model.hpp"

namespace tiermap {
namespace {

std::uint64_t misses(std::string_view name, std::uint32_t capacity, const std::vector<std::uint64_t>& touches,
                     bool drops = false) {
  PolicyOptions options;
  options.max_frames = capacity;
  options.capacity_units = capacity;
  const std::unique_ptr<EvictionPolicy> policy = make_eviction_policy(name, options);
  SmallEngine engine(*policy, capacity, drops);
  for (const std::uint64_t page : touches) {
    engine.touch(page);
  }
  return engine.misses();
}

void add_scan(std::vector<std::uint64_t>& touches, std::uint64_t first, std::uint64_t pages, std::uint64_t rounds) {
  for (std::uint64_t step = 0; step < pages * rounds; ++step) {
    touches.push_back(first + step % pages);
  }
}

/// The k-th most popular page is touched with a chance that falls as 1 / k^exponent; popular pages lie anywhere.
void add_zipf(std::vector<std::uint64_t>& touches, std::uint64_t first, std::uint64_t pages, std::uint64_t count,
              double exponent, std::uint64_t seed) {
  std::vector<double> weights;
  for (std::uint64_t rank = 0; rank < pages; ++rank) {
    weights.push_back(std::pow(static_cast<double>(rank + 1), -exponent));
  }
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> page_of_rank(pages);
  std::iota(page_of_rank.begin(), page_of_rank.end(), 0U);
  std::shuffle(page_of_rank.begin(), page_of_rank.end(), random);
  std::discrete_distribution<std::uint64_t> rank(weights.begin(), weights.end());
  for (std::uint64_t touch = 0; touch < count; ++touch) {
    touches.push_back(first + page_of_rank[rank(random)]);
  }
}

TEST(Cyclic, HitsMostOfWhatTheOptimumWouldOnACyclicScan) {
  constexpr std::uint64_t pages = 1024;
  constexpr std::uint64_t rounds = 20;
  for (const double ratio : {1.1, 2.0, 4.0}) {
    const auto capacity = static_cast<std::uint32_t>(static_cast<double>(pages) / ratio);
    std::vector<std::uint64_t> touches;
    add_scan(touches, 0, pages, rounds);
    const double hits =
        1.0 - static_cast<double>(misses("cyclic", capacity, touches)) / static_cast<double>(touches.size());
    const double optimum = static_cast<double>(capacity - 1) / static_cast<double>(pages - 1);
    EXPECT_GE(hits, 0.6 * optimum) << "ratio " << ratio;
    // Which segmented FIFO does not get anywhere near.
    EXPECT_EQ(misses("segmented-fifo", capacity, touches), touches.size()) << "ratio " << ratio;
  }
}

// Pages of 1 MiB in 200 MiB: no sample of a sixteenth tells anything.
TEST(Cyclic, LearnsWithFewFramesToo) {
  constexpr std::uint64_t rounds = 20;
  for (const std::uint32_t capacity : {24U, 32U, 50U, 64U, 100U, 132U, 200U, 250U}) {
    for (const std::uint64_t pages : {capacity + capacity / 4, 2 * capacity}) {
      std::vector<std::uint64_t> touches;
      add_scan(touches, 0, pages, rounds);
      const double hits =
          1.0 - static_cast<double>(misses("cyclic", capacity, touches)) / static_cast<double>(touches.size());
      const double optimum = static_cast<double>(capacity - 1) / static_cast<double>(pages - 1);
      EXPECT_GE(hits, optimum / 3) << pages << " pages, " << capacity << " frames";
    }
  }
}

TEST(Cyclic, HitsMostOfACyclicScanWherePagesAreDroppedToo) {
  constexpr std::uint64_t pages = 1024;
  constexpr std::uint64_t rounds = 20;
  for (const std::uint32_t capacity : {256U, 512U, 900U}) {
    std::vector<std::uint64_t> touches;
    add_scan(touches, 0, pages, rounds);
    const double hits =
        1.0 - static_cast<double>(misses("cyclic", capacity, touches, true)) / static_cast<double>(touches.size());
    const double optimum = static_cast<double>(capacity - 1) / static_cast<double>(pages - 1);
    EXPECT_GE(hits, 0.5 * optimum) << "capacity " << capacity;
  }
}

/// Touches of a search by halves in pages [0, pages): the first steps are the same for all keys.
void add_searches(std::vector<std::uint64_t>& touches, std::uint64_t pages, int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int search = 0; search < count; ++search) {
    const std::uint64_t wanted = random() % pages;
    for (std::uint64_t first = 0, end = pages; first < end;) {
      const std::uint64_t middle = first + (end - first) / 2;
      touches.push_back(middle);
      (wanted <= middle ? end : first) = wanted <= middle ? middle : middle + 1;
    }
  }
}

// A page that is in memory shows no hits where pages are dropped: only by when it came back is it known.
TEST(Cyclic, MissesLessThanAllOthersInSearchesWherePagesAreDropped) {
  std::vector<std::uint64_t> touches;
  add_searches(touches, 4096, 40000, 11);
  const std::uint64_t own = misses("cyclic", 1024, touches, true);
  for (const std::string_view other : {"fifo", "lru", "hot-fifo", "segmented-fifo", "small-main"}) {
    EXPECT_LT(own, misses(other, 1024, touches, true)) << other;
  }
  EXPECT_LT(static_cast<double>(own), 0.85 * static_cast<double>(misses("fifo", 1024, touches, true)));
}

TEST(Cyclic, IsWithinATenthOfSegmentedFifoOnPopularPages) {
  for (const double exponent : {0.0, 0.8, 1.0}) {
    for (const std::uint32_t capacity : {100U, 256U, 512U}) {
      std::vector<std::uint64_t> touches;
      add_zipf(touches, 0, 1024, 40000, exponent, 7);
      const auto usual = static_cast<double>(misses("segmented-fifo", capacity, touches));
      EXPECT_LE(static_cast<double>(misses("cyclic", capacity, touches)), 1.1 * usual)
          << "exponent " << exponent << ", capacity " << capacity;
    }
  }
}

// A page that was touched whenever it was unmapped is unmapped less and less often.
TEST(Cyclic, LooksLessOftenWhetherPopularPagesAreUsed) {
  constexpr std::uint32_t capacity = 256;
  const auto rescues = [](std::string_view name) {
    PolicyOptions options;
    options.max_frames = capacity;
    options.capacity_units = capacity;
    const std::unique_ptr<EvictionPolicy> policy = make_eviction_policy(name, options);
    SmallEngine engine(*policy, capacity);
    std::mt19937_64 random(5);
    for (std::uint64_t touch = 0; touch < 100'000; ++touch) {
      // Half of memory is in use all the time, the rest passes by at random.
      engine.touch(touch % 4 != 0 ? random() % (capacity / 2) : 1000 + random() % 10'000);
    }
    return engine.rescues();
  };
  EXPECT_LT(rescues("cyclic"), rescues("segmented-fifo") / 2);
}

TEST(Cyclic, ForgetsAScanThatHasEnded) {
  constexpr std::uint32_t capacity = 512;
  std::vector<std::uint64_t> scan;
  add_scan(scan, 0, 1024, 10);
  std::vector<std::uint64_t> both = scan;
  add_zipf(both, 5000, 1024, 20000, 1.0, 3);
  std::vector<std::uint64_t> popular;
  add_zipf(popular, 5000, 1024, 20000, 1.0, 3);
  const std::uint64_t after_the_scan = misses("cyclic", capacity, both) - misses("cyclic", capacity, scan);
  EXPECT_LE(static_cast<double>(after_the_scan),
            1.1 * static_cast<double>(misses("segmented-fifo", capacity, popular)) + capacity);
}

TEST(Cyclic, TakesToASecondScanOfOtherPages) {
  constexpr std::uint32_t capacity = 512;
  std::vector<std::uint64_t> first;
  add_scan(first, 0, 1024, 10);
  std::vector<std::uint64_t> both = first;
  add_scan(both, 5000, 1024, 30);
  const std::uint64_t second = misses("cyclic", capacity, both) - misses("cyclic", capacity, first);
  EXPECT_LE(static_cast<double>(second), 0.8 * 1024 * 30);
}

TEST(Cyclic, HasOnePageOfEitherSampleInSoManyNeighbours) {
  for (const std::uint64_t neighbours : {4U, 8U, 16U}) {
    for (std::uint32_t region = 1; region < 20; ++region) {
      for (std::uint64_t block = 0; block < 200; ++block) {
        std::array<std::uint64_t, 3> members{};
        for (std::uint64_t page = block * neighbours; page < (block + 1) * neighbours; ++page) {
          ++members[Cyclic::group_of({region, page}, neighbours)];
        }
        ASSERT_EQ(members, (std::array<std::uint64_t, 3>{1, 1, neighbours - 2}));
      }
    }
  }
}

}  // namespace
}  // namespace tiermap
