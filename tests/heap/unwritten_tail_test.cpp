// What was never used of a heap is not read; what was written is, wherever it is.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "heap/heap_fixture.hpp"
#include "store/unwritten_tail_store.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/statistics.hpp"

namespace tiermap {
namespace {

constexpr std::size_t block = 4096;
using Block = std::array<unsigned char, block>;

class UnwrittenTail : public testing::Test {
 protected:
  /// Bytes that are not zero, so that it shows whether they are read.
  UnwrittenTail() : base_(open_store("memory:1MiB", OpenMode::read_write, 0)), store_(base_, 16 * block) {
    Block ones;
    ones.fill(1);
    for (std::uint64_t at = 0; at < base_->size_bytes(); at += block) {
      EXPECT_EQ(base_->write(ones.data(), block, at), static_cast<std::int64_t>(block));
    }
  }
  int first_byte(std::uint64_t offset) {
    Block read;
    EXPECT_EQ(store_.read(read.data(), block, offset), static_cast<std::int64_t>(block));
    return read[0];
  }
  const std::shared_ptr<Store> base_;
  UnwrittenTailStore store_;
};

TEST_F(UnwrittenTail, is_not_read) {
  EXPECT_EQ(first_byte(15 * block), 1);
  EXPECT_EQ(first_byte(16 * block), 0);
  EXPECT_EQ(first_byte((1 << 20) - block), 0);
  Extent extent;
  ASSERT_TRUE(store_.locate_read(16 * block, 8 * block, extent));
  EXPECT_TRUE(extent.hole);
  EXPECT_EQ(extent.bytes, 8 * block);
}

TEST_F(UnwrittenTail, a_read_across_its_beginning_stops_there) {
  std::array<unsigned char, 2 * block> read{};
  EXPECT_EQ(store_.read(read.data(), read.size(), 15 * block), static_cast<std::int64_t>(block));
}

TEST_F(UnwrittenTail, shrinks_to_what_is_written) {
  Block twos;
  twos.fill(2);
  EXPECT_EQ(store_.write(twos.data(), block, 30 * block), static_cast<std::int64_t>(block));
  EXPECT_EQ(first_byte(30 * block), 2);
  EXPECT_EQ(first_byte(20 * block), 1);
  EXPECT_EQ(first_byte(31 * block), 0);
  Extent extent;
  store_.locate_write(40 * block, block, extent);
  EXPECT_EQ(first_byte(39 * block), 1);
  EXPECT_EQ(first_byte(41 * block), 0);
}

TEST_F(UnwrittenTail, ends_where_the_base_does) {
  std::array<unsigned char, 2 * block> read{};
  EXPECT_EQ(store_.read(read.data(), read.size(), (1 << 20) - block), static_cast<std::int64_t>(block));
  EXPECT_EQ(store_.read(read.data(), read.size(), 1 << 20), 0);
}

class HeapTail : public HeapTest {};

TEST_F(HeapTail, a_new_heaps_blocks_are_not_read_from_the_disk_and_an_old_ones_are) {
  CacheOptions cache_options;
  cache_options.budget_bytes = 32 << 20;
  Cache cache(cache_options);
  if (cache.fault_mode() == FaultMode::kernel) {
    GTEST_SKIP() << "the kernel reads what it maps";
  }
  HeapOptions options = small();
  options.cache = &cache;
  {
    Heap heap = Heap::create(path_, options);
    char* const bytes = heap.construct<char>("bytes")[8 << 20]('x');
    EXPECT_EQ(bytes[4 << 20], 'x');
    EXPECT_EQ(cache.statistics()[Counter::read_bytes], 0U);
    heap.close();
  }
  const Heap heap = Heap::open(path_, options);
  EXPECT_EQ(heap.find_all<char>("bytes")[4 << 20], 'x');
  EXPECT_GT(cache.statistics()[Counter::read_bytes], 0U);
}

}  // namespace
}  // namespace tiermap
