// Tables of which only what is touched costs memory.
#include "platform/lazy_array.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "platform/page_sizes.hpp"

namespace tiermap {
namespace {

TEST(LazyArray, BeginsAsZeros) {
  LazyArray<std::uint32_t> array(5000);
  EXPECT_EQ(array.size(), 5000U);
  EXPECT_EQ(array[4999], 0U);
  array[4999] = 7;
  EXPECT_EQ(array[4999], 7U);
}

// As the kernel maps a ring there, of which ThreadSanitizer sees nothing: it took it for the array.
TEST(LazyArray, HasNothingAnyMoreWhereAnotherThreadMapsSomething) {
  std::atomic<void*> left{nullptr};
  std::atomic<bool> done{false};
  std::thread owner([&] {
    void* address = nullptr;
    {
      LazyArray<std::uint8_t> array(40);
      address = array.data();
    }
    left.store(address, std::memory_order_relaxed);  // Which puts the threads in no order.
    while (!done.load(std::memory_order_relaxed)) {
    }
  });
  std::thread next([&] {
    void* address = nullptr;
    while ((address = left.load(std::memory_order_relaxed)) == nullptr) {
    }
    const long mapped = ::syscall(SYS_mmap, address, kernel_page_bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0L);
    if (mapped == reinterpret_cast<long>(address)) {  // Else somebody else has it by now.
      EXPECT_EQ(static_cast<std::atomic<std::uint32_t>*>(address)->load(), 0U);
      ::syscall(SYS_munmap, address, kernel_page_bytes);
    }
    done.store(true, std::memory_order_relaxed);
  });
  owner.join();
  next.join();
}

}  // namespace
}  // namespace tiermap
