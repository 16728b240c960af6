// Messages of a userfaultfd come several at a time, as many as there is room for.
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "platform/address_range.hpp"
#include "platform/userfaultfd.hpp"

namespace tiermap {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t threads = 7;

/// Messages that nobody has read yet, as the kernel counts them.
std::size_t unread(const Userfaultfd& userfaultfd) {
  std::ifstream information("/proc/self/fdinfo/" + std::to_string(userfaultfd.file_descriptor()));
  std::string word;
  std::size_t count = 0;
  while (information >> word && word != "pending:") {
  }
  information >> count;
  return count;
}

/// Waits for them at most ten seconds.
bool comes_to(const Userfaultfd& userfaultfd, std::size_t count) {
  for (int attempt = 0; attempt < 5000 && unread(userfaultfd) != count; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return unread(userfaultfd) == count;
}

/// Threads that each touch a page of their own, which nobody serves before this object ends.
class FaultingThreads {
 public:
  FaultingThreads(const Userfaultfd& userfaultfd, std::byte* memory) : userfaultfd_(userfaultfd), memory_(memory) {
    for (std::size_t number = 0; number < threads; ++number) {
      threads_.emplace_back([this, number] {
        const std::byte found = *static_cast<const volatile std::byte*>(memory_ + number * page);
        EXPECT_EQ(found, std::byte{7});
      });
    }
  }
  ~FaultingThreads() {
    const std::vector<std::byte> content(threads * page, std::byte{7});
    EXPECT_EQ(userfaultfd_.copy(memory_, content.data(), content.size(), false), 0);
    EXPECT_EQ(userfaultfd_.wake(memory_, content.size()), 0);
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  FaultingThreads(const FaultingThreads&) = delete;
  FaultingThreads& operator=(const FaultingThreads&) = delete;

 private:
  const Userfaultfd& userfaultfd_;
  std::byte* memory_;
  std::vector<std::thread> threads_;
};

TEST(UserfaultfdMessages, AreReadAsManyAsThereIsRoomFor) {
  if (!probe_userfaultfd().available) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  const Userfaultfd userfaultfd = Userfaultfd::open(0);
  const AddressRange range = AddressRange::reserve(threads * page, page, PROT_READ | PROT_WRITE);
  ASSERT_EQ(userfaultfd.register_range(range.data(), range.size(), UFFDIO_REGISTER_MODE_MISSING), 0);
  const FaultingThreads faulting(userfaultfd, range.data());
  ASSERT_TRUE(comes_to(userfaultfd, threads));
  std::array<uffd_msg, 3> messages{};
  std::set<std::uint64_t> addresses;
  for (const std::int64_t count : {3, 3, 1}) {
    ASSERT_EQ(userfaultfd.read_messages(messages), count);
    for (std::size_t number = 0; number < static_cast<std::size_t>(count); ++number) {
      EXPECT_EQ(messages[number].event, UFFD_EVENT_PAGEFAULT);
      addresses.insert(messages[number].arg.pagefault.address);
    }
  }
  EXPECT_EQ(userfaultfd.read_messages(messages), -EAGAIN);
  EXPECT_EQ(addresses.size(), threads) << "one message for each page";
  EXPECT_EQ(*addresses.begin(), reinterpret_cast<std::uint64_t>(range.data()));
}

}  // namespace
}  // namespace tiermap
