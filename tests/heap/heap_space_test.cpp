// More data than memory, snapshots while it changes, and room that goes back to the file system.
#include <sys/stat.h>

#include <cstring>

#include "heap/heap_fixture.hpp"
#include "heap/heap_layout.hpp"

namespace tiermap {
namespace {

std::int64_t bytes_on_disk(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return std::int64_t{status.st_blocks} * 512;
}

TEST_F(HeapTest, a_budget_of_a_quarter_of_the_data_is_enough) {
  constexpr std::size_t numbers_in_all = (32 << 20) / sizeof(std::uint64_t);
  {
    Heap heap = Heap::create(path_, small());
    auto& numbers = *heap.construct<HeapVector<std::uint64_t>>("numbers")(numbers_in_all);
    for (std::size_t index = 0; index < numbers.size(); ++index) {
      numbers[index] = index * 3;
    }
    heap.checkpoint();
    for (std::size_t index = 0; index < numbers.size(); index += 1000) {
      numbers[index] = index * 5;
    }
  }
  const Heap heap = Heap::open_read_only(path_, small());
  const auto& numbers = *heap.find<HeapVector<std::uint64_t>>("numbers");
  ASSERT_EQ(numbers.size(), numbers_in_all);
  std::size_t wrong = 0;
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    wrong += std::size_t{numbers[index] != index * (index % 1000 == 0 ? 5U : 3U)};
  }
  EXPECT_EQ(wrong, 0U);
}

TEST_F(HeapTest, what_is_freed_goes_back_to_the_file_system) {
  Heap heap = Heap::create(path_, small());
  std::vector<void*> blocks;
  for (int index = 0; index < 4000; ++index) {
    blocks.push_back(heap.allocate(4096));
    std::memset(blocks.back(), 1, 4096);
  }
  void* const large = heap.allocate(8 << 20);
  std::memset(large, 1, 8 << 20);
  auto& kept = *heap.construct<std::array<char, 4096>>("kept")();
  kept.fill('k');
  heap.checkpoint();
  const std::int64_t full = bytes_on_disk(path_ + "/data");
  EXPECT_GT(full, 20 << 20);
  heap.deallocate(large);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    if (index % 10 != 0) {
      heap.deallocate(blocks[index]);
    }
  }
  EXPECT_GE(bytes_on_disk(path_ + "/data"), full) << "before a checkpoint the last one needs it";
  heap.checkpoint();
  EXPECT_LT(bytes_on_disk(path_ + "/data"), 6 << 20);
  for (std::size_t index = 0; index < blocks.size(); index += 10) {
    EXPECT_EQ(static_cast<const char*>(blocks[index])[4095], 1);
  }
  EXPECT_EQ(kept[4095], 'k');
  heap.close();
  EXPECT_LT(bytes_on_disk(path_ + "/journal"), 1 << 20);
  heap = Heap::open(path_, small());
  EXPECT_EQ((heap.find<std::array<char, 4096>>("kept")->at(0)), 'k');
}

TEST_F(HeapTest, what_was_given_back_stays_so_when_its_neighbours_change) {
  for (const bool checkpoints : {true, false}) {
    HeapOptions options = small();
    options.checkpoints = checkpoints;
    Heap heap = Heap::create(path_, options);
    std::vector<char*> blocks;
    for (int index = 0; index < 600; ++index) {
      blocks.push_back(static_cast<char*>(heap.allocate(4096)));
      std::memset(blocks.back(), 1, 4096);
    }
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      if (index % 3 != 0) {
        heap.deallocate(blocks[index]);
      }
    }
    heap.checkpoint();
    const std::int64_t given_back = bytes_on_disk(path_ + "/data");
    for (std::size_t index = 0; index < blocks.size(); index += 3) {
      blocks[index][7] = 2;
    }
    heap.checkpoint();
    EXPECT_LT(bytes_on_disk(path_ + "/data"), given_back * 3 / 2);
    heap.close();
    Heap::remove(path_);
  }
}

// After opening it is not remembered which free space is a hole already: the file is asked.
TEST_F(HeapTest, the_first_checkpoint_after_opening_makes_no_hole_twice) {
  HeapOptions options = small();
  options.capacity_bytes = 1 << 30;
  {
    Heap heap = Heap::create(path_, options);
    std::vector<void*> blocks;
    for (int index = 0; index < 1000; ++index) {
      blocks.push_back(heap.allocate(256 << 10));
      std::memset(blocks.back(), 1, 1);
    }
    heap.checkpoint();
    for (std::size_t index = 0; index < blocks.size(); index += 2) {
      heap.deallocate(blocks[index]);
    }
    heap.construct<int>("answer")(42);
  }
  Heap heap = Heap::open(path_, options);
  *heap.find<int>("answer") = 43;
  heap.checkpoint();
  // The changed block, metadata, and an index of one block: the holes, 500 of them, would be three blocks more.
  const std::uint64_t first = heap.statistics().journal_bytes;
  *heap.find<int>("answer") = 44;
  heap.checkpoint();
  EXPECT_EQ(heap.statistics().journal_bytes, first);
}

TEST_F(HeapTest, the_first_checkpoint_after_opening_gives_back_what_no_hole_was_made_for) {
  std::uint64_t begin = 0;
  for (const HeapBacking backing : {HeapBacking::file, HeapBacking::sparse}) {
    HeapOptions options = small();
    options.backing = backing;
    Heap heap = Heap::create(path_, options);
    void* const block = heap.allocate(8 << 20);
    std::memset(block, 1, 8 << 20);
    begin = static_cast<std::uint64_t>(static_cast<std::byte*>(block) - heap.data()) + HeapLayout(64 << 20).data_offset;
    heap.checkpoint();
    heap.deallocate(block);
    heap.close();
    const std::string file = path_ + (backing == HeapBacking::file ? "/data" : "/data/segment-0000000000");
    const std::int64_t before = bytes_on_disk(file);
    {
      std::fstream data(file, std::ios::in | std::ios::out | std::ios::binary);
      ASSERT_TRUE(data.is_open());
      data.seekp(static_cast<std::streamoff>(begin + (1 << 20)));
      data << std::string(3 << 20, 'x') << std::flush;
    }
    ASSERT_GT(bytes_on_disk(file), before + (2 << 20));
    heap = Heap::open(path_, options);
    heap.checkpoint();
    EXPECT_LE(bytes_on_disk(file), before + (64 << 10));
    heap.close();
    Heap::remove(path_);
  }
}

TEST_F(HeapTest, a_snapshot_is_its_moment_while_threads_go_on) {
  constexpr std::size_t count = 1 << 20;
  Heap heap = Heap::create(path_, small());
  auto& numbers = *heap.construct<HeapVector<std::uint64_t>>("numbers")(count, 0U);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  const auto go_on = [&] {
    for (std::size_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t round = 0; !stop; ++round) {
          numbers[(round * 2 + thread) * 7919 % count] = 1'000'000'007;
          if (round % 64 == 0) {
            heap.deallocate(heap.allocate(round % 9000));
            std::this_thread::yield();
          }
        }
      });
    }
  };
  const auto halt = [&] {
    stop = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    threads.clear();
    stop = false;
  };
  for (std::uint64_t moment = 1; moment < 4; ++moment) {
    std::fill(numbers.begin(), numbers.end(), moment);
    const std::string copy = directory_ / ("copy " + std::to_string(moment));
    heap.snapshot(copy, go_on);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    halt();
    EXPECT_TRUE(Heap::consistent(copy));
    Heap found = Heap::open(copy, small());
    const auto& then = *found.find<HeapVector<std::uint64_t>>("numbers");
    EXPECT_TRUE(std::all_of(then.begin(), then.end(), [&](std::uint64_t number) { return number == moment; }));
    EXPECT_EQ(found.statistics().live_blocks, 2U);
    EXPECT_LT(bytes_on_disk(copy + "/data"), 20 << 20);
  }
  heap.checkpoint();
  EXPECT_EQ(heap.statistics().live_blocks, 2U);
}

TEST_F(HeapTest, threads_share_one_cache_and_several_heaps) {
  Cache cache({.budget_bytes = 8 << 20});
  HeapOptions options = small();
  options.cache = &cache;
  Heap first = Heap::create(path_, options);
  Heap second = Heap::create(directory_ / "other", options);
  std::vector<std::thread> threads;
  for (Heap* const heap : {&first, &second, &first, &second}) {
    threads.emplace_back([heap] {
      for (int round = 0; round < 300; ++round) {
        HeapVector<HeapString> texts(*heap);
        texts.resize(20, HeapString(100, 'x', *heap));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(first.statistics().live_blocks, 0U);
  EXPECT_EQ(second.statistics().live_blocks, 0U);
}

}  // namespace
}  // namespace tiermap
