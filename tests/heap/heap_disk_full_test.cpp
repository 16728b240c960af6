// A full disk, in every call: an error that names it, nothing lost, and all goes on once there is room. With every
// number of free blocks from none to enough, so that each step of a call is the one that fails.
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

#include "heap/heap_content.hpp"
#include "heap/heap_fixture.hpp"
#include "store/random_rounds.hpp"

namespace tiermap {
namespace {

struct HeapKind {
  HeapBacking backing;
  bool checkpoints;
  std::uint64_t page_size_bytes;
  const char* name;
};

/// Each test on a tmpfs of 4 MiB.
class HeapDiskFull : public HeapTest, public testing::WithParamInterface<HeapKind> {
 protected:
  void SetUp() override {
    mounted_ = ::mount("tmpfs", disk_.path().c_str(), "tmpfs", 0, "size=4m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
    }
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(::umount(disk_.path().c_str()), 0);
    }
  }

  static HeapOptions options() {
    HeapOptions options = small();
    options.page_size_bytes = GetParam().page_size_bytes;
    options.backing = GetParam().backing;
    options.checkpoints = GetParam().checkpoints;
    return options;
  }

  /// Takes all room of the disk but so many blocks of 4 KiB.
  void leave_free(std::uint64_t blocks) {
    std::ofstream file(ballast_, std::ios::binary);
    const std::string block(4096, 'x');
    for (int count = 0; count < 1024 && file << block << std::flush; ++count) {
    }
    const std::uint64_t all = std::filesystem::file_size(ballast_) / 4096;
    std::filesystem::resize_file(ballast_, (all - std::min(all, blocks)) * 4096);
  }
  void make_room() { std::filesystem::remove(ballast_); }

  static void change(HeapContent& content, std::mt19937_64& random, Heap& heap) {
    for (int step = 0; step < 15; ++step) {
      HeapChange change = random_change(random);
      // Nothing large: the disk is small.
      change.seed |= 4;
      content.change(change, &heap);
    }
    content.stamp(heap);
  }

  /// What a crash would leave now is one or the other, and refused without checkpoints.
  void expect_after_crash(const HeapContent& one, const HeapContent& other) {
    const std::string copy = directory_ / "crashed";
    copy_heap_as_killed(path_, copy);
    if (!GetParam().checkpoints) {
      EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(copy, options()); }), "was not closed"));
    } else {
      Heap crashed = Heap::open(copy, options());
      const bool first = HeapContent::stamp_of(crashed) == one.number;
      EXPECT_NO_THROW((first ? one : other).require_same(crashed));
    }
    Heap::remove(copy);
  }

  /// Calls `save` with ever more room until it succeeds; after a failure nothing may be lost.
  template <typename Save>
  void save_with_ever_more_room(Save&& save, std::uint64_t step) {
    const std::uint64_t seed = test_seed();
    SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    Heap heap = Heap::create(path_, options());
    HeapContent::begin(heap);
    HeapContent content;
    int refusals = 0;
    for (std::uint64_t free = 0, successes = 0; successes < 3 && !HasFailure(); free += step) {
      ASSERT_LT(free, 600U);
      heap.checkpoint();
      const HeapContent saved = content;
      ++content.number;
      change(content, random, heap);
      leave_free(free);
      try {
        save(heap);
        ++successes;
      } catch (const StoreError& error) {
        ++refusals;
        EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
        EXPECT_TRUE(says(error.what(), "free some space"));
        EXPECT_NO_THROW(content.require_same(heap)) << free << " blocks free";
        expect_after_crash(saved, content);
      }
      make_room();
      heap.checkpoint();
      EXPECT_NO_THROW(content.require_same(heap)) << free << " blocks free";
    }
    EXPECT_GT(refusals, 0);
    heap.close();
    heap = Heap::open(path_, options());
    EXPECT_NO_THROW(content.require_same(heap));
    EXPECT_NO_THROW(HeapContent::require_no_leak(heap));
  }

  const TemporaryDirectory disk_;
  const std::string path_ = disk_ / "heap";
  const std::string ballast_ = disk_ / "ballast";
  bool mounted_ = false;
};

TEST_P(HeapDiskFull, create_leaves_nothing_behind) {
  int refusals = 0;
  for (std::uint64_t free = 0;; ++free) {
    ASSERT_LT(free, 400U);
    leave_free(free);
    try {
      Heap::create(path_, options()).close();
      break;
    } catch (const StoreError& error) {
      ++refusals;
      EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
      EXPECT_TRUE(says(error.what(), path_));
      EXPECT_TRUE(says(error.what(), "free some space"));
    }
    if (std::filesystem::exists(path_)) {
      // It was made, and closing it found no room: it is a heap.
      EXPECT_NO_THROW(Heap::remove(path_));
    }
    make_room();
  }
  EXPECT_GT(refusals, 1);
}

TEST_P(HeapDiskFull, checkpoint_keeps_the_last_and_goes_on) {
  save_with_ever_more_room([](Heap& heap) { heap.checkpoint(); }, 1);
}

TEST_P(HeapDiskFull, close_leaves_it_open_and_goes_on) {
  save_with_ever_more_room(
      [&](Heap& heap) {
        heap.close();
        make_room();
        heap = Heap::open(path_, options());
      },
      1);
}

TEST_P(HeapDiskFull, snapshot_leaves_nothing_behind) {
  const std::string copy = disk_ / "snapshot";
  save_with_ever_more_room(
      [&](Heap& heap) {
        try {
          heap.snapshot(copy);
        } catch (...) {
          EXPECT_FALSE(std::filesystem::exists(copy));
          throw;
        }
        EXPECT_TRUE(Heap::consistent(copy));
        Heap::remove(copy);
      },
      3);
}

/// The heap itself has room.
TEST_P(HeapDiskFull, update_of_a_snapshot_leaves_nothing_behind) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Heap heap = Heap::create(directory_ / "elsewhere", options());
  HeapContent::begin(heap);
  HeapContent content;
  const std::string copy = disk_ / "snapshot";
  int refusals = 0;
  for (std::uint64_t free = 0, successes = 0; successes < 3 && !HasFailure(); free += 3) {
    ASSERT_LT(free, 600U);
    if (!std::filesystem::exists(copy)) {
      heap.snapshot(copy);
    }
    ++content.number;
    change(content, random, heap);
    leave_free(free);
    try {
      heap.update_snapshot(copy);
      ++successes;
      Heap updated = Heap::open_read_only(copy, options());
      EXPECT_NO_THROW(content.require_same(updated)) << free << " blocks free";
    } catch (const StoreError& error) {
      ++refusals;
      EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
      EXPECT_TRUE(says(error.what(), "free some space"));
      EXPECT_FALSE(std::filesystem::exists(copy));
      EXPECT_NO_THROW(content.require_same(heap)) << free << " blocks free";
    }
    make_room();
  }
  EXPECT_GT(refusals, 0);
}

// As anywhere in Tiermap: who needs memory when all of it is changed pages that cannot be written gets SIGBUS.
TEST_P(HeapDiskFull, growth_beyond_memory_ends_the_program_and_keeps_the_last_checkpoint) {
  if (!GetParam().checkpoints) {
    GTEST_SKIP() << "without checkpoints there is none";
  }
  using Numbers = HeapVector<std::uint64_t>;
  HeapOptions tight = options();
  tight.budget_bytes = 1 << 20;
  Heap::create(path_, tight).construct<Numbers>("numbers")(1000, 7U);
  leave_free(40);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGBUS, SIG_DFL);  // Sanitizers would report it.
    Heap heap = Heap::open(path_, tight);
    Numbers& numbers = *heap.find<Numbers>("numbers");
    for (std::uint64_t number = 0; number < 400'000; ++number) {
      numbers.push_back(number);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
  make_room();
  Heap heap = Heap::open(path_, tight);
  Numbers& numbers = *heap.find<Numbers>("numbers");
  EXPECT_EQ(std::ranges::count(numbers, 7U), 1000);
  numbers.resize(100'000, 8U);
  EXPECT_NO_THROW(heap.close());
}

// Holes in pages that could not be written stay holes.
TEST_P(HeapDiskFull, what_could_not_be_written_needs_no_more_room_the_next_time) {
  constexpr std::size_t bytes = 16 << 20;
  constexpr std::size_t page = 64 << 10;
  HeapOptions with_large_pages = options();
  with_large_pages.page_size_bytes = page;
  with_large_pages.budget_bytes = 32 << 20;
  Heap heap = Heap::create(path_, with_large_pages);
  char* const block = heap.construct<char>("block")[bytes]();
  heap.checkpoint();
  for (std::size_t at = 0; at < bytes; at += page) {
    block[at] = 'x';
  }
  leave_free(20);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::string refused = refusal<StoreError>([&] { heap.checkpoint(); });
    EXPECT_TRUE(says(refused, "free some space")) << refused;
  }
  make_room();
  EXPECT_NO_THROW(heap.checkpoint());
  EXPECT_NO_THROW(heap.close());
  heap = Heap::open_read_only(path_, with_large_pages);
  EXPECT_EQ(std::ranges::count(heap.find_all<char>("block"), 'x'), bytes / page);
  heap.close();
}

// What has to be written first, where pages have both, waits until others have given theirs back.
TEST_P(HeapDiskFull, room_that_is_freed_in_the_heap_is_room_for_it) {
  HeapOptions direct = options();
  direct.page_size_bytes = 64 << 10;
  direct.checkpoints = false;
  Heap heap = Heap::create(path_, direct);
  constexpr std::size_t large_bytes = 2 << 20;
  void* const written_later = heap.allocate(4096);
  void* const beside_it = heap.allocate(4096);
  void* const large = heap.allocate(large_bytes);
  std::memset(beside_it, 1, 4096);
  std::memset(large, 1, large_bytes);
  heap.checkpoint();
  leave_free(0);
  std::memset(written_later, 2, 4096);
  heap.deallocate(beside_it);
  EXPECT_THROW(heap.checkpoint(), StoreError);
  heap.deallocate(large);
  EXPECT_NO_THROW(heap.checkpoint());
  EXPECT_NO_THROW(heap.close());
}

INSTANTIATE_TEST_SUITE_P(Heaps, HeapDiskFull,
                         testing::Values(HeapKind{HeapBacking::file, true, 4096, "file"},
                                         HeapKind{HeapBacking::sparse, true, 4096, "sparse"},
                                         HeapKind{HeapBacking::file, false, 64 << 10, "file_without_checkpoints"},
                                         HeapKind{HeapBacking::sparse, false, 4096, "sparse_without_checkpoints"}),
                         [](const testing::TestParamInfo<HeapKind>& information) { return information.param.name; });

}  // namespace
}  // namespace tiermap
