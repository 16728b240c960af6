// How much is lost to the sizes of slots, for every size there is.
#include "heap/size_classes.hpp"

#include <gtest/gtest.h>

#include "heap/metadata_records.hpp"

namespace tiermap {
namespace {

TEST(SizeClasses, SlotsGrowAndNoBlockWastesMoreThanANinthOfItsSlot) {
  unsigned expected = 0;
  for (std::uint64_t bytes = 1; bytes <= largest_slot_bytes; ++bytes) {
    expected += bytes > size_classes[expected].bytes ? 1U : 0U;
    const unsigned index = size_class_for(bytes, 1);
    ASSERT_EQ(index, expected) << bytes;
    const std::uint64_t slot = size_classes[index].bytes;
    ASSERT_GE(slot, bytes);
    ASSERT_LE(slot - bytes, bytes < 64 ? 7 : slot / 9) << bytes;
  }
  EXPECT_EQ(expected, size_class_count - 1);
  EXPECT_EQ(size_class_for(largest_slot_bytes + 1, 1), no_size_class);
  EXPECT_EQ(size_class_for(0, 1), 0U);
}

TEST(SizeClasses, LargerBlocksWasteNoMoreThanANinthOfTheirSlabs) {
  for (std::uint64_t bytes = largest_slot_bytes + 1; bytes <= 64 * slab_bytes; bytes += 8) {
    const std::uint64_t run = SavedSlab{SlabContent::large_block, 0, 0, bytes}.length() * slab_bytes;
    ASSERT_GE(run, bytes);
    ASSERT_LE((run - bytes) * 9, run) << bytes;
  }
}

TEST(SizeClasses, AlignedSlotsAreTheSmallestThatAreAligned) {
  for (std::uint64_t alignment = 1; alignment <= slab_bytes; alignment *= 2) {
    for (std::uint64_t bytes = 1; bytes <= largest_slot_bytes; bytes += bytes < 5000 ? 1 : 509) {
      const unsigned index = size_class_for(bytes, alignment);
      ASSERT_LT(index, size_class_count);
      ASSERT_GE(size_classes[index].bytes, bytes);
      ASSERT_EQ(size_classes[index].bytes % alignment, 0U) << bytes << " aligned to " << alignment;
      for (unsigned smaller = size_class_for(bytes, 1); smaller < index; ++smaller) {
        ASSERT_NE(size_classes[smaller].bytes % alignment, 0U) << bytes << " aligned to " << alignment;
      }
    }
  }
  EXPECT_EQ(size_class_for(8, 2 * slab_bytes), no_size_class);
}

TEST(SizeClasses, SpansLoseLittleAtTheirEndAndFitTheirTables) {
  for (const SizeClass& size : size_classes) {
    const std::uint64_t span = size.slabs * slab_bytes;
    EXPECT_LE(size.slabs, most_span_slabs);
    EXPECT_LE(size.slots, most_span_slots);
    EXPECT_LE(bitmap_bytes(size), most_bitmap_bytes);
    EXPECT_GE(size.slots, 1U);
    EXPECT_LE((span - std::uint64_t{size.slots} * size.bytes) * 32, span) << size.bytes;
  }
}

TEST(SizeClasses, ASlotIsFoundFromItsBeginningAndFromNowhereElse) {
  for (const SizeClass& size : size_classes) {
    for (std::uint32_t slot = 0; slot < size.slots; ++slot) {
      ASSERT_EQ(size.slot_at(std::uint64_t{slot} * size.bytes), slot) << size.bytes;
    }
    for (std::uint64_t distance = 1; distance < size.slabs * slab_bytes; distance += distance % 97 + 1) {
      const bool begins = std::uint64_t{size.slot_at(distance)} * size.bytes == distance;
      ASSERT_EQ(begins, distance % size.bytes == 0) << size.bytes;
    }
  }
}

}  // namespace
}  // namespace tiermap
