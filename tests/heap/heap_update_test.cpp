// Snapshots that are brought up to date: they hold what the heap holds, only what differs is written, and what is no
// snapshot of the heap, or was changed since, is left alone.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "heap/heap_fixture.hpp"
#include "kernel_mode/refusals.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

using Words = HeapVector<std::uint64_t>;
using Table = HeapUnorderedMap<std::uint64_t, Words>;

class HeapUpdate : public HeapTest, public testing::WithParamInterface<std::pair<HeapBacking, bool>> {
 protected:
  HeapOptions options() const {
    HeapOptions options = small();
    options.backing = GetParam().first;
    options.checkpoints = GetParam().second;
    return options;
  }
  static void fill(Heap& heap, std::uint64_t seed, std::uint64_t lists) {
    Table& table = *heap.find_or_construct<Table>("table")();
    std::mt19937_64 random(seed);
    for (std::uint64_t list = 0; list < lists; ++list) {
      Words& words = table[random() % 1000];
      for (std::uint64_t word = random() % 500; word > 0; --word) {
        words.push_back(random());
      }
    }
  }
  static void expect_same(const Heap& left, const Heap& right) {
    const Table& ours = *left.find<Table>("table");
    const Table& theirs = *right.find<Table>("table");
    ASSERT_EQ(ours.size(), theirs.size());
    for (const auto& [key, words] : ours) {
      const auto found = theirs.find(key);
      ASSERT_NE(found, theirs.end());
      ASSERT_TRUE(std::equal(words.begin(), words.end(), found->second.begin(), found->second.end())) << key;
    }
    EXPECT_EQ(left.statistics().live_blocks, right.statistics().live_blocks);
  }
  /// Notes what the table holds; holds_together() is whether it does.
  static void note_sum(Heap& heap) { *heap.find_or_construct<std::uint64_t>("sum")() = sum_of(heap); }
  static bool holds_together(const Heap& heap) { return *heap.find<std::uint64_t>("sum") == sum_of(heap); }
  const std::string copy_ = directory_ / "copy";

 private:
  static std::uint64_t sum_of(const Heap& heap) {
    std::uint64_t sum = 0;
    for (const auto& [key, words] : *heap.find<Table>("table")) {
      std::uint64_t place = 1;
      for (const std::uint64_t word : words) {
        sum += word * place++;
      }
    }
    return sum;
  }
};

TEST_P(HeapUpdate, holds_what_the_heap_holds_and_writes_what_differs) {
  Heap heap = Heap::create(path_, options());
  fill(heap, 1, 5000);
  heap.snapshot(copy_);
  // What was copied first: nearly all of the 10 MiB that are used.
  const std::uint64_t used = heap.statistics().taken_bytes;
  EXPECT_GT(used, 8U << 20U);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    fill(heap, seed, 3);
    const std::uint64_t written = heap.update_snapshot(copy_);
    EXPECT_GT(written, 0U);
    EXPECT_LT(written, used / 8) << seed;
    ASSERT_TRUE(Heap::consistent(copy_));
    const Heap copy = Heap::open_read_only(copy_, options());
    expect_same(heap, copy);
    EXPECT_TRUE(Heap::check(copy_).sound());
  }
  // State and superblock differ each time.
  EXPECT_LE(heap.update_snapshot(copy_), 64U << 10U);
}

TEST_P(HeapUpdate, gives_back_what_the_heap_has_freed) {
  Heap heap = Heap::create(path_, options());
  char* const block = static_cast<char*>(heap.allocate(4 << 20));
  std::memset(block, 7, 4 << 20);
  heap.construct<std::uint64_t>("kept")(std::uint64_t{5});
  heap.snapshot(copy_);
  heap.deallocate(block);
  heap.checkpoint();
  EXPECT_GE(heap.update_snapshot(copy_), 4U << 20U);
  const Heap copy = Heap::open_read_only(copy_, options());
  EXPECT_EQ(*copy.find<std::uint64_t>("kept"), 5U);
  EXPECT_EQ(copy.statistics().live_blocks, heap.statistics().live_blocks);
}

TEST_P(HeapUpdate, refuses_what_is_no_snapshot_of_it) {
  Heap heap = Heap::create(path_, options());
  fill(heap, 1, 10);
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.update_snapshot(copy_); }), "missing"));
  const std::string other = directory_ / "other";
  Heap::create(other, options()).close();
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.update_snapshot(other); }), "no snapshot of this heap"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.update_snapshot(path_); }), "use"));

  for (const char* const within : {"/copy", "/data/../copy", "/none/copy"}) {
    EXPECT_TRUE(says(refusal<StoreError>([&] { heap.snapshot(path_ + within); }), "within the heap"));
  }
  heap.snapshot(copy_);
  {
    const Heap reader = Heap::open_read_only(copy_, options());
    EXPECT_TRUE(says(refusal<StoreError>([&] { heap.update_snapshot(copy_); }), "use"));
  }
  heap.update_snapshot(copy_);
  Heap changed = Heap::open(copy_, options());
  changed.construct<std::uint64_t>("own")(std::uint64_t{6});
  changed.close();
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.update_snapshot(copy_); }), "changed since"));
  const Heap copy = Heap::open_read_only(copy_, options());
  EXPECT_EQ(*copy.find<std::uint64_t>("own"), 6U);
}

using HeapUpdateNotBegun = HeapTest;

/// The renaming that begins it is not known to be on the disk.
TEST_F(HeapUpdateNotBegun, leaves_the_snapshot_as_it_was) {
  const std::string copy = directory_ / "copy";
  const auto in_child = [&] {
    Heap heap = Heap::create(path_, small());
    heap.construct<std::uint64_t>("value")(std::uint64_t{1});
    heap.snapshot(copy);
    *heap.find<std::uint64_t>("value") = 2;
    bool refused = false;
    const auto refuse_syncs = [&] { refused = Refusals().refuse(SYS_fsync, EIO).install(); };
    try {
      heap.update_snapshot(copy, refuse_syncs);
    } catch (const StoreError& error) {
      return !refused ? 2 : error.code().value() == EIO ? 0 : 3;
    }
    return 4;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(in_child());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    GTEST_SKIP() << "seccomp filters cannot be installed here";
  }
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(Heap::consistent(copy));
  EXPECT_EQ(*Heap::open_read_only(copy, small()).find<std::uint64_t>("value"), 1U);
}

/// It has a journal then, which belongs to what was there.
TEST_P(HeapUpdate, refuses_a_snapshot_that_a_killed_process_had_open) {
  Heap heap = Heap::create(path_, options());
  fill(heap, 1, 10);
  heap.snapshot(copy_);
  const pid_t child = ::fork();
  if (child == 0) {
    HeapOptions with_checkpoints = small();
    Heap opened = Heap::open(copy_, with_checkpoints);
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.update_snapshot(copy_); }), "changed since"));
  expect_same(heap, Heap::open_read_only(copy_, options()));
}

TEST_P(HeapUpdate, others_go_on_once_it_is_checkpointed) {
  if (!GetParam().second) {
    GTEST_SKIP() << "without checkpoints nothing may change the heap meanwhile";
  }
  Heap heap = Heap::create(path_, options());
  heap.construct<std::uint64_t>("number")(std::uint64_t{1});
  heap.snapshot(copy_);
  *heap.find<std::uint64_t>("number") = 2;
  heap.update_snapshot(copy_, [&] { *heap.find<std::uint64_t>("number") = 3; });
  EXPECT_EQ(*Heap::open_read_only(copy_, options()).find<std::uint64_t>("number"), 2U);
  EXPECT_EQ(*heap.find<std::uint64_t>("number"), 3U);
}

TEST_P(HeapUpdate, goes_on_where_a_later_process_opens_the_heap) {
  {
    Heap heap = Heap::create(path_, options());
    fill(heap, 1, 100);
    heap.snapshot(copy_);
    fill(heap, 2, 100);
    heap.close();
  }
  Heap heap = Heap::open(path_, options());
  heap.update_snapshot(copy_);
  expect_same(heap, Heap::open_read_only(copy_, options()));
}

/// Killed at any moment, it is a whole snapshot, of before or after, or refused; then it can be removed.
TEST_P(HeapUpdate, killed_it_is_whole_or_refused) {
  if (!GetParam().second) {
    GTEST_SKIP() << "without checkpoints the heap itself would be refused";
  }
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  {
    Heap heap = Heap::create(path_, options());
    fill(heap, 1, 2000);
    note_sum(heap);
    heap.snapshot(copy_);
    heap.close();
  }
  int refused = 0;
  for (unsigned kill_count = 0; kill_count < 10; ++kill_count) {
    const pid_t child = ::fork();
    if (child == 0) {
      Heap heap = Heap::open(path_, options());
      for (std::uint64_t turn = 0;; ++turn) {
        fill(heap, turn, 50);
        note_sum(heap);
        heap.update_snapshot(copy_);
      }
    }
    ::usleep(static_cast<useconds_t>(random() % 300'000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    try {
      const Heap copy = Heap::open_read_only(copy_, options());
      EXPECT_TRUE(Heap::consistent(copy_));
      EXPECT_TRUE(holds_together(copy));
    } catch (const StoreError& error) {
      EXPECT_TRUE(says(error.what(), "in part"));
      EXPECT_TRUE(Heap::remove(copy_));
      Heap heap = Heap::open(path_, options());
      heap.snapshot(copy_);
      heap.close();
      ++refused;
    }
    EXPECT_TRUE(Heap::check(copy_).sound());
  }
  RecordProperty("refused", refused);
}

INSTANTIATE_TEST_SUITE_P(Heaps, HeapUpdate,
                         testing::Values(std::pair(HeapBacking::file, true), std::pair(HeapBacking::file, false),
                                         std::pair(HeapBacking::sparse, true)),
                         [](const testing::TestParamInfo<std::pair<HeapBacking, bool>>& parameter) {
                           return std::string(parameter.param.first == HeapBacking::file ? "file" : "sparse") +
                                  (parameter.param.second ? "" : "_without_checkpoints");
                         });

}  // namespace
}  // namespace tiermap
