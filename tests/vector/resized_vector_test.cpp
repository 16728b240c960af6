// Vectors that become shorter or longer while transactions are open.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "store/file_store.hpp"
#include "store/forwarding_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/serialized_vector.hpp"
#include "tiermap/vector.hpp"
#include "vector/text_serializer.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t count = 100'000;

VectorOptions small() {
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  return options;
}

class ResizedVectorTest : public testing::Test {
 protected:
  ResizedVectorTest() {
    std::vector<std::uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    vector_.append(numbers);
  }
  void refuses_to_be(std::uint64_t elements, std::uint64_t last) {
    const std::string before = refusal_of(elements);
    EXPECT_EQ(before, "vector " + vector_.url() + " cannot be cut to " + std::to_string(elements) +
                          " elements: a transaction is open that goes on to element " + std::to_string(last) +
                          ": end it first, or have it access what is left");
    EXPECT_EQ(vector_.size(), count);
    EXPECT_EQ(vector_[count - 1], count - 1);
  }
  std::string refusal_of(std::uint64_t elements) {
    try {
      vector_.resize(elements);
    } catch (const OptionError& error) {
      EXPECT_EQ(error.code().value(), EBUSY);
      return error.what();
    }
    return "";
  }

  const TemporaryDirectory directory_;
  Vector<std::uint64_t> vector_ = Vector<std::uint64_t>::create(directory_ / "vector", 0, small());
};

TEST_F(ResizedVectorTest, what_a_transaction_has_still_to_access_is_not_cut_off) {
  {
    auto reading = vector_.read({10, 50'000});
    refuses_to_be(50'009, 50'009);
    auto writing = vector_.read_write(Strided({0, count}, 1000));
    refuses_to_be(60'000, count - 1000);
    auto random = vector_.read(Random({0, 70'000}, 1, 10));
    vector_.resize(99'001);  // Behind all of them.
    vector_.resize(count);
    vector_[count - 1] = count - 1;
  }
  vector_.resize(7);
  EXPECT_EQ(vector_.size(), 7U);
}

TEST_F(ResizedVectorTest, one_that_is_at_its_end_needs_nothing) {
  auto reading = vector_.read();
  std::uint64_t sum = 0;
  reading.for_each([&](std::uint64_t number) { sum += number; });
  EXPECT_EQ(sum, count * (count - 1) / 2);
  auto writing = vector_.write();
  auto part = writing.next();
  ASSERT_FALSE(part.empty());
  refuses_to_be(5, count - 1);
  for (; !part.empty(); part = writing.next()) {
    std::fill(part.begin(), part.end(), 3);
  }
  vector_.resize(5);
  writing.commit();
  vector_.resize(10);
  EXPECT_EQ(vector_[4], 3U);
  EXPECT_EQ(vector_[5], 0U);
}

TEST_F(ResizedVectorTest, one_that_began_before_it_grew_accesses_what_was_there) {
  auto reading = vector_.read_write();
  static_cast<void>(reading.next());
  vector_.resize(3 * count, 1);
  std::uint64_t accesses = reading.position();
  for (auto part = reading.next(); !part.empty(); part = reading.next()) {
    accesses = reading.position() + part.size();
  }
  EXPECT_EQ(accesses, count);
  EXPECT_EQ(vector_[3 * count - 1], 1U);
  vector_.resize(2);
}

TEST_F(ResizedVectorTest, elements_that_are_being_appended_come_behind_the_end_there_is) {
  auto appending = vector_.append();
  appending.push_back(77);
  vector_.resize(3);
  appending.commit();
  ASSERT_EQ(vector_.size(), 4U);
  EXPECT_EQ(vector_[3], 77U);
}

class Backwards final : public Transaction {
 public:
  explicit Backwards(VectorStorage& vector, std::uint64_t end = 0) : Transaction(vector, Intent::read, 10) {
    if (end != 0) {
      touches_until(end);
    }
  }
  void pages(std::uint64_t, std::uint64_t, std::vector<PageAccesses>&) const override {}
};

TEST_F(ResizedVectorTest, of_a_class_of_the_programs_own_it_may_be_any_element_there_was) {
  {
    auto own = vector_.transaction<Backwards>();
    refuses_to_be(count - 1, count - 1);
    own.advance(10);
    vector_.resize(count - 1);
    vector_.resize(count);
    vector_[count - 1] = count - 1;
  }
  auto own = vector_.transaction<Backwards>(std::uint64_t{500});
  refuses_to_be(499, 499);
  vector_.resize(500);
}

/// Cannot be made shorter, and takes its time to say so.
class UncutStore final : public ForwardingStore {
 public:
  explicit UncutStore(std::shared_ptr<Store> base) : ForwardingStore(std::move(base)) {}
  int resize(std::uint64_t bytes) override {
    if (bytes >= size_bytes()) {
      return base_->resize(bytes);
    }
    meanwhile();
    return -EIO;
  }
  std::function<void()> meanwhile;
};

TEST_F(ResizedVectorTest, what_leaves_memory_while_it_cannot_be_cut_is_stored) {
  const auto store = std::make_shared<UncutStore>(FileStore::open(directory_ / "uncut", OpenMode::create, 0, {}));
  auto vector = Vector<std::uint64_t>::on(store, small());
  vector.resize(count, 1);
  vector.sync();
  std::ranges::fill(vector.span(), 7);
  const ByteRange all{0, count * sizeof(std::uint64_t)};
  store->meanwhile = [&] { vector.region().write_back(all); };  // As evictors do.
  EXPECT_THROW(vector.resize(10), StoreError);
  ASSERT_EQ(vector.size(), count);
  vector.region().advise(Advice::dont_need, all);
  EXPECT_TRUE(std::ranges::all_of(vector.span(), [](std::uint64_t number) { return number == 7; }));
}

TEST_F(ResizedVectorTest, elements_with_records_the_same) {
  using Texts = SerializedVector<std::string, TextSerializer>;
  auto texts = Texts::create(directory_ / "texts", {.vector = small()});
  for (int index = 0; index < 1000; ++index) {
    texts.append("text " + std::to_string(index));
  }
  {
    auto reading = texts.read({100, 200});
    try {
      texts.truncate(299);
      ADD_FAILURE() << "it was cut off";
    } catch (const OptionError& error) {
      EXPECT_EQ(error.code().value(), EBUSY);
    }
    EXPECT_EQ(texts.size(), 1000U);
    texts.truncate(300);
    std::uint64_t letters = 0;
    reading.for_each([&](const std::string& text) { letters += text.size(); });
    EXPECT_EQ(letters, 200U * 8);
    texts.truncate(2);
  }
  EXPECT_EQ(texts.size(), 2U);
}

}  // namespace
}  // namespace tiermap
