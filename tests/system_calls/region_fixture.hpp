// A cache and a region over a store in memory, in the mode a test asks for.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "exactness/engine_setting.hpp"
#include "exactness/signal_trap.hpp"
#include "exactness/store_kinds.hpp"
#include "exactness/watchdog.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {

class RegionFixture : public testing::TestWithParam<EngineSetting> {
 protected:
  static constexpr std::uint64_t page_bytes = 16 << 10;
  static constexpr std::uint64_t store_bytes = 4 << 20;
  static constexpr std::uint64_t pages = store_bytes / page_bytes;

  static std::unique_ptr<Cache> make_cache(std::uint64_t budget_bytes = 1 << 20) {
    return std::make_unique<Cache>(cache_options(GetParam(), budget_bytes));
  }
  static std::shared_ptr<Store> make_store(std::uint64_t bytes = store_bytes) {
    std::shared_ptr<Store> store = open_store("memory:" + std::to_string(bytes), OpenMode::open_or_create);
    for (std::uint64_t word = 0; word < bytes / 8; ++word) {
      const std::uint64_t value = first_content(word);
      store->write(&value, sizeof value, word * 8);
    }
    return store;
  }
  static RegionOptions region_options(Access access) {
    RegionOptions options;
    options.access = access;
    options.page_size_bytes = page_bytes;
    options.read_ahead_bytes = 0;
    return options;
  }
  void open(Access access) {
    cache_ = make_cache();
    store_ = make_store();
    region_ = cache_->map(store_, region_options(access));
    words_ = reinterpret_cast<volatile std::uint64_t*>(region_.data());
  }
  bool notify() const { return GetParam().mode == FaultMode::notify; }
  void expect_content(std::uint64_t first_word, std::uint64_t words) {
    for (std::uint64_t word = first_word; word < first_word + words; ++word) {
      ASSERT_EQ(words_[word], first_content(word)) << word;
    }
  }

  SignalTrap trap_;  // Before the first cache.
  Watchdog watchdog_{"system calls", std::chrono::seconds(60)};
  std::shared_ptr<Store> store_;
  std::unique_ptr<Cache> cache_;
  Region region_;
  volatile std::uint64_t* words_ = nullptr;
};

inline std::string engine_setting_name(const testing::TestParamInfo<EngineSetting>& information) {
  return engine_name(information.param);
}

}  // namespace tiermap
