// Transactions of vectors of records: they visit what they say, whatever the records' lengths and places, bring pages
// before they are asked for, and append in pieces.
#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <thread>

#include "store/temporary_directory.hpp"
#include "tiermap/serialized_vector.hpp"
#include "vector/text_serializer.hpp"

namespace tiermap {
namespace {

struct RefusingSerializer : TextSerializer {
  void write(const std::string& text, std::vector<std::byte>& bytes) const {
    TextSerializer::write(text, bytes);
    if (text == "refused") {
      throw std::invalid_argument("refused");
    }
  }
};
using Texts = SerializedVector<std::string, RefusingSerializer>;

constexpr std::uint64_t count = 20'000;
constexpr std::uint64_t page_bytes = 4096;

/// Of most 100 to 300 bytes, of some none, or several pages.
std::string text_of(std::uint64_t index) {
  const std::uint64_t bytes = index % 50 == 7 ? 0 : index % 100 == 3 ? 9000 : 100 + index * 37 % 200;
  std::string text = std::to_string(index);
  text.resize(bytes, static_cast<char>('a' + index % 26));
  return text;
}

class SerializedTransactionTest : public testing::Test {
 protected:
  SerializedTransactionTest() {
    Texts texts = Texts::create(path_, options());
    auto adding = texts.append();
    for (std::uint64_t index = 0; index < count; ++index) {
      adding.push_back(text_of(index));
    }
    adding.commit();
    texts.close();
  }
  /// Memory for a quarter of the records.
  SerializedVectorOptions options() {
    cache_.emplace(CacheOptions{.budget_bytes = std::uint64_t{5} << 18});
    return {.vector = {.cache = &*cache_, .page_size_bytes = page_bytes, .advice = Advice::random}};
  }
  std::uint64_t counted(Counter counter) const { return cache_->statistics()[counter]; }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "texts";
  std::optional<Cache> cache_;
};

TEST_F(SerializedTransactionTest, reads_all_ranges_strides_and_random_ones) {
  Texts texts = Texts::open_read_only(path_, options());
  std::uint64_t next = 0;
  texts.read().for_each([&](const std::string& text) { EXPECT_EQ(text, text_of(next++)); });
  EXPECT_EQ(next, count);
  next = 5000;
  texts.read({5000, 300}).for_each([&](std::uint64_t index, const std::string& text) {
    EXPECT_EQ(index, next++);
    EXPECT_EQ(text, text_of(index));
  });
  EXPECT_EQ(next, 5300U);
  next = 1;
  texts.read(Strided{{1, count - 1}, 77}).for_each([&](std::uint64_t index, const std::string& text) {
    EXPECT_EQ(index, next);
    EXPECT_EQ(text, text_of(index));
    next += 77;
  });
  EXPECT_GE(next, count);
  const Random drawn({100, 900}, 42, 3000);
  std::uint64_t position = 0;
  auto reading = texts.read(drawn);
  reading.for_each([&](std::uint64_t index, const std::string& text) {
    EXPECT_EQ(index, random_element(drawn, position++));
    EXPECT_EQ(text, text_of(index));
  });
  EXPECT_EQ(position, 3000U);
  EXPECT_EQ(reading.position(), reading.length());
}

// Without the prefetcher every page is a fault's.
TEST_F(SerializedTransactionTest, elements_of_no_bytes_are_read) {
  const std::string path = directory_ / "nothing";
  Texts texts = Texts::create(path, options());
  for (int index = 0; index < 10; ++index) {
    texts.append("");
  }
  texts.close();
  texts = Texts::open_read_only(path, options());
  int seen = 0;
  texts.read().for_each([&](const std::string& text) { seen += text.empty() ? 1 : 0; });
  EXPECT_EQ(seen, 10);
  texts.close();  // Before its cache.
}

TEST_F(SerializedTransactionTest, pages_of_records_and_index_come_before_they_are_asked_for) {
  for (const bool prefetch : {true, false}) {
    for (const bool random : {false, true}) {
      Texts texts = Texts::open_read_only(path_, options());
      TransactionOptions how;
      how.prefetch = prefetch;
      std::uint64_t bytes = 0;
      TransactionStatistics told;
      const auto use = [&](std::uint64_t, const std::string& text) { bytes += text.size(); };
      if (random) {
        auto reading = texts.read(Random({0, count}, 7, 2000), how);
        reading.for_each(use);
        told = reading.statistics();
      } else {
        auto reading = texts.read(texts.all(), how);
        reading.for_each(use);
        told = reading.statistics();
      }
      EXPECT_GT(bytes, 2000U * 100);
      const std::uint64_t fills = counted(Counter::fills);
      EXPECT_GT(fills, 1000U);
      if (prefetch) {
        EXPECT_GT(counted(Counter::prefetched_pages), fills * 8 / 10) << (random ? "random" : "in order");
        EXPECT_GT(told.pages, 1000U);
      } else {
        EXPECT_EQ(counted(Counter::prefetched_pages), 0U);
        EXPECT_EQ(told.pages, 0U);
      }
      if (!random) {
        // Records that end in a page and begin in it are one visit.
        EXPECT_LE(fills, texts.record_bytes() / page_bytes * 120 / 100);
      }
    }
  }
}

TEST_F(SerializedTransactionTest, what_is_set_is_there) {
  {
    Texts texts = Texts::open(path_, options());
    auto making = texts.write({100, 50});
    making.set_each([](std::uint64_t index) { return "made " + std::to_string(index) + std::string(index, 'x'); });
    making.commit();
    auto changing = texts.read_write(Strided({0, count}, 1000));
    changing.for_each([](std::uint64_t index, std::string& text) { text += "!" + std::to_string(index); });
    auto halving = texts.read_write(Random({200, 1}, 1, 1));
    halving.for_each([](std::string& text) { text.resize(text.size() / 2); });
    halving.commit();
    EXPECT_EQ(counted(Counter::write_errors), 0U);
    texts.close();
  }
  const Texts texts = Texts::open_read_only(path_, options());
  for (std::uint64_t index = 0; index < count; ++index) {
    std::string expected = text_of(index);
    if (index >= 100 && index < 150) {
      expected = "made " + std::to_string(index) + std::string(index, 'x');
    } else if (index % 1000 == 0) {
      expected += "!" + std::to_string(index);
    } else if (index == 200) {
      expected.resize(expected.size() / 2);
    }
    ASSERT_EQ(texts[index], expected) << index;
  }
}

/// Elements from both ends towards the middle.
class FromBothEnds final : public SerializedTransaction {
 public:
  explicit FromBothEnds(const SerializedStorage& vector) : SerializedTransaction(vector, Intent::read, count) {}
  static std::uint64_t element(std::uint64_t position) {
    return position % 2 == 0 ? position / 2 : count - 1 - position / 2;
  }
  void elements(std::uint64_t position, std::uint64_t wanted, std::vector<std::uint64_t>& elements) const override {
    for (std::uint64_t at = position; at < std::min(position + wanted, length()); ++at) {
      elements.push_back(element(at));
    }
  }
};

TEST_F(SerializedTransactionTest, of_ones_own) {
  Texts texts = Texts::open_read_only(path_, options());
  auto transaction = texts.transaction<FromBothEnds>();
  while (transaction.until_turn() > 0) {
    const std::uint64_t index = FromBothEnds::element(transaction.position());
    ASSERT_EQ(texts[index], text_of(index));
    transaction.advance(1);
  }
  EXPECT_EQ(transaction.position(), count);
  EXPECT_GT(counted(Counter::prefetched_pages), counted(Counter::fills) * 8 / 10);
}

/// Says elements that are not there, then nothing.
class Wrong final : public SerializedTransaction {
 public:
  explicit Wrong(const SerializedStorage& vector) : SerializedTransaction(vector, Intent::read, 1000) {}
  void elements(std::uint64_t position, std::uint64_t, std::vector<std::uint64_t>& elements) const override {
    if (position < 500) {
      elements.insert(elements.end(), {UINT64_MAX, count, position, count + position});
    }
  }
};

TEST_F(SerializedTransactionTest, what_is_wrong_about_a_hint_does_no_harm) {
  Texts texts = Texts::open_read_only(path_, options());
  auto transaction = texts.transaction<Wrong>();
  while (transaction.until_turn() > 0) {
    transaction.advance(1);
  }
  EXPECT_EQ(transaction.position(), 1000U);
}

TEST_F(SerializedTransactionTest, many_threads_append_in_pieces) {
  Texts texts = Texts::temporary(options(), {}, directory_.path());
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&texts, thread] {
      auto adding = texts.append();
      for (std::uint64_t index = thread; index < count; index += 4) {
        adding.push_back(text_of(index));
      }
      EXPECT_THROW(adding.push_back("refused"), std::invalid_argument);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_EQ(texts.size(), count);
  EXPECT_EQ(texts.unused_bytes(), 0U);
  std::vector<std::string> found;
  texts.read().for_each([&](std::string text) { found.push_back(std::move(text)); });
  std::vector<std::string> expected;
  for (std::uint64_t index = 0; index < count; ++index) {
    expected.push_back(text_of(index));
  }
  std::ranges::sort(found);
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);
}

// The records have their places then; once there is room in the index, so have the elements.
TEST_F(SerializedTransactionTest, an_append_that_finds_no_room_can_be_tried_again) {
  SerializedVectorOptions tight = options();
  tight.vector.capacity_bytes = 16 * 1000;  // Of records and index each.
  Texts texts = Texts::create(directory_ / "tight", tight);
  auto adding = texts.append();
  for (int index = 0; index < 1100; ++index) {
    adding.push_back(std::to_string(index));
  }
  EXPECT_THROW(adding.commit(), OptionError);
  EXPECT_EQ(texts.size(), 0U);
  EXPECT_THROW(adding.commit(), OptionError);
  EXPECT_EQ(texts.record_bytes(), 3290U);
}

TEST_F(SerializedTransactionTest, what_cannot_be_is_refused) {
  Texts texts = Texts::open_read_only(path_, options());
  EXPECT_THROW(texts.write(), OptionError);
  EXPECT_THROW(texts.read({count, 1}), OptionError);
  EXPECT_THROW(texts.read(Strided({0, 10}, 0)), OptionError);
  EXPECT_THROW(texts.read(Random({5, 0}, 1, 1)), OptionError);
  EXPECT_THROW(texts.read(Random({0, 5}, 1, UINT64_MAX)), OptionError);
  Texts empty = Texts::temporary(options(), {}, directory_.path());
  empty.read().for_each([](const std::string&) { ADD_FAILURE() << "there is none"; });
}

}  // namespace
}  // namespace tiermap
