// The files of a heap on a sparse store: which there have to be is known, and one that somebody took away is missed.
#include "heap/damaged_heap.hpp"

#include <cstring>
#include <filesystem>

#include "heap/heap_copy.hpp"
#include "store/file_descriptor.hpp"

namespace tiermap {
namespace {

class HeapSegmentsTest : public FilledHeapTest {
 protected:
  static constexpr std::uint64_t segment_bytes = 256 << 20;

  static HeapOptions wide(bool checkpoints = true) {
    HeapOptions options = small();
    options.capacity_bytes = std::uint64_t{2} << 30;
    options.backing = HeapBacking::sparse;
    options.checkpoints = checkpoints;
    return options;
  }
  std::string segment(const std::string& heap, int number) const {
    return heap + "/data/segment-000000000" + std::to_string(number);
  }
  /// Something at the end of a block that is as long as a segment, and a block that nothing is written to.
  static void fill(Heap& heap) {
    static_cast<std::uint64_t*>(heap.allocate(segment_bytes))[segment_bytes / 8 - 1] = 42;
    heap.allocate(2 * segment_bytes);
  }
  void make(bool checkpoints, bool killed) const {
    in_killed_process([&] {
      Heap& heap = *new Heap(Heap::create(path_, wide(checkpoints)));
      fill(heap);
      killed ? heap.checkpoint() : heap.close();
    });
  }
};

TEST_F(HeapSegmentsTest, one_that_was_deleted_or_emptied_is_missed_by_everybody) {
  for (const auto& [checkpoints, killed] : {std::pair(true, false), std::pair(true, true), std::pair(false, false)}) {
    make(checkpoints, killed);
    EXPECT_NO_THROW(Heap::open_read_only(path_, wide(checkpoints)));
    EXPECT_TRUE(Heap::check(path_).sound());
    for (const bool emptied : {false, true}) {
      std::filesystem::remove(segment(path_, 1));
      if (emptied) {
        FileDescriptor(::open(segment(path_, 1).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
      }
      const std::string what =
          emptied ? "segment-0000000001 of its data has 0 bytes" : "segment-0000000001 of its data is missing";
      EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, wide(checkpoints)); }), what));
      EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_read_only(path_, wide(checkpoints)); }), what));
      EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::consistent(path_); }), what));
      const HeapCheck check = Heap::check(path_);
      ASSERT_EQ(check.findings.size(), 1U);
      EXPECT_EQ(check.findings.front().byte, segment_bytes);
      EXPECT_EQ(std::filesystem::exists(segment(path_, 1)), emptied);
    }
    salvage_heap(path_, copy_);
    EXPECT_EQ(Heap::open(copy_, wide()).statistics().live_blocks, 2U);
    EXPECT_TRUE(Heap::remove(copy_));
    EXPECT_TRUE(Heap::remove(path_));
  }
}

/// Of the heap a segment is there and all hole; of its snapshot it is not.
TEST_F(HeapSegmentsTest, of_a_snapshot_are_its_own) {
  Heap heap = Heap::create(path_, wide());
  heap.snapshot(copy_);
  void* const block = heap.allocate(segment_bytes);
  std::memset(static_cast<char*>(block) + segment_bytes - 4096, 1, 4096);
  heap.checkpoint();
  heap.deallocate(block);
  heap.update_snapshot(copy_);
  ASSERT_TRUE(std::filesystem::exists(segment(path_, 1)));
  ASSERT_FALSE(std::filesystem::exists(segment(copy_, 1)));
  EXPECT_TRUE(Heap::check(copy_).sound());
  EXPECT_NO_THROW(Heap::open(copy_, wide()).close());
  heap.close();
  EXPECT_TRUE(Heap::check(path_).sound());
}

}  // namespace
}  // namespace tiermap
