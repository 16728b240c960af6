// Threads that allocate, and free each other's blocks, while others save and give back.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "heap/allocator.hpp"
#include "memory_area.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Who owns each 8 bytes of the data area, as the threads see it.
class Owners {
 public:
  explicit Owners(std::uint64_t capacity) : owned_(capacity / 8) {}
  void take(std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t place = offset / 8; place < (offset + bytes) / 8; ++place) {
      wrong_ += owned_[place].exchange(1) == 0 ? 0 : 1;
    }
  }
  void give(std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t place = offset / 8; place < (offset + bytes) / 8; ++place) {
      wrong_ += owned_[place].exchange(0) == 1 ? 0 : 1;
    }
  }
  void expect_free(std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t place = offset / 8; place < (offset + bytes) / 8; ++place) {
      wrong_ += owned_[place].load() == 0 ? 0 : 1;
    }
  }
  int wrong() const { return wrong_; }

 private:
  std::vector<std::atomic<std::uint8_t>> owned_;
  std::atomic<int> wrong_{0};
};

class AllocatorThreads : public testing::Test {
 protected:
  static constexpr std::uint64_t capacity = 8 << 20;

  // Blocks go through places that all threads share: who puts one in takes out, and frees, what another has put there.
  void work(std::uint64_t seed, int turns) {
    std::mt19937_64 random(seed);
    for (int turn = 0; turn < turns; ++turn) {
      const std::uint64_t bytes = random() % 50 == 0 ? 1 + random() % 700'000 : 1 + random() % 2000;
      const std::uint64_t block = allocator.allocate(bytes, 8);
      if (block != Allocator::no_block) {
        owners.take(block, allocator.block_bytes(block));
      }
      free(places[random() % places.size()].exchange(block));
    }
  }
  void free(std::uint64_t block) {
    if (block != Allocator::no_block) {
      owners.give(block, allocator.block_bytes(block));
      allocator.deallocate(block);
    }
  }
  void expect_all_free_once_freed() {
    for (auto& place : places) {
      free(place.exchange(Allocator::no_block));
    }
    EXPECT_EQ(owners.wrong(), 0);
    EXPECT_TRUE(blocks_of(allocator).empty());
    allocator.flush_caches();
    EXPECT_EQ(allocator.statistics().free_bytes, capacity - slab_bytes);
  }

  MemoryArea area;
  Allocator allocator{area, capacity, Allocator::Content::nothing};
  Owners owners{capacity};
  std::vector<std::atomic<std::uint64_t>> places = std::vector<std::atomic<std::uint64_t>>(800);
};

TEST_F(AllocatorThreads, NoByteHasTwoOwnersAndNothingIsLost) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      threads.emplace_back([this, seed, round] { work(seed + 10 * static_cast<unsigned>(round), 2500); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  expect_all_free_once_freed();
}

TEST_F(AllocatorThreads, SavingAndGivingBackGoOnBeside) {
  std::atomic<bool> ended = false;
  std::thread saver([&] {
    while (!ended) {
      allocator.save();
      for (const GiveBack which : {GiveBack::free_when_saved, GiveBack::free_now}) {
        allocator.give_back(which,
                            [&](std::uint64_t offset, std::uint64_t bytes) { owners.expect_free(offset, bytes); });
      }
      allocator.flush_caches();
      (void)allocator.statistics();
      // What is saved at any time can be loaded.
      Allocator loaded(area, capacity, Allocator::Content::saved);
      EXPECT_EQ(blocks_of(loaded).size(), loaded.statistics().live_blocks);
    }
  });
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    threads.emplace_back([this, seed] { work(seed, 4000); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ended = true;
  saver.join();
  expect_all_free_once_freed();
}

TEST_F(AllocatorThreads, OfThreadsThatFreeOneBlockOneSucceeds) {
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t block = allocator.allocate(64);
    std::atomic<int> freed = 0;
    std::atomic<int> ready = 0;
    const auto race = [&] {
      ++ready;
      while (ready < 2) {
        std::this_thread::yield();
      }
      try {
        allocator.deallocate(block);
        ++freed;
      } catch (const OptionError&) {
      }
    };
    std::thread other(race);
    race();
    other.join();
    ASSERT_EQ(freed, 1);
  }
}

}  // namespace
}  // namespace tiermap
