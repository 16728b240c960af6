// A store that does not keep what store.hpp asks of it is an error for who reads, and harms nobody else.
#include <gtest/gtest.h>

#include <cstring>
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

TEST(BrokenContract, AStoreThatReadsMoreThanItWasAskedForHasFailed) {
  const SignalTrap trap;  // Before the first cache.
  for (const EngineSetting& engine : all_engine_settings) {
    read_one_word(engine, Sharing::shared);
    read_one_word(engine, Sharing::private_copy);
  }
}

}  // namespace
}  // namespace tiermap
