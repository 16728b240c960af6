// A plugged-in source of hits keeps the pages it vouches for in memory, and never keeps a fault from getting memory.
#include "tiermap/access_source.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page_bytes = 64 << 10;
constexpr std::uint64_t pages = 256;

// Vouches for the first `hot_pages` pages of a region.
class FirstPagesHot final : public AccessSource {
 public:
  explicit FirstPagesHot(std::uint64_t hot_pages) : hot_bytes_(hot_pages * page_bytes) {}
  void watch(const std::byte* start) noexcept { start_.store(start); }
  bool touched(const std::byte* address, std::uint64_t) noexcept override {
    ++questions;
    const std::byte* start = start_.load();
    return start != nullptr && address >= start && address < start + hot_bytes_;
  }
  std::string_view name() const noexcept override { return "first pages hot"; }

  std::atomic<std::uint64_t> questions{0};

 private:
  std::uint64_t hot_bytes_;
  std::atomic<const std::byte*> start_{nullptr};
};

std::uint64_t fills_of_hot_pages_after_scans(const std::shared_ptr<FirstPagesHot>& source, std::uint64_t hot_pages) {
  Cache cache({.budget_bytes = 64 * (page_bytes + 1024),
               .policy = "fifo",
               .publish_statistics = false,
               .access_source = source});
  Region region = cache.map(std::shared_ptr<Store>(open_store("memory:16MiB", OpenMode::create)),
                            {.length = pages * page_bytes, .advice = Advice::random, .page_size_bytes = page_bytes});
  if (source != nullptr) {
    source->watch(region.data());
  }
  const volatile std::byte* bytes = region.data();
  std::uint64_t hot_fills = 0;
  for (int round = 0; round < 4; ++round) {
    const std::uint64_t before = cache.statistics()[Counter::fills];
    for (std::uint64_t page = 0; page < hot_pages; ++page) {
      static_cast<void>(bytes[page * page_bytes]);
    }
    hot_fills += cache.statistics()[Counter::fills] - before;
    for (std::uint64_t page = hot_pages; page < pages; ++page) {
      static_cast<void>(bytes[page * page_bytes]);
      if (page % 8 == 0) {  // A source is not asked while faults wait: the evictors must be able to keep up.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  return hot_fills;
}

TEST(AccessSource, PagesItVouchesForStay) {
  constexpr std::uint64_t hot_pages = 8;
  const auto source = std::make_shared<FirstPagesHot>(hot_pages);
  const std::uint64_t without = fills_of_hot_pages_after_scans(nullptr, hot_pages);
  const std::uint64_t with = fills_of_hot_pages_after_scans(source, hot_pages);
  EXPECT_EQ(without, 4 * hot_pages);  // A scan of four times the memory leaves a FIFO nothing.
  EXPECT_LT(with, without);
  EXPECT_GT(source->questions.load(), 0U);
}

TEST(AccessSource, VouchingForEverythingDoesNotHang) {
  const auto source = std::make_shared<FirstPagesHot>(pages);
  EXPECT_GT(fills_of_hot_pages_after_scans(source, 8), 0U);
}

}  // namespace
}  // namespace tiermap
