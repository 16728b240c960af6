// A region over a store that does what a test says, in every way of serving faults.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "exactness/engine_setting.hpp"
#include "exactness/signal_trap.hpp"
#include "exactness/store_kinds.hpp"
#include "exactness/watchdog.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Call = FaultyStore::Call;

inline constexpr std::uint64_t store_bytes = 4 << 20;
inline constexpr std::uint64_t page_bytes = 32 << 10;  // Large enough to track blocks.
inline constexpr std::uint64_t page_words = page_bytes / 8;
inline constexpr std::uint64_t pages = store_bytes / page_bytes;

/// In memory, with limits.
class CappedStore final : public Store {
 public:
  explicit CappedStore(std::uint32_t reads = 0, std::uint32_t writes = 0) : reads_(reads), writes_(writes) {
    inner_ = open_store("memory:" + std::to_string(store_bytes), OpenMode::open_or_create);
    for (std::uint64_t word = 0; word < store_bytes / 8; ++word) {
      const std::uint64_t value = first_content(word);
      inner_->write(&value, sizeof value, word * 8);
    }
  }
  std::uint64_t size_bytes() const override { return store_bytes; }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return inner_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return inner_->write(buffer, bytes, offset);
  }
  std::uint32_t max_reads_in_flight() const override { return reads_; }
  std::uint32_t max_writes_in_flight() const override { return writes_; }
  std::uint64_t word(std::uint64_t index) {
    std::uint64_t value = 0;
    inner_->read(&value, sizeof value, index * 8);
    return value;
  }

 private:
  std::shared_ptr<Store> inner_;
  const std::uint32_t reads_;
  const std::uint32_t writes_;
};

/// What differs from test to test.
struct Opening {
  std::uint32_t reads = 0;   ///< Most in flight; 0: any number.
  std::uint32_t writes = 0;  ///< The same.
  std::uint32_t evictors = 2;
  bool manual_flush = false;
};

class FaultyStores : public testing::TestWithParam<EngineSetting> {
 protected:
  void open(std::uint64_t budget_bytes, const Opening& opening = {}) {
    inner_ = std::make_shared<CappedStore>(opening.reads, opening.writes);
    store_ = std::make_shared<FaultyStore>(inner_);
    CacheOptions options = cache_options(GetParam(), budget_bytes);
    options.fillers = 4;
    options.evictors = opening.evictors;
    cache_ = std::make_unique<Cache>(options);
    RegionOptions region;
    region.access = Access::read_write;
    region.page_size_bytes = page_bytes;
    region.read_ahead_bytes = 0;
    region.manual_flush = opening.manual_flush;
    region_ = cache_->map(store_, region);
    words_ = reinterpret_cast<volatile std::uint64_t*>(region_.data());
  }

  void TearDown() override {
    if (store_ != nullptr) {
      store_->on_read(nullptr);
      store_->on_write(nullptr);
      store_->release();
      region_.unmap();
      EXPECT_EQ(store_->overlap_violations(), 0U);
    }
  }

  static constexpr std::uint64_t first_word(std::uint64_t page) { return page * page_words; }

  int load(std::uint64_t word, std::uint64_t& value) { return SignalTrap::load(words_ + word, value); }
  /// The signal that loading a page's first word raises; 0 also says that the value was right.
  int touch(std::uint64_t page) {
    std::uint64_t value = 0;
    const int number = load(first_word(page), value);
    EXPECT_TRUE(number != 0 || value == first_content(first_word(page))) << "page " << page;
    return number;
  }
  /// Touches until it works.
  bool heals(std::uint64_t page) {
    return comes_to_be([&] { return touch(page) == 0; });
  }
  /// Waits until it is so, at most ten seconds. Returns whether it came to be.
  static bool comes_to_be(const std::function<bool()>& so) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      if (so()) {
        return true;
      }
      std::this_thread::sleep_for(10ms);
    }
    return so();
  }
  static std::uint64_t new_content(std::uint64_t word) { return first_content(word) ^ 0x5555; }
  void store_has_new_content() {
    for (std::uint64_t word = 0; word < store_bytes / 8; ++word) {
      ASSERT_EQ(inner_->word(word), new_content(word)) << "word " << word << ", page " << word / page_words;
    }
  }

  SignalTrap trap_;  // Before the first cache.
  Watchdog watchdog_{"faulty store", 60s};
  std::shared_ptr<CappedStore> inner_;
  std::shared_ptr<FaultyStore> store_;
  std::unique_ptr<Cache> cache_;
  Region region_;
  volatile std::uint64_t* words_ = nullptr;
};

}  // namespace tiermap
