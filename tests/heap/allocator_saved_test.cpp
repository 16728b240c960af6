// Saving what changed, and loading it: whole, bit by bit damaged, and where writing fails.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "heap/allocator.hpp"
#include "memory_area.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t capacity = 64 << 20;

// Blocks of all kinds of sizes; every third is freed again.
std::vector<std::uint64_t> fill(Allocator& allocator, int count, std::uint64_t most_bytes, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> blocks;
  for (int index = 0; index < count; ++index) {
    const std::uint64_t block = allocator.allocate(1 + random() % most_bytes);
    EXPECT_NE(block, Allocator::no_block);
    if (index % 3 == 0) {
      allocator.deallocate(block);
    } else {
      blocks.push_back(block);
    }
  }
  return blocks;
}

class SavedAllocator : public testing::Test {
 protected:
  std::map<std::uint64_t, std::uint64_t> saved_blocks() {
    Allocator loaded(area, capacity, Allocator::Content::saved);
    return blocks_of(loaded);
  }

  MemoryArea area;
  Allocator allocator{area, capacity, Allocator::Content::nothing};
};

TEST_F(SavedAllocator, EachSaveIsTheWholeState) {
  allocator.save();
  EXPECT_TRUE(saved_blocks().empty());
  for (std::uint64_t round = 1; round < 8; ++round) {
    const auto blocks = round % 3 == 0 ? fill(allocator, 40, 900'000, round) : fill(allocator, 700, 2000, round);
    allocator.save();
    EXPECT_EQ(saved_blocks(), blocks_of(allocator));
    for (std::size_t index = 0; index < blocks.size(); index += 2) {
      allocator.deallocate(blocks[index]);
    }
    allocator.save();
    EXPECT_EQ(saved_blocks(), blocks_of(allocator));
  }
}

TEST_F(SavedAllocator, ASaveCostsWhatChanged) {
  const auto blocks = fill(allocator, 20000, 3000);
  allocator.save();
  area.written_bytes = 0;
  allocator.save();
  EXPECT_EQ(area.written_bytes, 0U);
  allocator.deallocate(blocks[blocks.size() / 2]);
  allocator.save();
  EXPECT_GT(area.written_bytes, 0U);
  EXPECT_LE(area.written_bytes, metadata_header_bytes + slab_record_bytes + most_bitmap_bytes);
  EXPECT_EQ(saved_blocks(), blocks_of(allocator));
}

TEST_F(SavedAllocator, SlotsInCachesAreFreeInIt) {
  const std::uint64_t block = allocator.allocate(64);
  allocator.save();
  EXPECT_EQ(saved_blocks().size(), 1U);
  allocator.deallocate(block);
  allocator.save();
  Allocator loaded(area, capacity, Allocator::Content::saved);
  EXPECT_EQ(loaded.statistics().free_bytes, capacity - slab_bytes);
}

TEST_F(SavedAllocator, BitsAreReadWhenTheyAreNeeded) {
  const auto blocks = fill(allocator, 3000, 300);
  allocator.save();
  area.reads = 0;
  Allocator loaded(area, capacity, Allocator::Content::saved);
  const std::uint64_t at_once = area.reads;
  EXPECT_LE(at_once, 2U);
  EXPECT_EQ(loaded.statistics().live_blocks, blocks.size());
  EXPECT_EQ(area.reads, at_once);
  loaded.deallocate(blocks[0]);
  EXPECT_EQ(area.reads, at_once + 1);
  for (const std::uint64_t block : blocks) {
    if (block != blocks[0]) {
      loaded.deallocate(block);
    }
  }
  loaded.flush_caches();
  EXPECT_EQ(loaded.statistics().free_bytes, capacity - slab_bytes);
}

TEST_F(SavedAllocator, FreePagesAreGivenBackOnceTheSavedStateDoesWithoutThem) {
  std::vector<std::uint64_t> blocks;
  for (int index = 0; index < 100; ++index) {
    blocks.push_back(allocator.allocate(4096, 4096));
  }
  const std::uint64_t large = allocator.allocate(1 << 20);
  allocator.save();
  allocator.deallocate(blocks[10]);
  allocator.deallocate(large);
  allocator.flush_caches();
  std::map<std::uint64_t, std::uint64_t> given;
  const auto note = [&](std::uint64_t offset, std::uint64_t bytes) { given.emplace(offset, bytes); };
  allocator.give_back(GiveBack::free_when_saved, note);
  // None but slots in caches that were never handed out.
  for (const auto& [offset, bytes] : given) {
    EXPECT_FALSE(offset <= blocks[10] && blocks[10] < offset + bytes);
    EXPECT_LE(offset + bytes, large);
  }
  given.clear();
  allocator.save();
  EXPECT_THROW(allocator.give_back(GiveBack::free_when_saved,
                                   [](std::uint64_t, std::uint64_t) { throw StoreError(EIO, "no holes today"); }),
               StoreError);
  allocator.give_back(GiveBack::free_when_saved, note);
  EXPECT_EQ(given, (std::map<std::uint64_t, std::uint64_t>{{blocks[10], 4096}, {large, 1 << 20}}));
  given.clear();
  allocator.give_back(GiveBack::free_now, note);
  EXPECT_TRUE(given.empty());
}

TEST_F(SavedAllocator, AWriteThatFailsLosesNothing) {
  fill(allocator, 4000, 6000);
  std::uint64_t failures = 0;
  for (bool saved = false; !saved; failures += saved ? 0 : 1) {
    area.writes_left = failures;
    try {
      allocator.save();
      saved = true;
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), ENOSPC);
    }
  }
  EXPECT_GT(failures, 10U);
  EXPECT_EQ(saved_blocks(), blocks_of(allocator));
}

TEST_F(SavedAllocator, OfAnotherCapacityOrVersionOrNoneIsRefused) {
  MemoryArea empty;
  EXPECT_THROW(Allocator(empty, capacity, Allocator::Content::saved), StoreError);
  allocator.save();
  EXPECT_THROW(Allocator(area, 2 * capacity, Allocator::Content::saved), StoreError);
  area.at(8) = std::byte{2};
  try {
    Allocator(area, capacity, Allocator::Content::saved);
    FAIL() << "version 2 was loaded";
  } catch (const StoreError& error) {
    EXPECT_NE(std::string(error.what()).find("version 2"), std::string::npos);
  }
}

TEST_F(SavedAllocator, ARecordOfAnEarlierSaveIsNoticed) {
  fill(allocator, 100, 300);
  allocator.save();
  std::array<std::byte, slab_record_bytes> earlier;
  area.read_record(slab_record_place(0), earlier);
  fill(allocator, 100, 300, 2);
  allocator.save();
  area.write_record(slab_record_place(0), earlier);
  EXPECT_THROW(saved_blocks(), StoreError);
}

TEST_F(SavedAllocator, ADamagedBitmapIsNamedAndOtherSpansGoOn) {
  const std::uint64_t first = allocator.allocate(64);
  for (int index = 0; index < 1500; ++index) {
    (void)allocator.allocate(64);
  }
  allocator.save();
  area.at(metadata_bitmap_place(capacity >> slab_shift, 1)) ^= std::byte{1};
  Allocator loaded(area, capacity, Allocator::Content::saved);
  try {
    loaded.deallocate(first);
    FAIL() << "freed by a damaged bitmap";
  } catch (const StoreError& error) {
    EXPECT_STREQ(error.what(),
                 "heap metadata: the bitmap of the span at slab 1 is damaged: its checksum is wrong: "
                 "restore the heap from a snapshot");
  }
  area.at(metadata_bitmap_place(capacity >> slab_shift, 2)) ^= std::byte{1};
  // This one has free slots: it is come upon once.
  Allocator again(area, capacity, Allocator::Content::saved);
  EXPECT_THROW((void)again.allocate(64), StoreError);
  EXPECT_GE(again.allocate(64), 3 * slab_bytes);
}

// Each byte of a small saved state that is not zero in turn, and a fifth of the others: its lowest bit or all of them.
TEST_F(SavedAllocator, DamageIsRefusedOrOfNoConsequence) {
  fill(allocator, 300, 60);
  (void)allocator.allocate(600'000);
  (void)allocator.allocate(2000);
  allocator.save();
  const auto blocks = blocks_of(allocator);
  int refused = 0;
  int harmless = 0;
  for (const std::uint64_t place : area.written_places()) {
    if (area.at(place) == std::byte{0} && place % 5 != 0) {
      continue;  // Most are nothing but zeros: a sample of these.
    }
    const std::byte flipped = place % 2 == 0 ? std::byte{0xff} : std::byte{1};
    area.at(place) ^= flipped;
    try {
      Allocator loaded(area, capacity, Allocator::Content::saved);
      ASSERT_EQ(blocks_of(loaded), blocks) << "byte " << place;
      ++harmless;
    } catch (const StoreError& error) {
      ASSERT_EQ(std::string(error.what()).rfind("heap metadata: ", 0), 0U) << error.what();
      ASSERT_EQ(std::strchr(error.what(), '\n'), nullptr);
      ++refused;
    }
    area.at(place) ^= flipped;
  }
  EXPECT_GT(refused, 4096 / 5 + 64);
  EXPECT_GT(harmless, 0);
}

}  // namespace
}  // namespace tiermap
