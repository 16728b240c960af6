// Allocators of heaps in the standard library's scoped_allocator_adaptor, and those that fall back to the program's own
// memory; how they find their heap in a forked child.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <scoped_allocator>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "heap/heap_fixture.hpp"
#include "tiermap/heap_fallback_allocator.hpp"

namespace tiermap {
namespace {

template <typename T>
using StandardScoped = std::scoped_allocator_adaptor<HeapAllocator<T>>;
template <typename T>
using Row = std::vector<T, StandardScoped<T>>;
using Table = Row<Row<Row<std::size_t>>>;

template <typename T>
using Either = boost::container::vector<T, HeapFallbackAllocator<T>>;
template <typename T>
using ScopedEither = boost::container::vector<T, boost::container::scoped_allocator_adaptor<HeapFallbackAllocator<T>>>;
using EitherText = boost::container::basic_string<char, std::char_traits<char>, HeapFallbackAllocator<char>>;

template <typename T>
using Small = boost::container::small_vector<T, 4, HeapAllocator<T>>;
static_assert(!KeepsMemoryOutsideHeap<Small<int>>::value);
static_assert(!KeepsMemoryOutsideHeap<HeapString>::value);
static_assert(!KeepsMemoryOutsideHeap<EitherText>::value);
static_assert(!KeepsMemoryOutsideHeap<std::pair<const int, Small<HeapString>>>::value);
static_assert(KeepsMemoryOutsideHeap<const std::pair<const int, std::string>>::value);

class HeapAllocators : public HeapTest {
 protected:
  bool is_in_heap(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return std::less_equal<>()(heap_->data(), byte) &&
           std::less<>()(byte, heap_->data() + heap_->statistics().capacity_bytes);
  }
  void reopen() {
    heap_->close();
    heap_.reset();
    heap_ = std::make_unique<Heap>(Heap::open(path_, small()));
  }

  std::unique_ptr<Heap> heap_ = std::make_unique<Heap>(Heap::create(path_, small()));
};

TEST_F(HeapAllocators, of_a_closed_heap_take_no_other_memory) {
  heap_->close();
  const HeapAllocator<int> in_heap(*heap_);
  HeapFallbackAllocator<int> either(*heap_);
  EXPECT_NE(either.base(), nullptr);
  EXPECT_THROW(HeapAllocator<int>(in_heap).allocate(1), OptionError);
  EXPECT_TRUE(says(refusal<OptionError>([&] { either.allocate(1); }), "no heap is open"));
  EXPECT_TRUE(says(refusal<OptionError>([&] { HeapFallbackAllocator<int>(in_heap).allocate(1); }), "no heap is open"));
  EXPECT_THROW(Either<int>(3, 1, *heap_), OptionError);
}

TEST_F(HeapAllocators, standard_scoped_adaptors_tell_all_depths_of_the_heap) {
  auto& table = *heap_->construct<Table>("table")();
  for (std::size_t i = 0; i < 20; ++i) {
    auto& rows = table.emplace_back();
    for (std::size_t j = 0; j < i; ++j) {
      rows.emplace_back(j, i);
      EXPECT_EQ(rows.back().get_allocator().base(), heap_->data());
      EXPECT_TRUE(j == 0 || is_in_heap(rows.back().data()));
    }
  }
  reopen();
  const auto& again = *heap_->find<Table>("table");
  ASSERT_EQ(again.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_EQ(again[i].size(), i);
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_EQ(again[i][j], Row<std::size_t>(j, i, *heap_));
    }
  }
  EXPECT_TRUE(heap_->destroy<Table>("table"));
  EXPECT_EQ(heap_->statistics().live_blocks, 0U);
}

TEST_F(HeapAllocators, standard_scoped_adaptors_serve_vectors_of_boost) {
  using Texts = boost::container::vector<HeapString, StandardScoped<HeapString>>;
  auto& all = *heap_->construct<boost::container::vector<Texts, StandardScoped<Texts>>>("all")();
  all.emplace_back().emplace_back(std::string(100, 'n').c_str());
  EXPECT_TRUE(is_in_heap(all[0][0].data()));
  reopen();
  EXPECT_EQ((*heap_->find<boost::container::vector<Texts, StandardScoped<Texts>>>("all"))[0][0].size(), 100U);
}

TEST_F(HeapAllocators, the_one_without_a_heap_uses_the_programs_memory) {
  static_assert(!std::is_default_constructible_v<HeapAllocator<int>>);
  static_assert(std::is_default_constructible_v<HeapFallbackAllocator<int>>);
  EXPECT_EQ(HeapFallbackAllocator<int>(), HeapFallbackAllocator<char>());
  EXPECT_FALSE(HeapFallbackAllocator<int>() == HeapFallbackAllocator<int>(*heap_));
  EXPECT_EQ(HeapFallbackAllocator<int>(HeapAllocator<char>(*heap_)).base(), heap_->data());
  EXPECT_THROW(static_cast<void>(HeapFallbackAllocator<int>().allocate(SIZE_MAX / 2)), std::bad_array_new_length);

  struct alignas(128) Wide {
    int value;
  };
  Either<Wide> temporary;
  for (int i = 0; i < 100; ++i) {
    temporary.push_back({i});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(temporary.data()) % 128, 0U);
  }
  EXPECT_FALSE(is_in_heap(temporary.data()));
  EXPECT_EQ(heap_->statistics().live_blocks, 0U);
}

TEST_F(HeapAllocators, assignment_copies_between_heap_and_memory) {
  Either<int> temporary(1000, 7);
  auto& stored = *heap_->construct<Either<int>>("stored")();
  stored = temporary;
  EXPECT_TRUE(is_in_heap(stored.data()));
  stored.push_back(8);
  Either<int> back;
  back = stored;
  EXPECT_FALSE(is_in_heap(back.data()));
  EXPECT_EQ(back, stored);
  back.push_back(9);
  stored = std::move(back);
  EXPECT_TRUE(is_in_heap(stored.data()));
  reopen();
  const auto& again = *heap_->find<Either<int>>("stored");
  ASSERT_EQ(again.size(), 1002U);
  EXPECT_EQ(again[999], 7);
  EXPECT_EQ(again.back(), 9);
  EXPECT_TRUE(heap_->destroy<Either<int>>("stored"));
  EXPECT_EQ(heap_->statistics().live_blocks, 0U);
}

TEST_F(HeapAllocators, what_is_nested_goes_where_the_outermost_is) {
  ScopedEither<EitherText> temporary;
  temporary.emplace_back(std::string(50, 't').c_str());
  EXPECT_FALSE(is_in_heap(temporary[0].data()));
  auto& stored = *heap_->construct<ScopedEither<EitherText>>("texts")();
  stored.emplace_back(std::string(50, 's').c_str());
  stored.push_back(temporary[0]);
  EXPECT_TRUE(is_in_heap(stored[0].data()));
  EXPECT_TRUE(is_in_heap(stored[1].data()));
  temporary = stored;
  EXPECT_FALSE(is_in_heap(temporary[1].data()));
  reopen();
  EXPECT_STREQ((*heap_->find<ScopedEither<EitherText>>("texts"))[1].c_str(), std::string(50, 't').c_str());
  EXPECT_TRUE(heap_->destroy<ScopedEither<EitherText>>("texts"));
  EXPECT_EQ(heap_->statistics().live_blocks, 0U);
}

TEST_F(HeapAllocators, a_child_forked_beside_threads_that_allocate_in_several_heaps_waits_for_none) {
  const Heap other = Heap::create(directory_ / "other", small());
  const void* const bases[] = {base_of(*heap_), base_of(other)};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    for (std::size_t turn = 0; !stop.load(); ++turn) {
      deallocate_in_heap(bases[turn % 2], nullptr);
    }
  });
  int status = 0;
  for (int round = 0; round < 50 && status == 0; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      deallocate_in_heap(bases[0], nullptr);  // As an opening does, it asks which heaps there are.
      ::_exit(0);
    }
    EXPECT_EQ(::waitpid(child, &status, 0), child);
  }
  stop.store(true);
  thread.join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tiermap
