// Frames of many sizes under one budget that is never passed.
#include "cache/frame_pool.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

FrameArena& arena(FramePool& pool, std::uint64_t frame_bytes, unsigned shard = 0) {
  return pool.arena(frame_bytes, shard, [](void*, std::size_t) {});
}

void write_to(FramePool& pool, FrameId frame) {
  pool.record(frame).populated = true;
  *pool.address(frame) = std::byte{1};
}

// How much of an arena is really in memory.
std::uint64_t resident_bytes(const FrameArena& frames) {
  std::vector<unsigned char> pages(frames.memory.size() / block_bytes);
  EXPECT_EQ(::mincore(frames.memory.data(), frames.memory.size(), pages.data()), 0);
  std::uint64_t resident = 0;
  for (const unsigned char page : pages) {
    resident += (page & 1U) * block_bytes;
  }
  return resident;
}

/// All frames that the budget pays for, each with memory.
std::vector<FrameId> take_and_write_all(FramePool& pool, FrameArena& frames) {
  std::vector<FrameId> taken;
  for (FrameId frame = pool.try_take(frames); frame != no_frame; frame = pool.try_take(frames)) {
    write_to(pool, frame);
    taken.push_back(frame);
  }
  return taken;
}

TEST(FramePool, GivesExactlyAsManyFramesAsTheBudgetPaysFor) {
  for (const std::uint64_t size : {4 * kib, 64 * kib, 2 * mib}) {
    FramePool pool(10 * FramePool::cost(size) + 5, 64 * mib, 1);
    FrameArena& frames = arena(pool, size);
    std::vector<FrameId> taken;
    for (FrameId frame = pool.try_take(frames); frame != no_frame; frame = pool.try_take(frames)) {
      taken.push_back(frame);
    }
    EXPECT_EQ(taken.size(), 10U) << size;
    EXPECT_EQ(pool.committed_bytes(), 10 * FramePool::cost(size));
    EXPECT_EQ(pool.available_bytes(), 5U);
    for (const FrameId frame : taken) {
      pool.give_back(frame, false);
    }
    EXPECT_EQ(pool.committed_bytes(), 0U);
  }
}

TEST(FramePool, FramesDoNotOverlapAndAreAligned) {
  FramePool pool(4 * mib, 64 * mib, 1);
  std::vector<std::pair<std::byte*, std::byte*>> ranges;
  for (const std::uint64_t size : {4 * kib, 64 * kib, 256 * kib}) {
    FrameArena& frames = arena(pool, size);
    for (int number = 0; number < 4; ++number) {
      const FrameId frame = pool.try_take(frames);
      ASSERT_NE(frame, no_frame);
      EXPECT_EQ(&pool.arena_of(frame), &frames);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool.address(frame)) % size, 0U);
      for (const auto& [start, end] : ranges) {
        EXPECT_TRUE(pool.address(frame) >= end || pool.address(frame) + size <= start);
      }
      ranges.emplace_back(pool.address(frame), pool.address(frame) + size);
    }
  }
}

TEST(FramePool, AFreeFrameWithMemoryIsUsedAgainFirst) {
  FramePool pool(1 * mib, 64 * mib, 1);
  FrameArena& frames = arena(pool, 64 * kib);
  const FrameId first = pool.try_take(frames);
  write_to(pool, first);
  pool.give_back(first, true);
  EXPECT_EQ(pool.try_take(frames), first);
  EXPECT_TRUE(pool.record(first).populated);
}

TEST(FramePool, MemoryOfFreeFramesGoesToAnotherSize) {
  FramePool pool(16 * FramePool::cost(64 * kib), 64 * mib, 1);
  FrameArena& large = arena(pool, 64 * kib);
  FrameArena& small = arena(pool, 4 * kib);
  std::vector<FrameId> taken;
  for (FrameId frame = pool.try_take(large); frame != no_frame; frame = pool.try_take(large)) {
    write_to(pool, frame);
    taken.push_back(frame);
  }
  ASSERT_EQ(taken.size(), 16U);
  EXPECT_EQ(pool.try_take(small), no_frame);
  pool.give_back(taken.back(), true);
  EXPECT_EQ(pool.available_bytes(), FramePool::cost(64 * kib));
  const FrameId other = pool.try_take(small);
  ASSERT_NE(other, no_frame);
  write_to(pool, other);
  EXPECT_LE(pool.committed_bytes(), pool.budget_bytes());
  EXPECT_LE(resident_bytes(large) + resident_bytes(small), pool.budget_bytes());
}

TEST(FramePool, TwoFramesAreTakenTogetherOrNotAtAll) {
  FramePool pool(3 * FramePool::cost(64 * kib), 64 * mib, 1);
  FrameArena& frames = arena(pool, 64 * kib);
  FrameId first = no_frame;
  FrameId second = no_frame;
  ASSERT_TRUE(pool.try_take_two(frames, first, second));
  EXPECT_NE(first, second);
  const std::uint64_t committed = pool.committed_bytes();
  FrameId third = no_frame;
  FrameId fourth = no_frame;
  EXPECT_FALSE(pool.try_take_two(frames, third, fourth));
  EXPECT_EQ(pool.committed_bytes(), committed);
  EXPECT_NE(pool.try_take(frames), no_frame);
}

TEST(FramePool, WhatACopyIsChargedToHoldsNothingAndLeavesPiecesWhole) {
  FramePool pool(16 * mib, 64 * mib, 1, true);
  FrameArena& frames = arena(pool, 16 * kib);
  for (int copied = 0; copied < 300; ++copied) {
    FrameId data = no_frame;
    FrameId token = no_frame;
    ASSERT_TRUE(pool.try_take_two(frames, data, token));
    EXPECT_TRUE(pool.record(data).populated);
    EXPECT_FALSE(pool.record(token).populated);
    pool.give_back(data, true);
  }
  // One piece of 2 MiB served all of that; the next is as whole.
  EXPECT_EQ(resident_bytes(frames), 2 * mib);
  std::vector<FrameId> taken;
  while (resident_bytes(frames) == 2 * mib) {
    taken.push_back(pool.try_take(frames));
  }
  EXPECT_EQ(taken.size(), 2 * mib / (16 * kib) + 1);
  EXPECT_EQ(resident_bytes(frames), 4 * mib);
}

TEST(FramePool, FreeFramesAreEmptiedForCopiesSeveralAtOnce) {
  FramePool pool(20 * FramePool::cost(4 * kib), 64 * mib, 1);
  FrameArena& frames = arena(pool, 4 * kib);
  const std::vector<FrameId> taken = take_and_write_all(pool, frames);
  ASSERT_EQ(taken.size(), 20U);
  for (const FrameId frame : taken) {
    pool.give_back(frame, true);
  }
  FrameId data = no_frame;
  FrameId token = no_frame;
  ASSERT_TRUE(pool.try_take_two(frames, data, token));
  EXPECT_TRUE(pool.record(data).populated);
  EXPECT_FALSE(pool.record(token).populated);
  EXPECT_LE(resident_bytes(frames), 15 * 4 * kib);
  EXPECT_LE(pool.committed_bytes(), pool.budget_bytes());
  EXPECT_EQ(pool.available_bytes(), 18 * FramePool::cost(4 * kib));
}

TEST(FramePool, ReleaseGivesTheMemoryToTheKernel) {
  FramePool pool(1 * mib, 64 * mib, 1);
  FrameArena& frames = arena(pool, 64 * kib);
  const FrameId frame = pool.try_take(frames);
  write_to(pool, frame);
  EXPECT_GE(resident_bytes(frames), block_bytes);
  pool.release(frame);
  EXPECT_EQ(resident_bytes(frames), 0U);
  EXPECT_EQ(pool.committed_bytes(), 0U);
}

TEST(FramePool, TheMemoryOfFreeFramesGoesToTheKernelIfAsked) {
  FramePool pool(20 * FramePool::cost(64 * kib), 64 * mib, 1);
  FrameArena& frames = arena(pool, 64 * kib);
  const std::vector<FrameId> taken = take_and_write_all(pool, frames);
  ASSERT_EQ(taken.size(), 20U);
  for (const FrameId frame : taken) {
    pool.give_back(frame, true);
  }
  pool.release_free(frames, 13);
  EXPECT_EQ(resident_bytes(frames), 7 * block_bytes);
  EXPECT_EQ(pool.committed_bytes(), 7 * FramePool::cost(64 * kib));
  pool.release_free(frames, 13);
  EXPECT_EQ(resident_bytes(frames), 0U);
  EXPECT_EQ(pool.committed_bytes(), 0U);
  EXPECT_EQ(take_and_write_all(pool, frames).size(), 20U);
}

TEST(FramePool, ShrinkingDropsFreeFramesAtOnceAndHeldOnesWhenTheyComeBack) {
  FramePool pool(16 * FramePool::cost(64 * kib), 64 * mib, 1);
  FrameArena& frames = arena(pool, 64 * kib);
  const std::vector<FrameId> taken = take_and_write_all(pool, frames);
  for (std::size_t number = 0; number < 8; ++number) {
    pool.give_back(taken[number], true);
  }
  pool.set_budget_bytes(4 * FramePool::cost(64 * kib));
  EXPECT_EQ(pool.committed_bytes(), 8 * FramePool::cost(64 * kib));
  EXPECT_EQ(pool.available_bytes(), 0U);
  EXPECT_EQ(pool.try_take(frames), no_frame);
  for (std::size_t number = 8; number < 12; ++number) {
    pool.give_back(taken[number], true);
  }
  EXPECT_EQ(pool.committed_bytes(), 4 * FramePool::cost(64 * kib));
  EXPECT_LE(resident_bytes(frames), 4 * 64 * kib);
  pool.set_budget_bytes(16 * FramePool::cost(64 * kib));
  EXPECT_NE(pool.try_take(frames), no_frame);
}

TEST(FramePool, ShardsHaveArenasOfTheirOwn) {
  FramePool pool(1 * mib, 64 * mib, 2);
  FrameArena& one = arena(pool, 64 * kib, 0);
  FrameArena& other = arena(pool, 64 * kib, 1);
  EXPECT_NE(&one, &other);
  EXPECT_EQ(&arena(pool, 64 * kib, 1), &other);
  EXPECT_EQ(other.shard, 1U);
  EXPECT_NE(pool.try_take(one), pool.try_take(other));
}

TEST(FramePool, AnArenaThatCannotBeRegisteredIsNotThere) {
  FramePool pool(1 * mib, 64 * mib, 1);
  EXPECT_THROW(pool.arena(64 * kib, 0, [](void*, std::size_t) { throw 1; }), int);
  bool registered = false;
  pool.arena(64 * kib, 0, [&](void*, std::size_t) { registered = true; });
  EXPECT_TRUE(registered);
}

// Where the kernel tells (root only): how often the next page in address order is not the next one in physical memory.
std::optional<std::size_t> physical_breaks(const std::byte* memory, std::size_t pages) {
  std::vector<std::uint64_t> entries(pages);
  const int file = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto offset = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(memory) / block_bytes * 8);
  const ssize_t got = ::pread(file, entries.data(), pages * 8, offset);
  ::close(file);
  constexpr std::uint64_t frame_number = (std::uint64_t{1} << 55U) - 1;
  if (got != static_cast<ssize_t>(pages * 8) || (entries[0] & frame_number) == 0) {
    return std::nullopt;
  }
  std::size_t breaks = 0;
  for (std::size_t page = 1; page < pages; ++page) {
    breaks += (entries[page] & frame_number) != (entries[page - 1] & frame_number) + 1 ? 1U : 0U;
  }
  return breaks;
}

TEST(FramePool, AChunkIsOnePieceOfPhysicalMemory) {
  FramePool pool(8 * mib, 64 * mib, 1, true);
  FrameArena& frames = arena(pool, 64 * kib);
  const FrameId first = pool.try_take(frames);
  ASSERT_NE(first, no_frame);
  EXPECT_EQ(pool.address(first), frames.memory.data());
  EXPECT_EQ(pool.committed_bytes(), 32 * FramePool::cost(64 * kib));
  EXPECT_EQ(resident_bytes(frames), 2 * mib);
  // The next one is its neighbour, so that what is read into both is one piece too.
  EXPECT_EQ(pool.address(pool.try_take(frames)), frames.memory.data() + 64 * kib);
  const std::optional<std::size_t> breaks = physical_breaks(frames.memory.data(), 512);
  if (!breaks.has_value()) {
    GTEST_SKIP() << "physical addresses are for root to see";
  }
  EXPECT_LT(*breaks, 8U) << "the kernel had no huge page to give, or took it apart";
}

TEST(FramePool, FramesOfAChunkGoBackToTheKernelOneByOne) {
  FramePool pool(8 * mib, 64 * mib, 1, true);
  FrameArena& frames = arena(pool, 64 * kib);
  const FrameId first = pool.try_take(frames);
  const FrameId second = pool.try_take(frames);
  pool.release(first);
  EXPECT_EQ(resident_bytes(frames), 2 * mib - 64 * kib);
  EXPECT_EQ(pool.committed_bytes(), 31 * FramePool::cost(64 * kib));
  pool.release(second);
  EXPECT_EQ(resident_bytes(frames), 2 * mib - 2 * 64 * kib);
  pool.set_budget_bytes(FramePool::cost(64 * kib));
  EXPECT_EQ(resident_bytes(frames), 64 * kib);
}

TEST(FramePool, ChunksAreOnlyForABudgetWithRoomForAWholeOne) {
  FramePool pool(37 * FramePool::cost(64 * kib) + 5, 64 * mib, 1, true);
  FrameArena& frames = arena(pool, 64 * kib);
  std::vector<FrameId> taken;
  for (FrameId frame = pool.try_take(frames); frame != no_frame; frame = pool.try_take(frames)) {
    EXPECT_LE(pool.committed_bytes(), pool.budget_bytes());
    taken.push_back(frame);
  }
  EXPECT_EQ(taken.size(), 37U);
  EXPECT_EQ(pool.available_bytes(), 5U);
  EXPECT_EQ(resident_bytes(frames), 2 * mib);
  FramePool small(31 * FramePool::cost(64 * kib), 64 * mib, 1, true);
  EXPECT_NE(small.try_take(arena(small, 64 * kib)), no_frame);
  EXPECT_EQ(small.committed_bytes(), FramePool::cost(64 * kib));
}

void threads_of_different_sizes_stay_in_budget(bool contiguous) {
  const std::uint64_t budget = contiguous ? 6 * mib : 2 * mib;
  FramePool pool(budget, 64 * mib, 1, contiguous);
  const std::vector<std::uint64_t> sizes = {4 * kib, 16 * kib, 64 * kib};
  std::vector<FrameArena*> arenas;
  for (const std::uint64_t size : sizes) {
    arenas.push_back(&arena(pool, size));
  }
  std::atomic<std::uint64_t> over{0};
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random(number);
      std::vector<FrameId> held;
      for (int step = 0; step < 5000; ++step) {
        if (held.empty() || random() % 3 != 0) {
          const FrameId frame = pool.try_take(*arenas[number]);
          if (frame != no_frame) {
            // A frame is one holder's: nobody else writes here meanwhile.
            *pool.address(frame) = static_cast<std::byte>(number);
            pool.record(frame).populated = true;
            held.push_back(frame);
          }
        }
        if (!held.empty() && (held.size() > 100 || random() % 3 == 0)) {
          EXPECT_EQ(*pool.address(held.back()), static_cast<std::byte>(number));
          random() % 2 == 0 ? pool.give_back(held.back(), true) : pool.release(held.back());
          held.pop_back();
        }
        over += pool.committed_bytes() > budget ? 1U : 0U;
      }
      for (const FrameId frame : held) {
        pool.release(frame);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(over.load(), 0U);
  std::uint64_t resident = 0;
  for (const FrameArena* frames : arenas) {
    resident += resident_bytes(*frames);
  }
  EXPECT_LE(resident, budget);
}

TEST(FramePool, ThreadsOfDifferentSizesNeverPassTheBudget) {
  threads_of_different_sizes_stay_in_budget(false);
}

TEST(FramePool, NorDoThoseThatGetChunks) {
  threads_of_different_sizes_stay_in_budget(true);
}

}  // namespace
}  // namespace tiermap
