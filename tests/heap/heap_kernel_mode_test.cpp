// Heaps on the kernel's own pages, which is what there is where userfaultfd is refused.
#include <sys/stat.h>

#include "heap/heap_fixture.hpp"

namespace tiermap {
namespace {

class HeapKernelMode : public HeapTest {
 protected:
  static CacheOptions kernel_pages() {
    CacheOptions options;
    options.budget_bytes = 8 << 20;
    options.fault_mode = FaultMode::kernel;
    return options;
  }
  HeapOptions options() {
    HeapOptions options = small();
    options.cache = &cache_;
    options.checkpoints = false;
    return options;
  }
  Cache cache_{kernel_pages()};
};

TEST_F(HeapKernelMode, takes_heaps_without_checkpoints) {
  HeapOptions with_checkpoints = options();
  with_checkpoints.checkpoints = true;
  EXPECT_TRUE(says(refusal<OptionError>([&] { Heap::create(path_, with_checkpoints); }), "fault mode kernel"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  // Before anything is made, so that nothing stays where a program ends by that error.
  EXPECT_TRUE(says(refusal<OptionError>([&] { Heap::create(path_ + "/no/folder", with_checkpoints); }), "fault mode"));
  Heap::create(path_, options()).construct<HeapVector<int>>("many")(1000, 5);
  EXPECT_EQ(Heap::open_read_only(path_, with_checkpoints).find<HeapVector<int>>("many")->at(999), 5);
}

// Whole pages of the region's, changed and then freed: the kernel does not drop them but with the hole.
TEST_F(HeapKernelMode, gives_back_what_is_freed) {
  constexpr int count = 1 << 20;
  {
    Heap heap = Heap::create(path_, options());
    auto& numbers = *heap.construct<HeapVector<int>>("numbers")();
    for (int number = 0; number < count; ++number) {
      numbers.push_back(number);
    }
    ASSERT_NO_THROW(heap.checkpoint());
    for (int number = 0; number < count; ++number) {
      numbers.push_back(number);
    }
    ASSERT_NO_THROW(heap.close());
  }
  struct stat status = {};
  ASSERT_EQ(::stat((path_ + "/data").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 20 << 20);
  const Heap heap = Heap::open_read_only(path_, options());
  const auto& numbers = *heap.find<HeapVector<int>>("numbers");
  ASSERT_EQ(numbers.size(), std::size_t{2} * count);
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    ASSERT_EQ(numbers[index], static_cast<int>(index) % count);
  }
}

}  // namespace
}  // namespace tiermap
