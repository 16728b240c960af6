// Transactions: they visit what they say, bring pages before they are asked for, and no page twice for nothing.
#include "tiermap/transaction.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "store/temporary_directory.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page_bytes = 16 << 10;
constexpr std::uint64_t elements_a_page = page_bytes / sizeof(std::uint64_t);
constexpr std::uint64_t pages_of_all = 512;
constexpr std::uint64_t count = pages_of_all * elements_a_page;

class TransactionTest : public testing::Test {
 protected:
  TransactionTest() {
    std::vector<std::uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    auto vector = Vector<std::uint64_t>::create(path_, 0, quarter());
    vector.append(numbers);
    vector.close();
  }
  /// Memory for a quarter of the elements.
  static VectorOptions quarter() {
    VectorOptions options;
    options.budget_bytes = count * sizeof(std::uint64_t) / 4;
    options.page_size_bytes = page_bytes;
    options.advice = Advice::random;  // Pages come by faults or by the transaction, and no other way.
    return options;
  }
  Vector<std::uint64_t> open() const { return Vector<std::uint64_t>::open(path_, quarter()); }
  Vector<std::uint64_t> open_read_only() const { return Vector<std::uint64_t>::open_read_only(path_, quarter()); }
  static std::uint64_t counted(Vector<std::uint64_t>& vector, Counter counter) {
    return vector.region().statistics()[counter];
  }
  /// What a use of 50 microseconds a page leaves to read in the background.
  static void work(std::uint64_t index) {
    if (index % elements_a_page == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "vector";
};

TEST_F(TransactionTest, reads_all_in_order) {
  auto vector = open();
  auto transaction = vector.read();
  static_assert(std::is_same_v<decltype(transaction.next()), std::span<const std::uint64_t>>);
  EXPECT_EQ(transaction.length(), count);
  std::uint64_t expected = 0;
  transaction.for_each([&](const std::uint64_t& element) { EXPECT_EQ(element, expected++); });
  EXPECT_EQ(expected, count);
  EXPECT_EQ(transaction.position(), count);
  EXPECT_TRUE(transaction.next().empty());
}

TEST_F(TransactionTest, reads_ranges_and_strides) {
  auto vector = open();
  std::uint64_t sum = 0;
  vector.read({1000, 5000}).for_each([&](std::uint64_t element) { sum += element; });
  EXPECT_EQ(sum, (1000ULL + 5999) * 5000 / 2);
  for (const std::uint64_t stride : {std::uint64_t{3}, elements_a_page, 3 * elements_a_page + 1, 2 * count}) {
    std::uint64_t expected = 7;
    std::uint64_t visited = 0;
    vector.read(Strided{{7, count - 7}, stride}).for_each([&](std::uint64_t element) {
      EXPECT_EQ(element, expected);
      expected += stride;
      ++visited;
    });
    EXPECT_EQ(visited, (count - 7 + stride - 1) / stride);
  }
}

TEST_F(TransactionTest, random_elements_are_those_of_the_seed) {
  auto vector = open();
  std::vector<std::uint64_t> first;
  std::set<std::uint64_t> pages;
  vector.read(Random{{100, count - 100}, 42, 5000}).for_each([&](std::uint64_t index, std::uint64_t element) {
    EXPECT_EQ(element, index);
    EXPECT_GE(index, 100U);
    first.push_back(index);
    pages.insert(index / elements_a_page);
  });
  ASSERT_EQ(first.size(), 5000U);
  EXPECT_GT(pages.size(), pages_of_all * 99 / 100) << "not as likely as any other";
  std::size_t at = 0;
  vector.read(Random{{100, count - 100}, 42, 5000}).for_each([&](std::uint64_t index, std::uint64_t) {
    EXPECT_EQ(index, first[at++]);
  });
  vector.read(Random{{100, count - 100}, 43, 1}).for_each([&](std::uint64_t index, std::uint64_t) {
    EXPECT_NE(index, first[0]);
  });
}

TEST_F(TransactionTest, what_is_written_is_there) {
  auto vector = open();
  auto doubling = vector.read_write();
  doubling.for_each([](std::uint64_t& element) { element *= 2; });
  doubling.commit();
  EXPECT_EQ(vector.region().statistics().dirty_bytes, 0U);
  auto other = Vector<std::uint64_t>::open_read_only(path_, quarter());
  std::uint64_t expected = 0;
  other.read().for_each([&](std::uint64_t element) {
    EXPECT_EQ(element, expected);
    expected += 2;
  });
  vector.write({10, 3}).for_each([](std::uint64_t& element) { element = 5; });
  vector.close();
  auto again = open();
  EXPECT_EQ(again[9] + again[10] + again[11] + again[12] + again[13], 18U + 15 + 26);
}

// A step beyond the range's end ends there, however far it would lead, and whatever it would be the sum of.
TEST_F(TransactionTest, strides_beyond_what_can_be_counted) {
  auto vector = open();
  for (const VectorRange range : {VectorRange{1000, 5000}, VectorRange{0, count}, VectorRange{count - 1, 1}}) {
    for (const std::uint64_t stride : {range.count, range.count + 1, UINT64_MAX / 2 + 1, UINT64_MAX - 1, UINT64_MAX}) {
      SCOPED_TRACE(std::to_string(range.first) + " by " + std::to_string(stride));
      auto reading = vector.read(Strided{range, stride});
      ASSERT_EQ(reading.length(), 1U);
      std::vector<PageAccesses> runs;
      reading.pages(0, 100, runs);
      ASSERT_EQ(runs.size(), 1U);
      EXPECT_EQ(runs.front().page, range.first * sizeof(std::uint64_t) / page_bytes);
      EXPECT_GE(runs.front().accesses, 1U);
      std::uint64_t seen = 0;
      reading.for_each([&](std::uint64_t element) {
        EXPECT_EQ(element, vector[range.first]);
        ++seen;
      });
      EXPECT_EQ(seen, 1U);
    }
  }
  EXPECT_EQ(vector.read(Strided{{0, count}, count - 1}).length(), 2U);
}

// What has been given and is not counted yet counts as changed.
TEST_F(TransactionTest, commits_in_the_midst_of_a_part) {
  auto vector = open();
  auto transaction = vector.write({1000, 10000});
  transaction.next()[5] = 77;
  transaction.commit();
  EXPECT_EQ(vector.region().statistics().dirty_bytes, 0U);
  EXPECT_EQ(Vector<std::uint64_t>::open_read_only(path_, quarter())[1005], 77U);
}

// Elements that lie in two pages, too.
TEST_F(TransactionTest, elements_of_any_size) {
  struct Odd {
    std::uint64_t value;
    char rest[5000];
  };
  auto vector = Vector<Odd>::create(directory_ / "odd", 500, quarter());
  std::uint64_t number = 0;
  auto writing = vector.write();
  writing.for_each([&](Odd& odd) {
    odd.value = ++number;
    odd.rest[4999] = static_cast<char>(number);
  });
  writing.commit();
  EXPECT_EQ(vector.region().statistics().dirty_bytes, 0U);
  number = 0;
  vector.read().for_each([&](const Odd& odd) {
    EXPECT_EQ(odd.value, ++number);
    EXPECT_EQ(odd.rest[4999], static_cast<char>(number));
  });
  EXPECT_EQ(number, 500U);
}

// Without the prefetcher every page is a fault's.
TEST_F(TransactionTest, pages_come_before_they_are_asked_for) {
  for (const bool prefetch : {true, false}) {
    TransactionOptions options;
    options.prefetch = prefetch;
    auto sequential = open_read_only();
    auto in_order = sequential.read(sequential.all(), options);
    in_order.for_each(work);
    auto random = open_read_only();
    auto drawn = random.read(Random{{0, count}, 7, pages_of_all}, options);
    drawn.for_each([](std::uint64_t, std::uint64_t) { work(0); });
    for (auto* vector : {&sequential, &random}) {
      const std::uint64_t fills = counted(*vector, Counter::fills);
      if (prefetch) {
        EXPECT_GT(counted(*vector, Counter::prefetched_pages), fills * 8 / 10);
      } else {
        EXPECT_EQ(counted(*vector, Counter::prefetched_pages), 0U);
      }
    }
    EXPECT_EQ(in_order.statistics().pages, prefetch ? pages_of_all : 0);
    EXPECT_LE(in_order.statistics().in_time, in_order.statistics().pages);
    EXPECT_EQ(drawn.statistics().in_time > 0, prefetch);
  }
}

// But for the few that the eviction policy gives up to see whether another order would do better.
constexpr std::uint64_t most_fills = pages_of_all * 115 / 100;

TEST_F(TransactionTest, no_page_is_fetched_twice_for_nothing) {
  auto vector = open_read_only();
  vector.read().for_each([](std::uint64_t) {});
  EXPECT_LE(counted(vector, Counter::fills), most_fills);
  auto strided = open_read_only();
  strided.read(Strided{{0, count}, 64}).for_each([](std::uint64_t) {});
  EXPECT_LE(counted(strided, Counter::fills), most_fills);
  // As many pages as the window has: each drawn again and again.
  auto drawn = open_read_only();
  drawn.read(Random{{0, 50 * elements_a_page}, 3, 20000}).for_each([](std::uint64_t, std::uint64_t) {});
  EXPECT_EQ(counted(drawn, Counter::fills), 50U);
}

// Where everything is in memory already nothing is looked at for long, and what is needed later is fetched again.
TEST_F(TransactionTest, goes_to_sleep_and_wakes_up) {
  auto vector = open();
  class FirstAgainAndAgain final : public Transaction {
   public:
    explicit FirstAgainAndAgain(VectorStorage& of) : Transaction(of, Intent::read, 100'000 + pages_of_all) {}
    static std::uint64_t page(std::uint64_t at) { return at < 100'000 ? at % 20 : at - 100'000; }
    void pages(std::uint64_t position, std::uint64_t runs_wanted, std::vector<PageAccesses>& runs) const override {
      for (std::uint64_t at = position; at < std::min(position + runs_wanted, length()); ++at) {
        runs.push_back({page(at), 1});
        ++asked_;
      }
    }
    mutable std::uint64_t asked_ = 0;
  };
  auto transaction = vector.transaction<FirstAgainAndAgain>();
  std::uint64_t sum = 0;
  for (std::uint64_t count_now = transaction.until_turn(); count_now > 0; count_now = transaction.until_turn()) {
    for (std::uint64_t at = 0; at < count_now; ++at) {
      sum += vector[FirstAgainAndAgain::page(transaction.position() + at) * elements_a_page];
    }
    transaction.advance(count_now);
  }
  EXPECT_EQ(sum, elements_a_page * (19 * 20 / 2 * 5000 + (pages_of_all - 1) * pages_of_all / 2));
  EXPECT_LT(transaction.asked_, 50'000U);
  EXPECT_LE(counted(vector, Counter::fills), most_fills);
}

/// The pages from both ends towards the middle.
class FromBothEnds final : public Transaction {
 public:
  explicit FromBothEnds(VectorStorage& vector) : Transaction(vector, Intent::read, pages_of_all) {}
  static std::uint64_t page(std::uint64_t position) {
    return position % 2 == 0 ? position / 2 : pages_of_all - 1 - position / 2;
  }
  void pages(std::uint64_t position, std::uint64_t runs_wanted, std::vector<PageAccesses>& runs) const override {
    for (std::uint64_t at = position; at < std::min(position + runs_wanted, length()); ++at) {
      runs.push_back({page(at), 1});
    }
  }
};

TEST_F(TransactionTest, of_ones_own) {
  auto vector = open();
  auto transaction = vector.transaction<FromBothEnds>();
  std::uint64_t sum = 0;
  while (transaction.until_turn() > 0) {
    sum += vector[FromBothEnds::page(transaction.position()) * elements_a_page];
    work(0);
    transaction.advance(1);
  }
  EXPECT_EQ(sum, elements_a_page * (pages_of_all - 1) * pages_of_all / 2);
  EXPECT_LE(counted(vector, Counter::fills), most_fills);
  EXPECT_GT(counted(vector, Counter::prefetched_pages), pages_of_all * 8 / 10);
}

/// More of them at a time than the window has, as records that are larger than it take.
class InLargeSteps final : public Transaction {
 public:
  explicit InLargeSteps(VectorStorage& vector) : Transaction(vector, Intent::read, pages_of_all) {}
  void pages(std::uint64_t position, std::uint64_t runs_wanted, std::vector<PageAccesses>& runs) const override {
    asked_late_ += position < this->position() ? 1U : 0U;
    for (std::uint64_t at = position; at < std::min(position + runs_wanted, length()); ++at) {
      runs.push_back({at, 1});
    }
  }
  mutable std::uint64_t asked_late_ = 0;
};

TEST_F(TransactionTest, what_was_passed_already_is_not_fetched) {
  auto vector = open();
  auto transaction = vector.transaction<InLargeSteps>();
  while (transaction.until_turn() > 0) {
    transaction.advance(pages_of_all / 6);
  }
  EXPECT_EQ(transaction.asked_late_, 0U);
}

/// Says pages that are not there, and nothing about others.
class Wrong final : public Transaction {
 public:
  explicit Wrong(VectorStorage& vector) : Transaction(vector, Intent::read, 1000) {}
  void pages(std::uint64_t position, std::uint64_t, std::vector<PageAccesses>& runs) const override {
    if (position < 500) {
      runs.insert(runs.end(), {{UINT64_MAX / page_bytes + position, 1}, {position, UINT64_MAX}, {3, 0}});
    }
  }
};

TEST_F(TransactionTest, what_is_wrong_about_a_hint_does_no_harm) {
  auto vector = open();
  auto transaction = vector.transaction<Wrong>();
  while (transaction.until_turn() > 0) {
    transaction.advance(1);
  }
  EXPECT_EQ(transaction.position(), 1000U);
}

// Of accesses without end to a page or two no turn looks at all.
TEST_F(TransactionTest, accesses_without_end_to_one_page) {
  auto few = Vector<std::int32_t>::temporary(10, {.budget_bytes = 1 << 20});
  auto transaction = few.read(Random(few.all(), 1, UINT64_MAX));
  for (int turn = 0; turn < 100; ++turn) {
    const std::uint64_t accesses = transaction.until_turn();
    ASSERT_GT(accesses, 0U);
    transaction.advance(accesses);
  }
  EXPECT_LT(transaction.position(), transaction.length());
}

TEST_F(TransactionTest, counts_that_overflow_end_it) {
  auto vector = open();
  auto transaction = vector.transaction<FromBothEnds>();
  static_cast<void>(transaction.until_turn());
  transaction.advance(2);
  transaction.advance(UINT64_MAX);
  EXPECT_EQ(transaction.position(), transaction.length());
}

TEST_F(TransactionTest, an_element_that_finds_no_room_is_not_taken) {
  VectorOptions options = quarter();
  options.capacity_bytes = 100'000 * sizeof(std::uint64_t);
  auto vector = Vector<std::uint64_t>::create(directory_ / "full", 0, options);
  auto transaction = vector.append();
  std::uint64_t taken = 0;
  std::uint64_t refused = 0;
  while (taken < 1'000'000 && refused < 3) {
    try {
      transaction.push_back(taken);
      ++taken;
    } catch (const OptionError& error) {
      EXPECT_EQ(error.code().value(), ENOSPC);
      ++refused;
    }
  }
  EXPECT_EQ(refused, 3U);
  EXPECT_THROW(transaction.commit(), OptionError);
  EXPECT_LE(taken, vector.size() + (64 << 10) / sizeof(std::uint64_t)) << "no more than a piece waits";
  for (std::uint64_t index = 0; index < vector.size(); ++index) {
    ASSERT_EQ(vector[index], index);
  }
}

TEST_F(TransactionTest, several_threads_each_with_their_part) {
  auto vector = open();
  std::vector<std::thread> threads;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      vector.read_write(vector.partition(rank, 4)).for_each([](std::uint64_t& element) { element += 1; });
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::uint64_t expected = 0;
  vector.read().for_each([&](std::uint64_t element) { EXPECT_EQ(element, ++expected); });
  EXPECT_LE(vector.region().statistics().resident_bytes, *quarter().budget_bytes);
}

TEST_F(TransactionTest, appends_by_many_threads) {
  auto vector = Vector<std::uint64_t>::create(directory_ / "appended", 0, quarter());
  constexpr std::uint64_t each = 300'000;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      auto transaction = vector.append();
      for (std::uint64_t number = 0; number < each; ++number) {
        transaction.push_back(thread * each + number);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(vector.size(), 3 * each);
  std::vector<bool> seen(3 * each);
  vector.read().for_each([&](std::uint64_t element) { seen.at(element) = true; });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<std::ptrdiff_t>(3 * each));
}

TEST_F(TransactionTest, refuses_what_cannot_be) {
  auto vector = open();
  EXPECT_THROW(vector.read({count, 1}), OptionError);
  EXPECT_THROW(vector.read(Strided{{0, 10}, 0}), OptionError);
  EXPECT_THROW(vector.read(Random{{0, 0}, 1, 1}), OptionError);
  auto read_only = Vector<std::uint64_t>::open_read_only(path_, quarter());
  try {
    auto refused = read_only.write();
    ADD_FAILURE() << "it can be written";
  } catch (const OptionError& error) {
    EXPECT_EQ(error.code().value(), EROFS);
  }
  vector.close();
  EXPECT_THROW(vector.read(), OptionError);
  auto empty = Vector<std::uint64_t>::temporary();
  std::uint64_t visited = 0;
  empty.read().for_each([&](std::uint64_t) { ++visited; });
  empty.read(Random{{0, 0}, 1, 0}).for_each([&](std::uint64_t, std::uint64_t) { ++visited; });
  EXPECT_EQ(visited, 0U);
}

}  // namespace
}  // namespace tiermap
