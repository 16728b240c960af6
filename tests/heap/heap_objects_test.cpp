// Objects with names, containers in containers, and another process that reads them.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tiermap {
namespace {

struct Measurement {
  std::uint64_t time;
  double value;
};
struct Swapped {
  double value;
  std::uint64_t time;
};
using Measurements = HeapVector<Measurement>;
using MeasurementsOf = HeapUnorderedMap<HeapString, Measurements>;
constexpr char path_variable[] = "TIERMAP_TEST_HEAP";

/// This test, by itself in a program of its own, with the heap's path in the environment.
int repeat_in_other_process(const std::string& path) {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter = "--gtest_filter=" + std::string(test->test_suite_name()) + "." + test->name();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(path_variable, path.c_str(), 1);
    ::execl("/proc/self/exe", "test-heap", filter.c_str(), nullptr);
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

class HeapObjects : public HeapTest {
 protected:
  Heap heap_ = Heap::create(path_, small());
};

void check_measurements(const std::string& path) {
  HeapOptions options;
  options.budget_bytes = 8 << 20;
  const Heap heap = Heap::open_read_only(path, options);
  const auto* const all = heap.find<MeasurementsOf>("measurements");
  ASSERT_NE(all, nullptr);
  ASSERT_EQ(all->size(), 1000U);
  for (const auto& [name, values] : *all) {
    const auto number = static_cast<std::uint64_t>(std::atoi(name.c_str() + name.rfind(' ')));
    ASSERT_EQ(values.size(), number % 50);
    for (const Measurement& each : values) {
      ASSERT_EQ(each.time, number);
      ASSERT_EQ(each.value, static_cast<double>(number) / 2);
    }
  }
}

TEST_F(HeapObjects, a_map_of_vectors_is_read_by_another_process) {
  if (const char* const path = std::getenv(path_variable); path != nullptr) {
    check_measurements(path);
    return;
  }
  auto& all = *heap_.construct<MeasurementsOf>("measurements")();
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const HeapString name(("station with a long name " + std::to_string(number)).c_str(), heap_);
    all[name].resize(number % 50, {number, static_cast<double>(number) / 2});
  }
  heap_.close();
  EXPECT_EQ(repeat_in_other_process(path_), 0);
}

TEST_F(HeapObjects, containers_nest) {
  using Inner = HeapMap<int, HeapVector<HeapString>>;
  using Outer = HeapVector<HeapUnorderedMap<HeapString, Inner>>;
  auto& outer = *heap_.construct<Outer>("outer")();
  outer.resize(3);
  for (std::size_t index = 0; index < 3; ++index) {
    auto& inner = outer[index][HeapString("a key that is not short at all", heap_)];
    inner[5].emplace_back("a value that is not short either");
    inner[7].resize(2);
  }
  outer.erase(outer.begin());
  heap_.close();
  heap_ = Heap::open(path_, small());
  auto& again = *heap_.find<Outer>("outer");
  ASSERT_EQ(again.size(), 2U);
  const Inner& inner = again[1].begin()->second;
  EXPECT_EQ(inner.at(5).at(0), "a value that is not short either");
  EXPECT_EQ(inner.at(7).size(), 2U);
  EXPECT_TRUE(heap_.destroy<Outer>("outer"));
  EXPECT_EQ(heap_.statistics().live_blocks, 0U);
}

TEST_F(HeapObjects, a_vector_of_the_standard_library_works) {
  using Standard = std::vector<int, HeapAllocator<int>>;
  auto& numbers = *heap_.construct<Standard>("numbers")();
  for (int index = 0; index < 10'000; ++index) {
    numbers.push_back(index);
  }
  heap_.close();
  heap_ = Heap::open(path_, small());
  EXPECT_EQ(heap_.find<Standard>("numbers")->at(9999), 9999);
}

TEST_F(HeapObjects, a_long_text_is_looked_up_in_a_heap_that_is_only_read) {
  using Lengths = HeapUnorderedMap<HeapString, int>;
  const std::string text = "a text that is too long to be kept in the string itself";
  {
    auto& lengths = *heap_.construct<Lengths>("lengths")();
    lengths[HeapString(text.c_str(), heap_)] = 55;
    lengths[HeapString("", heap_)] = 0;
    const std::uint64_t blocks = heap_.statistics().live_blocks;
    *find_text(lengths, "") += 1;
    EXPECT_EQ(heap_.statistics().live_blocks, blocks);
  }
  heap_.close();
  const Heap reader = Heap::open_read_only(path_, small());
  const auto& lengths = *reader.find<Lengths>("lengths");
  EXPECT_THROW(lengths.at(HeapString(text.c_str(), reader)), OptionError);
  ASSERT_NE(find_text(lengths, text), nullptr);
  EXPECT_EQ(*find_text(lengths, text), 55);
  EXPECT_EQ(*find_text(lengths, ""), 1);
  EXPECT_EQ(find_text(lengths, text + "?"), nullptr);
}

TEST_F(HeapObjects, an_ordered_map_is_searched_for_any_text) {
  using Lengths = HeapMap<HeapString, int, std::less<>>;
  const std::string text = "a text that is too long to be kept in the string itself";
  heap_.construct<Lengths>("lengths")()->emplace(HeapString(text.c_str(), heap_), 55);
  heap_.close();
  const Heap reader = Heap::open_read_only(path_, small());
  const auto& lengths = *reader.find<Lengths>("lengths");
  ASSERT_NE(lengths.find(std::string_view(text)), lengths.end());
  EXPECT_EQ(lengths.find(std::string_view(text))->second, 55);
}

TEST_F(HeapObjects, another_type_is_an_error) {
  heap_.construct<Measurement>("one")(Measurement{1, 2});
  EXPECT_TRUE(says(refusal<OptionError>([&] { static_cast<void>(heap_.find<Swapped>("one")); }), "Measurement"));
  EXPECT_TRUE(says(refusal<OptionError>([&] { static_cast<void>(heap_.find<int>("one")); }), "of 16 bytes"));
  EXPECT_THROW(heap_.find_or_construct<int>("one")(1), OptionError);
  EXPECT_THROW(heap_.destroy<int>("one"), OptionError);
  EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.construct<Measurement>("one")(); }), "exists already"));
  EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.construct<int>("")(1); }), heap_.path()));
  EXPECT_EQ(heap_.find<Measurement>("one")->time, 1U);
  EXPECT_EQ(heap_.find<Measurement>("two"), nullptr);
  EXPECT_TRUE(heap_.warnings().empty());
}

TEST_F(HeapObjects, are_listed_with_what_is_known_of_them) {
  heap_.construct<int>("b")[3](5);
  heap_.construct<Measurement>("a")(Measurement{1, 2});
  heap_.construct<Measurement>(unique_object)(Measurement{3, 4});
  heap_.describe("b", "three\nfives");
  heap_.describe<Measurement>(unique_object, "the only one");
  EXPECT_THROW(heap_.describe<int>(unique_object, "nothing"), OptionError);
  EXPECT_THROW(heap_.describe("c", "nothing"), OptionError);
  heap_.close();
  heap_ = Heap::open_read_only(path_, small());
  const std::vector<HeapObject> objects = heap_.objects();
  ASSERT_EQ(objects.size(), 3U);
  EXPECT_EQ(objects[0].name, "a");
  EXPECT_TRUE(says(objects[0].type_name, "Measurement"));
  EXPECT_EQ(objects[1].name, "b");
  EXPECT_EQ(objects[1].type_name, "int");
  EXPECT_EQ(objects[1].count, 3U);
  EXPECT_EQ(objects[1].size_bytes, 4U);
  EXPECT_EQ(objects[1].description, "three\nfives");
  EXPECT_EQ(*reinterpret_cast<const int*>(heap_.data() + objects[1].offset), 5);
  EXPECT_TRUE(objects[2].unique);
  EXPECT_EQ(objects[2].description, "the only one");
  EXPECT_EQ(heap_.find<Measurement>(unique_object)->time, 3U);
}

TEST_F(HeapObjects, attributes_are_looked_up_by_name_type_and_place) {
  int* const row = heap_.construct<int>("row")[3](5);
  Measurement* const only = heap_.construct<Measurement>(unique_object)(Measurement{3, 4});
  heap_.describe("row", "three fives");
  EXPECT_EQ(heap_.attributes("row")->description, "three fives");
  EXPECT_EQ(heap_.attributes("row")->count, 3U);
  EXPECT_TRUE(heap_.attributes<Measurement>(unique_object)->unique);
  EXPECT_FALSE(heap_.attributes<int>(unique_object));
  EXPECT_FALSE(heap_.attributes("column"));
  EXPECT_THROW(static_cast<void>(heap_.attributes("")), OptionError);
  EXPECT_EQ(heap_.attributes_at(row + 2)->name, "row");
  EXPECT_TRUE(heap_.attributes_at(only)->unique);
  EXPECT_FALSE(heap_.attributes_at(row + 3));
  EXPECT_FALSE(heap_.attributes_at(heap_.data()));
  const int outside = 0;
  EXPECT_FALSE(heap_.attributes_at(&outside));
  heap_.destroy<int>("row");
  EXPECT_FALSE(heap_.attributes("row"));
  EXPECT_FALSE(heap_.attributes_at(row));
}

struct Throwing {
  explicit Throwing(bool throws) {
    if (throws) {
      throw std::runtime_error("no");
    }
  }
};

/// One that is not to be copied, and one that is changed.
struct Taking {
  Taking(std::unique_ptr<int> moved, int& changed) : value(*moved) { changed = 7; }
  int value;
};

TEST_F(HeapObjects, the_constructor_of_one_gets_its_arguments_as_they_are) {
  int changed = 0;
  EXPECT_EQ(heap_.construct<Taking>("taking")(std::make_unique<int>(5), changed)->value, 5);
  EXPECT_EQ(changed, 7);
  auto left = std::make_unique<int>(6);
  EXPECT_EQ(heap_.find_or_construct<Taking>("taking")(std::move(left), changed)->value, 5);
  EXPECT_NE(left, nullptr) << "what was found takes nothing";
  EXPECT_EQ(heap_.find_or_construct<Taking>(unique_object)(std::move(left), changed)->value, 6);
  HeapString text("a text that is longer than what a string has within itself", heap_);
  const std::uint64_t blocks = heap_.statistics().live_blocks;
  EXPECT_EQ(heap_.construct<HeapString>("text")(std::move(text))->size(), 58U);
  EXPECT_EQ(heap_.statistics().live_blocks, blocks + 1) << "the object's own; its text was moved";
}

TEST_F(HeapObjects, a_constructor_that_throws_leaves_nothing) {
  EXPECT_THROW(heap_.construct<Throwing>("it")(true), std::runtime_error);
  EXPECT_THROW(heap_.construct_anonymous<Throwing>(true), std::runtime_error);
  EXPECT_EQ(heap_.find<Throwing>("it"), nullptr);
  EXPECT_EQ(heap_.statistics().live_blocks, 0U);
  EXPECT_NE(heap_.construct<Throwing>("it")(false), nullptr);
}

TEST_F(HeapObjects, anonymous_ones_are_destroyed_by_pointer) {
  auto* const text = heap_.construct_anonymous<HeapString>("a text that is too long to be kept in the string itself");
  EXPECT_EQ(heap_.statistics().live_blocks, 2U);
  heap_.destroy_anonymous(text);
  EXPECT_EQ(heap_.statistics().live_blocks, 0U);
}

TEST_F(HeapObjects, anonymous_ones_stand_side_by_side) {
  const std::span<HeapString> texts = heap_.construct_anonymous_array<HeapString>(5, std::string(100, 'x').c_str());
  ASSERT_EQ(texts.size(), 5U);
  EXPECT_EQ(texts.back(), std::string(100, 'x').c_str());
  EXPECT_EQ(heap_.statistics().live_blocks, 6U);
  EXPECT_TRUE(heap_.objects().empty());
  heap_.destroy_anonymous(texts);
  heap_.destroy_anonymous(std::span<HeapString>());
  EXPECT_THROW(heap_.construct_anonymous_array<Throwing>(3, true), std::runtime_error);
  EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.construct_anonymous_array<int>(0); }), heap_.path()));
  EXPECT_THROW(heap_.construct_anonymous_array<int>(SIZE_MAX / 2), OptionError);
  EXPECT_THROW(heap_.construct_anonymous_array<int>(1 << 30), HeapFullError);
  EXPECT_EQ(heap_.statistics().live_blocks, 0U);
}

TEST_F(HeapObjects, what_may_not_be_freed_is_not_destroyed_before_that_is_said) {
  constexpr char long_text[] = "a text that is longer than what a string has within itself";
  auto& text = *heap_.construct<HeapString>("text")(long_text);
  Heap other = Heap::create(path_ + "-other", small());
  EXPECT_NE(refusal<OptionError>([&] { other.destroy_anonymous(&text); }), "");
  EXPECT_NE(refusal<OptionError>([&] { other.destroy_anonymous(std::span(&text, 1)); }), "");
  EXPECT_EQ(text, long_text);
  heap_.close();
  heap_ = Heap::open_read_only(path_, small());
  auto* const found = heap_.find<HeapString>("text");
  EXPECT_NE(refusal<OptionError>([&] { heap_.destroy_anonymous(found); }), "");
  EXPECT_EQ(*found, long_text);
}

/// The name would stay, and lead to memory of others.
TEST_F(HeapObjects, the_block_of_one_with_a_name_is_freed_by_destroying_it_alone) {
  constexpr char long_text[] = "a text that is longer than what a string has within itself";
  heap_.construct<HeapString>("text")(long_text);
  heap_.construct<std::uint64_t>("row")[3](5U);
  heap_.construct<std::uint64_t>(unique_object)(6U);
  heap_.construct<std::array<char, 1 << 20>>("large")();
  std::vector<void*> others;
  for (int block = 0; block < 100; ++block) {
    others.push_back(heap_.allocate(24));
  }
  for (int life = 0; life < 2; ++life) {
    auto* const text = heap_.find<HeapString>("text");
    auto* const row = heap_.find<std::uint64_t>("row");
    EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.deallocate(text); }), "object 'text'"));
    EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.destroy_anonymous(text); }), "destroy()"));
    EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.destroy_anonymous(std::span(row, 3)); }), "object 'row'"));
    EXPECT_TRUE(says(refusal<OptionError>([&] { deallocate_in_heap(heap_.data(), row); }), "object 'row'"));
    EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.deallocate(heap_.find<std::uint64_t>(unique_object)); }),
                     "unique object"));
    EXPECT_NE(refusal<OptionError>([&] { heap_.deallocate(heap_.find<std::array<char, 1 << 20>>("large")); }), "");
    EXPECT_EQ(*text, long_text);
    for (void* const block : std::exchange(others, {})) {
      EXPECT_NO_THROW(heap_.deallocate(block));
    }
    heap_.close();
    heap_ = Heap::open(path_, small());
  }
  std::uint64_t* const row = heap_.find<std::uint64_t>("row");
  EXPECT_TRUE(heap_.destroy<std::uint64_t>("row"));
  EXPECT_TRUE(says(refusal<OptionError>([&] { heap_.deallocate(row); }), "freed before"));
  EXPECT_TRUE(heap_.destroy<HeapString>("text"));
  EXPECT_TRUE(heap_.destroy<std::uint64_t>(unique_object));
  EXPECT_TRUE((heap_.destroy<std::array<char, 1 << 20>>("large")));
  EXPECT_EQ(heap_.statistics().live_blocks, 0U);
}

TEST_F(HeapObjects, many_threads_make_find_and_destroy) {
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const std::string own = "own " + std::to_string(thread);
      for (int round = 0; round < 200; ++round) {
        const int* const shared = heap_.find_or_construct<int>("shared " + std::to_string(round))(round);
        made += *shared == round ? 1 : 0;
        auto& numbers = *heap_.construct<HeapVector<int>>(own)();
        numbers.resize(100, thread);
        if (heap_.find<HeapVector<int>>(own)->at(99) != thread || !heap_.destroy<HeapVector<int>>(own)) {
          made -= 1000;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(made, 800);
  EXPECT_EQ(heap_.statistics().live_blocks, 200U);
}

TEST_F(HeapObjects, threads_free_each_others_blocks_while_others_name_objects) {
  std::array<std::atomic<void*>, 64> places{};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t round = 0; round < 3000; ++round) {
        const std::uint64_t draw = (round * 7919 + thread * 104'729) % 5000;
        void* const block = heap_.allocate(draw % 50 == 0 ? draw * 40 : 8 + draw % 700);
        std::memcpy(block, &draw, sizeof(draw));
        heap_.deallocate(places[draw % places.size()].exchange(block));
      }
    });
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 200; ++round) {
        const std::string name = "name " + std::to_string(round % 7);
        auto& texts = *heap_.find_or_construct<HeapVector<HeapString>>("texts " + std::to_string(thread))();
        texts.emplace_back("a text that is too long to be kept in the string itself");
        static_cast<void>(heap_.find_or_construct<std::uint64_t>(name)(5U));
        heap_.destroy<std::uint64_t>(name);
        wrong += heap_.objects().size() > 9 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (auto& place : places) {
    heap_.deallocate(place.exchange(nullptr));
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(heap_.find<HeapVector<HeapString>>("texts 1")->size(), 200U);
  for (const char* const name : {"texts 0", "texts 1"}) {
    heap_.destroy<HeapVector<HeapString>>(name);
  }
  for (const HeapObject& object : heap_.objects()) {
    heap_.destroy<std::uint64_t>(object.name);
  }
  EXPECT_EQ(heap_.statistics().live_blocks, 0U);
}

TEST_F(HeapObjects, an_allocator_outlives_no_heap) {
  const HeapAllocator<int> allocator(heap_);
  heap_.close();
  HeapAllocator<int> late = allocator;
  EXPECT_TRUE(says(refusal<OptionError>([&] { static_cast<void>(late.allocate(1)); }), "no heap is open"));
}

}  // namespace
}  // namespace tiermap
