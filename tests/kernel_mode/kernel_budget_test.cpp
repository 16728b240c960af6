// How near to its budget fault mode kernel keeps what is mapped, as the kernel counts it.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "kernel_mode/kernel_cache.hpp"
#include "platform/populate.hpp"
#include "platform/present_pages.hpp"

namespace tiermap {
namespace {

using KernelBudgetTest = KernelModeTest;

/// Looks at the process twice a millisecond. What the process maps besides (libraries) is taken off.
class PeakMapped {
 public:
  PeakMapped() : before_(process_file_bytes()), thread_([this] { watch(); }) {}
  ~PeakMapped() {
    stop_ = true;
    thread_.join();
  }
  std::uint64_t bytes() const { return peak_; }

 private:
  void watch() {
    while (!stop_) {
      const std::uint64_t now = process_file_bytes();
      peak_ = std::max(peak_.load(), now - std::min(now, before_));
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
  const std::uint64_t before_;
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// What is resident comes under `bytes` soon after the program rests.
bool settles_under(const Cache& cache, std::uint64_t bytes) {
  for (int look = 0; look < 500; ++look) {
    if (cache.statistics().resident_bytes <= bytes) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(KernelBudgetTest, WritingEightTimesTheBudgetStaysNearIt) {
  constexpr std::uint64_t budget = 64 * mebibyte;
  Cache cache(kernel_options(budget));
  Region region = cache.map(path(), writable(8 * budget));
  const auto words = region.as_span<std::uint64_t>();
  const PeakMapped peak;
  for (std::size_t word = 0; word < words.size(); ++word) {
    words[word] = word;
  }
  // docs/how-to/kernel-mode.md: about the budget for a program that works at a disk's speed, at most twice on a machine
  // that does nothing else. Eight times would be no budget at all; three allows for tests that run beside this one.
  EXPECT_LT(peak.bytes(), 3 * budget);
  EXPECT_GT(peak.bytes(), budget / 2);
  EXPECT_TRUE(settles_under(cache, budget));
  for (std::size_t word = 0; word < words.size(); word += 1021) {
    ASSERT_EQ(words[word], word);
  }
}

TEST_F(KernelBudgetTest, SeveralRegionsShareOneBudget) {
  constexpr std::uint64_t budget = 8 * mebibyte;
  Cache cache(kernel_options(budget));
  std::vector<Region> regions;
  for (int index = 0; index < 4; ++index) {
    regions.push_back(cache.map(path() + std::to_string(index), writable(budget)));
    std::fill_n(regions.back().data(), budget, std::byte{1});
  }
  EXPECT_TRUE(settles_under(cache, budget));
  std::uint64_t resident = 0;
  for (const Region& region : regions) {
    resident += region.statistics().resident_bytes;
  }
  EXPECT_LE(resident, budget);
}

TEST_F(KernelBudgetTest, TheBudgetChangesAtOnceUnlessPinsStandInTheWay) {
  Cache cache(kernel_options(16 * mebibyte));
  Region region = cache.map(path(), writable(16 * mebibyte));
  region.pin({0, 4 * mebibyte});
  std::fill_n(region.data(), region.size(), std::byte{1});
  cache.set_budget_bytes(6 * mebibyte);
  EXPECT_EQ(cache.budget_bytes(), 6 * mebibyte);
  EXPECT_LE(cache.statistics().resident_bytes, 6 * mebibyte);
  EXPECT_THROW(cache.set_budget_bytes(2 * mebibyte), Error);
  EXPECT_EQ(cache.budget_bytes(), 6 * mebibyte);
  EXPECT_THROW(cache.set_budget_bytes(cache.minimum_budget_bytes() - 1), OptionError);
  EXPECT_THROW(Cache(kernel_options(65536)), OptionError);
}

TEST_F(KernelBudgetTest, AStoreIsLeftAloneOnceItsRegionIsUnmapped) {
  const std::string url = "sparse:" + path() + "?segment=16MiB&capacity=16MiB";
  open_store(url, OpenMode::create)->write("a", 1, 0);  // So that the segment is there.
  Cache cache(kernel_options(mebibyte));
  for (int round = 0; round < 2; ++round) {
    std::shared_ptr<Store> store = open_store(url, OpenMode::read_write);
    Region region = cache.map(store, writable(16 * mebibyte));
    store.reset();
    std::fill_n(region.data(), region.size(), static_cast<std::byte>(round));
    if (round == 0) {
      region.unmap();
    } else {
      region = Region();
    }
    // Which is refused where the store is open still.
    ASSERT_NO_THROW(open_store(url, OpenMode::read_write)) << round;
  }
}

TEST_F(KernelBudgetTest, BothWaysOfAskingForPresentPagesAgree) {
  constexpr std::size_t bytes = 6 * mebibyte;
  void* raw = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(raw, MAP_FAILED);
  auto* memory = static_cast<std::byte*>(raw);
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (const std::size_t page : {0U, 1U, 5U, 511U, 512U, 1300U, 1535U}) {
    memory[page * 4096] = std::byte{1};
  }
  for (const bool may_scan : {true, false}) {
    const PresentPages present(may_scan);
    std::vector<PageRun> runs;
    EXPECT_EQ(present.find(memory, bytes, bytes, true, runs), bytes);
    ASSERT_EQ(runs.size(), 5U) << may_scan;
    EXPECT_EQ(runs[0].offset, 0U);
    EXPECT_EQ(runs[0].bytes, 8192U);
    EXPECT_EQ(runs[2].offset, 511U * 4096);
    EXPECT_EQ(runs[2].bytes, 8192U);
    EXPECT_EQ(present.count(memory, bytes), 7U * 4096);
    EXPECT_EQ(present.count(memory, bytes, false), 0U);
    runs.clear();
    const std::uint64_t looked = present.find(memory, bytes, 3 * 4096, true, runs);
    EXPECT_GE(looked, 6U * 4096);
    EXPECT_LE(looked, 511U * 4096);
    EXPECT_EQ(runs.back().offset, 5U * 4096);
  }
  ::munmap(raw, bytes);
}

TEST_F(KernelBudgetTest, PopulatesOnOldKernelsAndTellsWhatCannotBeRead) {
  write_file(path(), std::string(4 * 4096, 'x'));
  Cache cache(kernel_options(mebibyte));
  const Region region = cache.map(path());
  const PresentPages present;
  for (int (*populate)(std::byte*, std::uint64_t) noexcept : {populate_pages, populate_pages_one_by_one}) {
    ::madvise(region.data(), 4 * 4096, MADV_DONTNEED);
    EXPECT_EQ(populate(region.data(), 4 * 4096), 0);
    EXPECT_EQ(present.count(region.data(), 4 * 4096), 4U * 4096);
  }
  // A file cut while it is mapped.
  std::filesystem::resize_file(path(), 4096);
  EXPECT_EQ(populate_pages(region.data(), 4 * 4096), -EIO);
  EXPECT_EQ(populate_pages_one_by_one(region.data(), 4 * 4096), -EIO);
}

}  // namespace
}  // namespace tiermap
