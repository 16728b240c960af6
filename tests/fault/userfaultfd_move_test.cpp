// UFFDIO_MOVE while the kernel looks at the same pages for its own purposes.
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "platform/address_range.hpp"
#include "platform/userfaultfd.hpp"

namespace tiermap {
namespace {

/// Clears the accessed bits of these pages, over and over, as the kernel's own ageing does now and then.
class AccessedBitsCleared {
 public:
  explicit AccessedBitsCleared(std::vector<std::byte*> pages) {
    thread_ = std::thread([this, pages = std::move(pages)] {
      while (!done_.load()) {
        for (std::byte* page : pages) {
          ::madvise(page, 4096, MADV_COLD);
        }
      }
    });
  }
  ~AccessedBitsCleared() {
    done_.store(true);
    thread_.join();
  }
  AccessedBitsCleared(const AccessedBitsCleared&) = delete;
  AccessedBitsCleared& operator=(const AccessedBitsCleared&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Linux 6.18 says EEXIST then of pages that it has moved. They were taken for somebody else's, and dropped.
TEST(UserfaultfdMove, LosesNothingWhileAccessedBitsAreCleared) {
  if ((probe_userfaultfd().features & UFFD_FEATURE_MOVE) == 0) {
    GTEST_SKIP() << "needs UFFDIO_MOVE, which Linux has since 6.8";
  }
  constexpr std::size_t bytes = 16 * 4096;
  const Userfaultfd userfaultfd = Userfaultfd::open(UFFD_FEATURE_MOVE);
  AddressRange here = AddressRange::reserve(bytes, bytes, PROT_READ | PROT_WRITE);
  AddressRange there = AddressRange::reserve(bytes, bytes, PROT_READ | PROT_WRITE);
  for (AddressRange* range : {&here, &there}) {
    ASSERT_EQ(::madvise(range->data(), bytes, MADV_NOHUGEPAGE), 0);
    ASSERT_EQ(userfaultfd.register_range(range->data(), bytes, UFFDIO_REGISTER_MODE_WP), 0);
  }
  std::memset(here.data(), 1, bytes);
  std::vector<std::byte> expected(bytes);
  const AccessedBitsCleared clearing({here.data(), there.data()});
  AddressRange* source = &here;
  AddressRange* destination = &there;
  for (int round = 0; round < 50'000; ++round) {
    std::memset(expected.data(), round % 255 + 1, bytes);
    std::memcpy(source->data(), expected.data(), bytes);
    std::size_t moved = 0;
    std::uint64_t retries = 0;
    ASSERT_EQ(userfaultfd.move(destination->data(), source->data(), bytes, moved, retries), 0) << "round " << round;
    ASSERT_EQ(moved, bytes);
    ASSERT_EQ(std::memcmp(destination->data(), expected.data(), bytes), 0) << "round " << round;
    std::swap(source, destination);
  }
}

}  // namespace
}  // namespace tiermap
