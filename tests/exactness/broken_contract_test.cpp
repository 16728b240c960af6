// A store that does not keep what store.hpp asks of it is an error for who reads, and harms nobody else.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "exactness/engine_setting.hpp"
#include "exactness/signal_trap.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

/// Says that it has read more than it was asked for.
class BoastingStore final : public Store {
 public:
  std::uint64_t size_bytes() const override { return (1 << 20); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t) override {
    std::memset(buffer, 1, bytes);
    return static_cast<std::int64_t>(bytes) + 1;
  }
  std::string name() const override { return "boasting"; }
};

void read_one_word(const EngineSetting& engine, Sharing sharing) {
  Cache cache(cache_options(engine, 2 << 20));
  RegionOptions region_options;
  region_options.page_size_bytes = 32 << 10;
  region_options.sharing = sharing;
  const Region region = cache.map(std::make_shared<BoastingStore>(), region_options);
  std::uint64_t value = 0;
  EXPECT_EQ(SignalTrap::load(reinterpret_cast<const volatile std::uint64_t*>(region.data()), value), SIGBUS);
}

/// Answers with error numbers that there are none, and takes more than it was given.
class NonsenseStore final : public Store {
 public:
  explicit NonsenseStore(std::int64_t answer) : answer_(answer) {}
  std::uint64_t size_bytes() const override { return (1 << 20); }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t) override {
    std::memset(buffer, 1, bytes);
    return reading.load() ? answer_ : static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void*, std::size_t, std::uint64_t) override { return answer_; }
  std::string name() const override { return "nonsense"; }
  std::atomic<bool> reading{true};

 private:
  const std::int64_t answer_;
};

TEST(BrokenContract, AnAnswerThatIsNoneIsAnError) {
  const SignalTrap trap;  // Before the first cache.
  constexpr std::int64_t low_half_zero = std::numeric_limits<std::int64_t>::min();
  for (const EngineSetting& engine : all_engine_settings) {
    for (const std::int64_t answer :
         {low_half_zero, -(std::int64_t{1} << 32), std::int64_t{-4096}, std::int64_t{1} << 40}) {
      Cache cache(cache_options(engine, 2 << 20));
      const auto store = std::make_shared<NonsenseStore>(answer);
      RegionOptions options;
      options.access = Access::read_write;
      options.read_ahead_bytes = 0;
      Region region = cache.map(store, options);
      auto* words = reinterpret_cast<volatile std::uint64_t*>(region.data());
      std::uint64_t value = 0;
      EXPECT_EQ(SignalTrap::load(words, value), SIGBUS) << answer;
      store->reading.store(false);
      const std::uint64_t other = region.page_size_bytes() / 8 * 2;
      ASSERT_EQ(SignalTrap::load(words + other, value), 0);
      words[other] = 5;
      EXPECT_THROW(region.sync(), Error) << answer;
    }
  }
}

TEST(BrokenContract, AStoreThatReadsMoreThanItWasAskedForHasFailed) {
  const SignalTrap trap;  // Before the first cache.
  for (const EngineSetting& engine : all_engine_settings) {
    read_one_word(engine, Sharing::shared);
    read_one_word(engine, Sharing::private_copy);
  }
}

}  // namespace
}  // namespace tiermap
