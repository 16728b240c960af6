// Vectors: what is stored is there again, exactly as long as it is; many threads append; what cannot be is refused.
#include "tiermap/vector.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "store/random_rounds.hpp"
#include "store/refusal.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

struct Point {
  float x = 0;
  float y = 0;
  float z = 0;
  bool operator==(const Point&) const = default;
};

VectorOptions small(std::uint64_t page_bytes = 16 << 10) {
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  options.page_size_bytes = page_bytes;
  return options;
}

class VectorTest : public testing::Test {
 protected:
  std::uint64_t file_bytes() const { return std::filesystem::file_size(path_); }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "vector";
};

/// Numbers of which the store keeps every byte turned over.
class TurnedStore final : public Store {
 public:
  explicit TurnedStore(std::shared_ptr<Store> base) : base_(std::move(base)) {}
  std::uint64_t size_bytes() const override { return base_->size_bytes(); }
  bool writable() const override { return base_->writable(); }
  bool growable() const override { return base_->growable(); }
  int resize(std::uint64_t bytes) override { return base_->resize(bytes); }
  std::string name() const override { return "turned"; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::int64_t got = base_->read(buffer, bytes, offset);
    std::transform(static_cast<char*>(buffer), static_cast<char*>(buffer) + std::max<std::int64_t>(got, 0),
                   static_cast<char*>(buffer), [](char byte) { return static_cast<char>(~byte); });
    return got;
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    std::string turned(static_cast<const char*>(buffer), bytes);
    for (char& byte : turned) {
      byte = static_cast<char>(~byte);
    }
    return base_->write(turned.data(), bytes, offset);
  }

 private:
  const std::shared_ptr<Store> base_;
};

TEST_F(VectorTest, any_store_can_be_under_a_vector) {
  {
    const std::shared_ptr<Store> file = open_store(path_, OpenMode::create);
    auto vector = Vector<std::uint32_t>::on(std::make_shared<TurnedStore>(file), small());
    EXPECT_TRUE(vector.writable());
    EXPECT_EQ(vector.url(), "turned");
    auto adding = vector.append();
    for (std::uint32_t number = 0; number < 1'000'000; ++number) {
      adding.push_back(number);
    }
    adding.commit();
    EXPECT_NE(refusal_of_call<OptionError>(ENOTSUP, [&] { vector.destroy(); }).find("vector turned"),
              std::string::npos);
    vector.close();
  }
  EXPECT_EQ(Vector<std::uint32_t>::open_read_only(path_)[77], ~77U);
  const std::shared_ptr<Store> file = open_store(path_, OpenMode::read_only);
  auto vector = Vector<std::uint32_t>::on(std::make_shared<TurnedStore>(file), small());
  EXPECT_FALSE(vector.writable());
  EXPECT_EQ(vector.size(), 1'000'000U);
  std::uint64_t sum = 0;
  vector.read().for_each([&](std::uint32_t number) { sum += number; });
  EXPECT_EQ(sum, 499'999'500'000U);
  EXPECT_THROW(vector.write(), OptionError);
  EXPECT_THROW((Vector<std::array<char, 3>>::on(file)), StoreError);  // 4,000,000 is no multiple of 3.
  EXPECT_THROW((Vector<int>::on(nullptr)), OptionError);
}

TEST_F(VectorTest, what_was_stored_is_there_again) {
  constexpr std::uint64_t count = 1'000'003;  // 12 MB under 1 MiB, and no whole number of pages.
  {
    auto points = Vector<Point>::create(path_, count, small());
    for (std::uint64_t index = 0; index < count; ++index) {
      points[index] = {static_cast<float>(index), 1, 2};
    }
    points.close();
  }
  EXPECT_EQ(file_bytes(), count * sizeof(Point));
  const auto points = Vector<Point>::open_read_only(path_, small());
  ASSERT_EQ(points.size(), count);
  EXPECT_FALSE(points.writable());
  std::uint64_t wrong = 0;
  for (std::uint64_t index = 0; index < count; ++index) {
    wrong += points[index] == Point{static_cast<float>(index), 1, 2} ? 0U : 1U;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_LE(Vector<Point>::open(path_, small()).region().statistics()[Counter::fills], 1U);
}

TEST_F(VectorTest, the_file_ends_with_the_last_element_whenever_it_is_synced) {
  auto points = Vector<Point>::create(path_, 0, small());
  EXPECT_TRUE(points.empty());
  for (const std::uint64_t count : {1ULL, 2ULL, 1000ULL, 5000ULL, 100000ULL}) {
    while (points.size() < count) {
      points.append({1, 2, static_cast<float>(points.size())});
    }
    points.sync();
    EXPECT_EQ(file_bytes(), count * sizeof(Point));
  }
  points.resize(777);
  EXPECT_EQ(file_bytes(), 777 * sizeof(Point));
  points.close();
  EXPECT_EQ(file_bytes(), 777 * sizeof(Point));
  const auto again = Vector<Point>::open(path_, small());
  EXPECT_EQ(again.at(776), (Point{1, 2, 776}));
}

TEST_F(VectorTest, elements_that_come_after_others_were_cut_off_are_zero) {
  auto numbers = Vector<std::uint64_t>::create(path_, 300'000, small());
  std::fill(numbers.begin(), numbers.end(), 7U);
  for (const std::uint64_t cut : {250001ULL, 100000ULL, 3ULL, 0ULL}) {
    numbers.resize(cut);
    EXPECT_EQ(numbers.size(), cut);
    numbers.resize(300'000);
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), 7 * cut);
  }
  numbers.resize(5);
  numbers.resize(100'000, 9);
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), 9U * (100'000 - 5));
}

/// Of which a write that was on its way when it was cut arrives afterwards, as one by an evictor does: the store, which
/// handed out where to write, is not told.
class LateWriteStore final : public Store {
 public:
  LateWriteStore(std::shared_ptr<Store> base, std::string file) : base_(std::move(base)), file_(std::move(file)) {}
  std::uint64_t size_bytes() const override { return base_->size_bytes(); }
  bool writable() const override { return true; }
  bool growable() const override { return true; }
  std::string name() const override { return base_->name(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return base_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return base_->write(buffer, bytes, offset);
  }
  int resize(std::uint64_t bytes) override {
    const bool cut = bytes < base_->size_bytes();
    const int result = base_->resize(bytes);
    if (cut) {
      std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary).seekp(64 << 10) << "late";
    }
    return result;
  }

 private:
  const std::shared_ptr<Store> base_;
  const std::string file_;
};

TEST_F(VectorTest, what_was_on_its_way_when_it_was_cut_is_cut_off_too) {
  const std::string folder = directory_ / "sparse";
  const std::pair<std::string, std::string> places[] = {
      {path_, path_}, {"sparse://" + folder + "?segment=1MiB&capacity=64MiB", folder + "/segment-0000000000"}};
  for (const auto& [url, file] : places) {
    SCOPED_TRACE(url);
    const std::shared_ptr<Store> store = open_store(url, OpenMode::create);
    ASSERT_EQ(store->resize(0), 0);
    auto numbers = Vector<std::uint64_t>::on(std::make_shared<LateWriteStore>(store, file), small());
    ASSERT_EQ(numbers.append(std::vector<std::uint64_t>(20'000, 7)), 0U);
    numbers.sync();
    numbers.resize(5);
    if (url == path_) {
      EXPECT_EQ(file_bytes(), 5 * sizeof(std::uint64_t));
    }
    numbers.resize(20'000);
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), 5U * 7);
  }
}

TEST_F(VectorTest, any_number_of_threads_append) {
  constexpr std::uint64_t each = 50'000;
  auto numbers = Vector<std::uint64_t>::create(path_, 0, small());
  const std::uint64_t* const first = numbers.data();
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t number = 0; number < each; number += 2) {
        const std::uint64_t pair[] = {thread * each + number, thread * each + number + 1};
        const std::uint64_t place = numbers.append(pair);
        EXPECT_EQ(numbers[place + 1], pair[1]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(numbers.data(), first) << "references stay valid";
  numbers.close();
  auto again = Vector<std::uint64_t>::open(path_, small(4096));
  ASSERT_EQ(again.size(), 4 * each);
  std::sort(again.begin(), again.end());
  for (std::uint64_t number = 0; number < again.size(); ++number) {
    ASSERT_EQ(again[number], number);
  }
}

TEST_F(VectorTest, killed_it_has_what_was_synced_and_whole_elements) {
  constexpr std::uint64_t synced = 40'000;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto points = Vector<Point>::create(path_, 0, small());
    for (std::uint64_t index = 0; index < 1'000'000; ++index) {
      points.append({1, 2, 3});
      if (points.size() == synced) {
        points.sync();
      }
    }
    ::_exit(0);  // Nobody is asked to write anything.
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto points = Vector<Point>::open(path_, small());
  ASSERT_GE(points.size(), synced);
  EXPECT_EQ(std::count(points.begin(), points.begin() + synced, Point{1, 2, 3}), static_cast<std::ptrdiff_t>(synced));
  for (const Point& point : points.span()) {  // One may lie in two blocks, of which one was written.
    ASSERT_TRUE((point.x == 1 || point.x == 0) && (point.y == 2 || point.y == 0) && (point.z == 3 || point.z == 0));
  }
}

TEST_F(VectorTest, follows_a_vector_in_memory) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  VectorOptions options = small();
  options.capacity_bytes = 64 << 20;
  std::vector<Point> model;
  auto points = Vector<Point>::create(path_, 0, options);
  for (int step = 0; step < 150; ++step) {
    switch (random() % 6) {
      case 0:
      case 1: {
        std::vector<Point> more(random() % 60'000);
        for (Point& point : more) {
          point = {static_cast<float>(random() % 1000), 1, 2};
        }
        EXPECT_EQ(points.append(more), model.size());
        model.insert(model.end(), more.begin(), more.end());
        break;
      }
      case 2: {
        const std::uint64_t count = model.size() * (random() % 8) / 7 + random() % 10;
        points.resize(count);
        model.resize(count);
        break;
      }
      case 3:
        for (std::uint64_t change = 0; change < 500 && !model.empty(); ++change) {
          const std::uint64_t index = random() % model.size();
          points[index] = model[index] = {3, 4, static_cast<float>(step)};
        }
        break;
      case 4:
        points.sync();
        EXPECT_EQ(file_bytes(), model.size() * sizeof(Point));
        break;
      default:
        points.close();
        EXPECT_EQ(file_bytes(), model.size() * sizeof(Point));
        options.page_size_bytes = 4096ULL << (random() % 6);
        points = Vector<Point>::open(path_, options);
        break;
    }
    ASSERT_EQ(points.size(), model.size()) << "step " << step;
    ASSERT_TRUE(std::equal(model.begin(), model.end(), points.begin())) << "step " << step;
  }
}

TEST_F(VectorTest, stays_under_its_budget_which_can_be_changed) {
  auto numbers = Vector<std::uint64_t>::create(path_, 4 << 20, small());
  std::iota(numbers.begin(), numbers.end(), 0U);
  EXPECT_LE(numbers.region().statistics().resident_bytes, 1U << 20);
  numbers.bound_memory(512 << 10);
  EXPECT_LE(numbers.region().statistics().resident_bytes, 512U << 10);
  numbers.bound_memory(8 << 20);
  const std::uint64_t count = numbers.size();
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), count * (count - 1) / 2);
}

TEST_F(VectorTest, reads_ahead_unless_told_not_to) {
  std::vector<std::uint64_t> values(64 << 10);
  std::iota(values.begin(), values.end(), 0U);
  Vector<std::uint64_t>::create(path_, values.size(), small()).copy_from(values);
  for (const std::uint64_t bytes : {std::uint64_t{1} << 18, std::uint64_t{0}}) {
    VectorOptions options = small(4096);
    options.read_ahead_bytes = bytes;
    auto numbers = Vector<std::uint64_t>::open_read_only(path_, options);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), numbers.begin()));
    EXPECT_EQ(numbers.region().statistics()[Counter::prefetched_pages] > 0, bytes > 0);
  }
}

TEST_F(VectorTest, a_volatile_one_leaves_nothing) {
  {
    auto numbers = Vector<int>::temporary(100'000, small(), directory_.path());
    EXPECT_EQ(std::count(numbers.begin(), numbers.end(), 0), 100'000);
    for (int number = 0; number < 1'000'000; ++number) {
      numbers.append(number);
    }
    EXPECT_EQ(numbers.at(1'099'999), 999'999);
    EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
    numbers.destroy();
    EXPECT_EQ(numbers.size(), 0U);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(VectorTest, is_never_removed_but_by_destroy) {
  Vector<int>::create(path_, 10, small()).append(5);
  EXPECT_EQ(file_bytes(), 11 * sizeof(int));
  auto numbers = Vector<int>::open(path_, small());
  numbers[0] = 1;
  numbers.destroy();
  EXPECT_FALSE(std::filesystem::exists(path_));
  numbers.close();
  Vector<int>::create(path_, 10, small());
  numbers.destroy();
  EXPECT_TRUE(std::filesystem::remove(path_)) << "another one";
  auto sparse = Vector<int>::create("sparse://" + path_ + "?segment=1MiB&capacity=64MiB", 10, small());
  refusal_of_call<OptionError>(ENOTSUP, [&] { sparse.destroy(); });
  EXPECT_EQ(sparse.size(), 10U) << "it is as it was";
}

TEST_F(VectorTest, lies_in_any_store) {
  Cache cache({.budget_bytes = 2 << 20});
  VectorOptions shared;
  shared.cache = &cache;
  for (const std::string& url : {"sparse://" + path_ + "?segment=1MiB&capacity=64MiB", std::string("memory:8MiB")}) {
    auto numbers = Vector<std::uint64_t>::open_or_create(url, 1 << 20, shared);
    std::iota(numbers.begin(), numbers.end(), 0U);
    EXPECT_EQ(numbers.at((1 << 20) - 1), (1U << 20) - 1);
    refusal_of_call<OptionError>(EINVAL, [&] { numbers.bound_memory(4 << 20); });
  }
  auto sparse = Vector<std::uint64_t>::open("sparse://" + path_, shared);
  sparse.append(99);
  sparse.close();
  EXPECT_EQ(Vector<std::uint64_t>::open_read_only("sparse://" + path_, shared).at(1 << 20), 99U);
  auto fixed = Vector<std::uint64_t>::open("memory:8MiB", shared);
  refusal_of_call<OptionError>(ENOSPC, [&] { fixed.append(1); });
  refusal_of_call<OptionError>(ENOTSUP, [&] { fixed.resize(1); });
}

TEST_F(VectorTest, what_cannot_be_is_refused_and_changes_nothing) {
  {
    std::ofstream(path_) << "seven b";
  }
  refusal_of_call<StoreError>(EINVAL, [&] { Vector<int>::open(path_); });
  refusal_of_call<StoreError>(EEXIST, [&] { Vector<int>::create(path_); });
  EXPECT_EQ(file_bytes(), 7U);
  EXPECT_EQ(Vector<char>::open(path_, small()).size(), 7U);
  refusal_of_call<StoreError>(ENOENT, [&] { Vector<int>::open(directory_ / "none"); });
  refusal_of_call<StoreError>(EISDIR, [&] { Vector<int>::open(directory_.path()); });
  const std::string fresh = directory_ / "fresh";
  refusal_of_call<OptionError>(EINVAL, [&] { Vector<int>::create(fresh, 1ULL << 62); });
  refusal_of_call<OptionError>(EINVAL, [&] { Vector<int>::create(fresh, 5, small(5000)); });
  EXPECT_FALSE(std::filesystem::exists(fresh));
  VectorOptions tight = small();
  tight.capacity_bytes = 100;
  auto numbers = Vector<int>::create(fresh, 10, tight);
  EXPECT_EQ(numbers.capacity(), 25U);
  refusal_of_call<OptionError>(ENOSPC, [&] { numbers.append(std::vector<int>(16)); });
  refusal_of_call<OptionError>(ENOSPC, [&] { numbers.resize(1ULL << 63); });
  EXPECT_EQ(numbers.size(), 10U);
  refusal_of_call<OptionError>(ERANGE, [&] { static_cast<void>(numbers.at(10)); });
  refusal_of_call<OptionError>(ERANGE, [&] { static_cast<void>(numbers.span({8, 3})); });
  refusal_of_call<OptionError>(ERANGE, [&] { numbers.prefetch({11, 0}); });
  refusal_of_call<OptionError>(EINVAL, [&] { static_cast<void>(numbers.view(3, 4)); });
  refusal_of_call<StoreError>(ENOENT, [&] { Vector<int>::temporary(1, small(), directory_ / "nowhere"); });
}

TEST_F(VectorTest, an_empty_one_is_opened_either_way) {
  Vector<int>::create(path_, 0, small()).close();
  EXPECT_EQ(file_bytes(), 0U);
  auto only_read = Vector<int>::open_read_only(path_, small());
  EXPECT_TRUE(only_read.empty());
  EXPECT_EQ(only_read.prefetch(only_read.all()).wait(), 0U);
  Vector<int>::open(path_, small()).append(1);
  EXPECT_EQ(Vector<int>::open_read_only(path_, small()).at(0), 1);
}

TEST_F(VectorTest, copies_in_and_out) {
  auto numbers = Vector<int>::create(path_, 10, small());
  const std::vector<int> five{1, 2, 3, 4, 5};
  numbers.copy_from(five, 5);
  std::vector<int> out(6);
  numbers.copy_to(out, 4);
  EXPECT_EQ(out, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  refusal_of_call<OptionError>(ERANGE, [&] { numbers.copy_from(five, 6); });
  refusal_of_call<OptionError>(ERANGE, [&] { numbers.copy_to(out, 5); });
  numbers.prefetch({0, 10}).wait();
  numbers.close();
  auto only_read = Vector<int>::open_read_only(path_, small());
  expect_said(refusal_of_call<OptionError>(EROFS, [&] { only_read.copy_from(five, 0); }), {"open for reading alone"});
  only_read.copy_to(out, 4);
  EXPECT_EQ(out, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST_F(VectorTest, is_an_array_of_any_dimensions) {
  auto cells = Vector<int>::create(path_, 2 * 3 * 4, small());
  std::iota(cells.begin(), cells.end(), 0);
  const auto cube = cells.view(2, 3, 4);
  EXPECT_EQ(cube(1, 2, 3), 23);
  EXPECT_EQ(cube(1, 0, 2), 14);
  EXPECT_EQ(cube[1](0, 2), 14);
  EXPECT_EQ(cube[1][2].extent(0), 4U);
  cube(0, 1, 0) = 99;
  EXPECT_EQ(cells[4], 99);
}

TEST_F(VectorTest, is_no_array_of_extents_whose_product_wraps_round) {
  const auto cells = Vector<int>::create(path_, 0, small());
  const std::uint64_t half = std::uint64_t{1} << 32U;
  const std::string said = refusal_of_call<OptionError>(EINVAL, [&] { static_cast<void>(cells.view(half, half)); });
  EXPECT_NE(said.find("more than can be counted"), std::string::npos) << said;
  EXPECT_EQ(cells.view(half, half, 0).size(), 0U);
}

TEST_F(VectorTest, what_cannot_be_mapped_is_not_left_behind) {
  VectorOptions none = small();
  none.budget_bytes = 1;
  EXPECT_THROW(Vector<int>::open_or_create(path_, 10, none), OptionError);
  EXPECT_FALSE(std::filesystem::exists(path_));
  Vector<int>::create(path_, 10, small()).close();
  EXPECT_THROW(Vector<int>::open_or_create(path_, 10, none), OptionError);
  EXPECT_EQ(file_bytes(), 10 * sizeof(int)) << "what was there is left as it is";
}

TEST(Partition, shares_out_every_element_once_and_evenly) {
  for (const std::uint64_t elements : {0U, 1U, 7U, 64U, 1000U, 1001U}) {
    for (const std::uint64_t parts : {1U, 2U, 3U, 7U, 64U, 1002U}) {
      std::uint64_t next = 0;
      for (std::uint64_t rank = 0; rank < parts; ++rank) {
        const VectorRange part = partition(elements, rank, parts);
        ASSERT_EQ(part.first, next);
        ASSERT_LE(part.count - elements / parts, 1U);
        next += part.count;
      }
      ASSERT_EQ(next, elements);
    }
  }
  EXPECT_THROW(partition(5, 3, 3), OptionError);
  EXPECT_THROW(partition(5, 0, 0), OptionError);
}

}  // namespace
}  // namespace tiermap
