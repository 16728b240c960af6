// Where memory is short of frames and pages are to be written, the threads that fault on small pages leave the reading
// to fillers, but never to one that may be waiting for them.
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 4 * kib;
constexpr std::uint64_t store_bytes = 4 * mib;
constexpr std::uint64_t pages = store_bytes / page;

constexpr std::byte gated_byte{0x5a};

/// A store that holds every read up until it is told to go on.
class GatedStore final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 8 * page; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t /*offset*/) override {
    ++reading;
    reading.notify_all();
    open_.wait(false);
    std::memset(buffer, std::to_integer<int>(gated_byte), bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::string name() const override { return "gated"; }

  void let_go() {
    open_.store(true);
    open_.notify_all();
  }

  std::atomic<int> reading{0};

 private:
  std::atomic<bool> open_{false};
};

class HandedOverFaults : public testing::Test {
 protected:
  HandedOverFaults() {
    std::ofstream(path_).put('\0');
    std::filesystem::resize_file(path_, store_bytes);
    region_ = cache_.map(open_store("file://" + directory_.encoded() + "/data", OpenMode::read_write), small_pages());
  }
  static CacheOptions self_serving() {
    CacheOptions options;
    options.budget_bytes = 1280 * kib;
    options.fault_mode = FaultMode::self_serving;
    options.publish_statistics = false;
    options.fillers = 1;
    return options;
  }
  static RegionOptions small_pages() {
    RegionOptions options = read_write(page);
    options.advice = Advice::random;
    return options;
  }
  /// Adds 1 to a word of its own in every page by several threads, each in another order.
  void add_to_all(unsigned threads) {
    auto* const words = reinterpret_cast<std::uint64_t*>(region_.data());
    std::vector<std::thread> adding;
    for (unsigned thread = 0; thread < threads; ++thread) {
      adding.emplace_back([words, thread] {
        for (std::uint64_t index = 0; index < pages; ++index) {
          words[(index * 1'021 + std::uint64_t{thread} * 97) % pages * words_of_page + thread] += 1;
        }
      });
    }
    for (std::thread& each : adding) {
      each.join();
    }
  }
  std::uint64_t handed_over() const {
    return region_.statistics().stages[static_cast<std::size_t>(Stage::queue)].count();
  }

  static constexpr std::uint64_t words_of_page = page / sizeof(std::uint64_t);
  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "data";
  Cache cache_{self_serving()};
  Region region_;
};

TEST_F(HandedOverFaults, FillersReadForThreadsThatFindNoFramesAndNothingIsLost) {
  constexpr unsigned threads = 16;
  add_to_all(threads);
  EXPECT_GT(handed_over(), 0U);
  EXPECT_LE(cache_.statistics().resident_bytes, self_serving().budget_bytes);
  region_.sync();
  region_ = Region();
  std::ifstream file(path_, std::ios::binary);
  std::vector<std::uint64_t> read(words_of_page);
  for (std::uint64_t number = 0; number < pages; ++number) {
    file.read(reinterpret_cast<char*>(read.data()), page);
    for (std::uint64_t word = 0; word < words_of_page; ++word) {
      ASSERT_EQ(read[word], word < threads ? 1U : 0U) << "page " << number << ", word " << word;
    }
  }
}

// The only filler is inside the store's read(), which waits for the threads that write.
TEST_F(HandedOverFaults, NoThreadWaitsForAFillerThatMayWaitForIt) {
  const auto gated = std::make_shared<GatedStore>();
  const Region held_up = cache_.map(gated, read_only(page));
  std::thread reader([&] { EXPECT_EQ(touch(held_up.data()), gated_byte); });
  gated->reading.wait(0);
  add_to_all(8);
  EXPECT_EQ(handed_over(), 0U);
  gated->let_go();
  reader.join();
}

TEST_F(HandedOverFaults, AFaultThatAFillerServesIsOneFault) {
  const auto gated = std::make_shared<GatedStore>();
  const Region held_up = cache_.map(gated, read_only(page));
  std::thread reader([&] { EXPECT_EQ(touch(held_up.data()), gated_byte); });
  gated->reading.wait(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Time to fault again.
  gated->let_go();
  reader.join();
  EXPECT_EQ(held_up.statistics()[Counter::read_faults], 1U);
  EXPECT_EQ(held_up.statistics()[Counter::coalesced_faults], 0U);
}

}  // namespace
}  // namespace tiermap
