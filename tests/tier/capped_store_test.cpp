// A store behind tiers that likes to be asked for little at once: as many threads as come wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "store/forwarding_store.hpp"
#include "store/memory_store.hpp"
#include "tier/tiered_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t blocks = 64;

/// Counts how many calls there are at once, each of which takes a while.
class CountingStore final : public ForwardingStore {
 public:
  CountingStore() : ForwardingStore(std::make_shared<MemoryStore>(blocks * block_bytes)) {}
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return counted(reads_, most_reads, [&] { return base_->read(buffer, bytes, offset); });
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return counted(writes_, most_writes, [&] { return base_->write(buffer, bytes, offset); });
  }
  std::uint32_t max_reads_in_flight() const override { return 3; }
  std::uint32_t max_writes_in_flight() const override { return 2; }

  std::atomic<int> most_reads{0};
  std::atomic<int> most_writes{0};

 private:
  template <typename Call>
  static std::int64_t counted(std::atomic<int>& now, std::atomic<int>& most, Call&& call) {
    const int here = ++now;
    for (int before = most; before < here && !most.compare_exchange_weak(before, here);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::int64_t done = call();
    --now;
    return done;
  }
  std::atomic<int> reads_{0};
  std::atomic<int> writes_{0};
};

TEST(CappedStoreTest, no_more_is_asked_at_once_than_it_likes) {
  const auto behind = std::make_shared<CountingStore>();
  TieringOptions options;
  options.block_bytes = block_bytes;
  options.organize_seconds = 0.001;  // Reads and writes, too.
  options.write_down_seconds = 0.001;
  options.tiers.resize(1);
  options.tiers[0].name = "dram";
  options.tiers[0].capacity_bytes = 4 * block_bytes;
  TieredStore store(behind, options);
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<char> block(block_bytes, 'x');
      for (std::uint64_t number = thread; number < blocks; number += 8) {
        EXPECT_EQ(store.read(block.data(), block_bytes, number * block_bytes), static_cast<std::int64_t>(block_bytes));
        EXPECT_EQ(store.write(block.data(), 100, number * block_bytes), 100);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(store.flush(), 0);
  EXPECT_LE(behind->most_reads, 3);
  EXPECT_LE(behind->most_writes, 2);
}

}  // namespace
}  // namespace tiermap
