// One thread and the allocator: what it hands out, what it refuses, and what it says of itself.
#include "heap/allocator.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "memory_area.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;

class AllocatorTest : public testing::Test {
 protected:
  /// What deallocate() says of an offset that it has to refuse.
  std::string refusal(std::uint64_t offset) {
    const auto before = blocks_of(allocator);
    try {
      allocator.deallocate(offset);
    } catch (const OptionError& error) {
      EXPECT_EQ(blocks_of(allocator), before);
      EXPECT_THROW(allocator.block_bytes(offset), OptionError);
      return error.what();
    }
    ADD_FAILURE() << "offset " << offset << " was freed";
    return {};
  }

  MemoryArea area;
  Allocator allocator{area, 16 * mebibyte, Allocator::Content::nothing};
};

TEST_F(AllocatorTest, BlocksOfOneSizeAreNeighboursInTheOrderOfTheirAllocation) {
  std::uint64_t last = allocator.allocate(48);
  EXPECT_EQ(last, Allocator::first_offset);
  int neighbours = 0;
  for (int index = 1; index < 1300; ++index) {
    const std::uint64_t block = allocator.allocate(48);
    neighbours += block == last + 48 ? 1 : 0;
    last = block;
  }
  // All, but where this thread was moved to another processor.
  EXPECT_GT(neighbours, 1200);
}

TEST_F(AllocatorTest, ABlockHasTheBytesAskedForAndItsAlignment) {
  for (std::uint64_t alignment = 1; alignment <= mebibyte; alignment *= 2) {
    for (const std::uint64_t bytes : {0U, 1U, 24U, 100U, 4096U, 40000U, 524288U, 524289U, 1000000U}) {
      const std::uint64_t block = allocator.allocate(bytes, alignment);
      ASSERT_NE(block, Allocator::no_block);
      EXPECT_EQ(block % alignment, 0U);
      EXPECT_GE(allocator.block_bytes(block), bytes);
      allocator.deallocate(block);
    }
  }
  EXPECT_THROW((void)allocator.allocate(8, 0), OptionError);
  EXPECT_THROW((void)allocator.allocate(8, 24), OptionError);
}

TEST_F(AllocatorTest, WrongOffsetsAreRefusedByName) {
  const std::uint64_t small = allocator.allocate(100);
  const std::uint64_t other = allocator.allocate(100);
  const std::uint64_t large = allocator.allocate(mebibyte);
  allocator.deallocate(small);
  EXPECT_EQ(refusal(small), "no block begins at offset " + std::to_string(small) +
                                ", which is free: it was freed before, or never handed out; free each block once");
  EXPECT_EQ(refusal(other + 8), "no block begins at offset " + std::to_string(other + 8) +
                                    ", which is inside the block at " + std::to_string(other) +
                                    ": name the block's beginning");
  EXPECT_NE(refusal(other + 112 * 20).find("is free"), std::string::npos);
  EXPECT_NE(refusal(large + 1).find("inside a large block"), std::string::npos);
  EXPECT_NE(refusal(large + slab_bytes).find("inside a large block"), std::string::npos);
  EXPECT_NE(refusal(8 * mebibyte).find("in free space"), std::string::npos);
  EXPECT_NE(refusal(0).find("before the first block"), std::string::npos);
  EXPECT_NE(refusal(17 * mebibyte).find("beyond the heap's capacity"), std::string::npos);
  EXPECT_NE(refusal(~std::uint64_t{0}).find("beyond the heap's capacity"), std::string::npos);
  allocator.deallocate(large);
  EXPECT_NE(refusal(large).find("in free space"), std::string::npos);
  // Once it is available again, too.
  allocator.flush_caches();
  EXPECT_NE(refusal(small).find("is free"), std::string::npos);
  allocator.deallocate(other);
}

TEST_F(AllocatorTest, FullOfSmallBlocksItSaysSoAndAllCanBeHadAgain) {
  for (const std::uint64_t bytes : {8U, 100U, 5000U, 70000U}) {
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t block = allocator.allocate(bytes, 8); block != Allocator::no_block;
         block = allocator.allocate(bytes, 8)) {
      blocks.push_back(block);
    }
    EXPECT_GT(blocks.size() * bytes, 13 * mebibyte);
    EXPECT_EQ(allocator.allocate(mebibyte), Allocator::no_block);
    allocator.deallocate(blocks.back());
    EXPECT_EQ(allocator.allocate(bytes, 8), blocks.back());
    for (const std::uint64_t block : blocks) {
      allocator.deallocate(block);
    }
    // Without a flush: what is in caches and empty spans is found.
    const std::uint64_t all = allocator.allocate(16 * mebibyte - slab_bytes);
    ASSERT_EQ(all, Allocator::first_offset);
    EXPECT_EQ(allocator.allocate(1), Allocator::no_block);
    allocator.deallocate(all);
  }
  EXPECT_EQ(allocator.allocate(16 * mebibyte), Allocator::no_block);
  EXPECT_EQ(allocator.allocate(~std::uint64_t{0}), Allocator::no_block);
}

// A span of blocks of 5000 bytes is 2 slabs, and one of 480 KiB 15 of them.
TEST(AllocatorCapacity, WhereThereIsNoRoomForASpanOneBlockStillFindsItsOwn) {
  for (const auto& [bytes, slabs] : {std::pair<std::uint64_t, std::uint64_t>{5000, 2}, {480 << 10, 9}}) {
    MemoryArea area;
    Allocator allocator(area, slabs * slab_bytes, Allocator::Content::nothing);
    const std::uint64_t block = allocator.allocate(bytes, 16);
    ASSERT_EQ(block, Allocator::first_offset) << bytes;
    EXPECT_GE(allocator.block_bytes(block), bytes);
    EXPECT_EQ(allocator.allocate(bytes, 16), Allocator::no_block);
    allocator.save();
    Allocator again(area, slabs * slab_bytes, Allocator::Content::saved);
    EXPECT_EQ(blocks_of(again), blocks_of(allocator));
    again.deallocate(block);
    EXPECT_THROW(again.deallocate(block), OptionError);
    EXPECT_EQ(again.statistics().free_bytes, (slabs - 1) * slab_bytes);
    EXPECT_EQ(again.allocate(bytes, 16), block);
  }
}

TEST_F(AllocatorTest, StatisticsAddUp) {
  std::vector<std::uint64_t> blocks;
  for (int index = 0; index < 1000; ++index) {
    blocks.push_back(allocator.allocate(100));
  }
  const std::uint64_t large = allocator.allocate(700000);
  AllocatorStatistics statistics = allocator.statistics();
  EXPECT_EQ(statistics.live_blocks, 1001U);
  EXPECT_EQ(statistics.live_bytes, 1000 * 112 + 700000U);
  EXPECT_EQ(statistics.span_bytes, 2 * slab_bytes);
  EXPECT_EQ(statistics.large_blocks, 1U);
  EXPECT_EQ(statistics.large_bytes, 700000U);
  EXPECT_EQ(statistics.large_run_bytes, 11 * slab_bytes);
  EXPECT_EQ(statistics.classes[size_class_for(100, 16)].spans, 2U);
  EXPECT_EQ(statistics.classes[size_class_for(100, 16)].live_blocks, 1000U);
  EXPECT_EQ(statistics.classes[size_class_for(100, 16)].free_slots, 170U);
  EXPECT_EQ(statistics.free_bytes + statistics.span_bytes + statistics.large_run_bytes + slab_bytes, 16 * mebibyte);
  EXPECT_EQ(statistics.largest_free_run_bytes, statistics.free_bytes);
  EXPECT_EQ(statistics.fragmentation(), 0);
  for (const std::uint64_t block : blocks) {
    allocator.deallocate(block);
  }
  allocator.deallocate(large);
  allocator.flush_caches();
  statistics = allocator.statistics();
  EXPECT_EQ(statistics.live_blocks, 0U);
  EXPECT_EQ(statistics.free_bytes, 16 * mebibyte - slab_bytes);
}

TEST_F(AllocatorTest, TwoAllocatorsKnowNothingOfEachOther) {
  MemoryArea other_area;
  Allocator other(other_area, mebibyte, Allocator::Content::nothing);
  const std::uint64_t here = allocator.allocate(64);
  const std::uint64_t there = other.allocate(64);
  EXPECT_EQ(here, there);
  allocator.deallocate(here);
  EXPECT_EQ(blocks_of(other).size(), 1U);
  other.deallocate(there);
  EXPECT_THROW(other.deallocate(there), OptionError);
}

TEST(AllocatorCapacity, WhatCannotBeIsRefusedAndTebibytesCostNothing) {
  MemoryArea area;
  EXPECT_THROW(Allocator(area, 100000, Allocator::Content::nothing), OptionError);
  EXPECT_THROW(Allocator(area, 65ULL << 40, Allocator::Content::nothing), OptionError);
  Allocator large(area, 64ULL << 40, Allocator::Content::nothing);
  EXPECT_EQ(large.allocate(60ULL << 40), Allocator::first_offset);
  EXPECT_NE(large.allocate(1), Allocator::no_block);
  large.save();
  EXPECT_LT(area.written_bytes, 100000U);
  EXPECT_EQ(Allocator::metadata_bytes(64ULL << 40) % 4096, 0U);
}

}  // namespace
}  // namespace tiermap
