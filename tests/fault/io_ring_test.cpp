// Many reads and writes from one thread: what completes, short ones, errors.
#include "platform/io_ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

class IoRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = ::open((directory_ / "data").c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_GE(file_, 0);
    std::string content(10'000, ' ');
    for (std::size_t index = 0; index < content.size(); ++index) {
      content[index] = static_cast<char>('a' + index % 26);
    }
    ASSERT_EQ(::pwrite(file_, content.data(), content.size(), 0), 10'000);
  }
  void TearDown() override { ::close(file_); }
  static std::map<std::uint64_t, std::int64_t> finish(IoRing& ring) {
    std::map<std::uint64_t, std::int64_t> results;
    while (ring.in_flight() > 0) {
      for (const IoRing::Completion& completion : ring.reap(1)) {
        EXPECT_TRUE(results.emplace(completion.token, completion.result).second) << "completed twice";
      }
    }
    return results;
  }

  TemporaryDirectory directory_{"/dev/shm"};
  int file_ = -1;
};

TEST_F(IoRingTest, ReadsIntoTheirBuffersInAnyOrder) {
  IoRing ring(8);
  std::vector<std::vector<char>> buffers(8, std::vector<char>(100));
  std::vector<iovec> vectors(8);
  for (std::uint64_t number = 0; number < 8; ++number) {
    EXPECT_FALSE(ring.full());
    vectors[number] = {buffers[number].data(), 100};
    ring.read(file_, {&vectors[number], 1}, number * 1000, number);
  }
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.in_flight(), 8U);
  const auto results = finish(ring);
  ASSERT_EQ(results.size(), 8U);
  for (std::uint64_t number = 0; number < 8; ++number) {
    EXPECT_EQ(results.at(number), 100);
    EXPECT_EQ(buffers[number][7], static_cast<char>('a' + (number * 1000 + 7) % 26));
  }
}

TEST_F(IoRingTest, GathersAndScatters) {
  IoRing ring(2);
  std::string one = "one";
  std::string other = "other";
  std::vector<iovec> out = {{one.data(), 3}, {other.data(), 5}};
  ring.write(file_, out, 500, 1);
  EXPECT_EQ(finish(ring).at(1), 8);
  std::string first(4, ' ');
  std::string second(4, ' ');
  std::vector<iovec> in = {{first.data(), 4}, {second.data(), 4}};
  ring.read(file_, in, 500, 2);
  EXPECT_EQ(finish(ring).at(2), 8);
  EXPECT_EQ(first + second, "oneother");
}

TEST_F(IoRingTest, AReadAcrossTheEndIsShortAndBehindItNothing) {
  IoRing ring(2);
  std::vector<char> buffer(1000);
  iovec vector{buffer.data(), 1000};
  ring.read(file_, {&vector, 1}, 9'900, 1);
  EXPECT_EQ(finish(ring).at(1), 100);
  ring.read(file_, {&vector, 1}, 20'000, 2);
  EXPECT_EQ(finish(ring).at(2), 0);
}

TEST_F(IoRingTest, ErrorsAreNegativeErrnoValues) {
  IoRing ring(4);
  char byte = 0;
  iovec vector{&byte, 1};
  ring.read(-1, {&vector, 1}, 0, 1);
  const int read_only = ::open((directory_ / "data").c_str(), O_RDONLY);
  ring.write(read_only, {&vector, 1}, 0, 2);
  iovec nowhere{nullptr, 100};
  ring.read(file_, {&nowhere, 1}, 0, 3);
  const auto results = finish(ring);
  EXPECT_EQ(results.at(1), -EBADF);
  EXPECT_EQ(results.at(2), -EBADF);
  EXPECT_EQ(results.at(3), -EFAULT);
  ::close(read_only);
}

TEST_F(IoRingTest, ReapOfNothingReturnsAtOnce) {
  IoRing ring(4);
  EXPECT_TRUE(ring.reap(5).empty());
  char byte = 0;
  iovec vector{&byte, 1};
  ring.read(file_, {&vector, 1}, 0, 1);
  EXPECT_EQ(ring.reap(100).size(), 1U) << "no more than there is can be waited for";
}

TEST_F(IoRingTest, ThousandsOfRequestsThroughASmallRing) {
  IoRing ring(4);
  std::vector<char> bytes(4000);
  std::vector<iovec> vectors(4000);
  std::size_t completed = 0;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    while (ring.full()) {
      completed += ring.reap(1).size();
    }
    vectors[number] = {&bytes[number], 1};
    ring.read(file_, {&vectors[number], 1}, number, number);
  }
  completed += finish(ring).size();
  EXPECT_EQ(completed, 4000U);
  for (std::uint64_t number = 0; number < 4000; ++number) {
    ASSERT_EQ(bytes[number], static_cast<char>('a' + number % 26));
  }
}

TEST_F(IoRingTest, DestructionWaitsForWhatIsInFlight) {
  std::vector<char> buffer(5000, '-');
  iovec vector{buffer.data(), buffer.size()};
  {
    IoRing ring(4);
    ring.read(file_, {&vector, 1}, 0, 1);
  }
  EXPECT_EQ(buffer.back(), static_cast<char>('a' + 4999 % 26));
}

// The kernel gives it the same addresses, of which ThreadSanitizer sees neither that they were left nor that they are
// new: it took the two for racing.
TEST_F(IoRingTest, OneMayBeWhereAnotherThreadHadOne) {
  std::atomic<bool> left{false};
  std::atomic<bool> done{false};
  const auto use_a_ring = [&] {
    char byte = '-';
    iovec vector{&byte, 1};
    IoRing ring(4);
    ring.read(file_, {&vector, 1}, 3, 1);
    EXPECT_EQ(finish(ring).at(1), 1);
    EXPECT_EQ(byte, 'd');
  };
  std::thread first([&] {
    use_a_ring();
    left.store(true, std::memory_order_relaxed);  // Which puts the threads in no order.
    while (!done.load(std::memory_order_relaxed)) {
    }
  });
  std::thread second([&] {
    while (!left.load(std::memory_order_relaxed)) {
    }
    use_a_ring();
    done.store(true, std::memory_order_relaxed);
  });
  first.join();
  second.join();
}

}  // namespace
}  // namespace tiermap
