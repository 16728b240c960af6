// Tiers in memory have no more of it than caches and other tiers leave.
#include "tier/open_tiers.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "platform/memory_promise.hpp"
#include "store/memory_store.hpp"
#include "store/temporary_directory.hpp"
#include "tier/tiered_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;
/// More than any machine has.
constexpr std::uint64_t everything = std::uint64_t{1} << 60;

class OpenTiersTest : public testing::Test {
 protected:
  static TierOptions tier(const std::string& name, std::uint64_t mebibytes, TierKind kind = TierKind::memory) {
    TierOptions tier;
    tier.name = name;
    tier.kind = kind;
    tier.capacity_bytes = mebibytes * mebibyte;
    tier.latency_microseconds = kind == TierKind::emulated ? 1 : 0;
    return tier;
  }
  TieringOptions options(std::vector<TierOptions> tiers) {
    TieringOptions options;
    options.tiers = std::move(tiers);
    options.block_bytes = mebibyte;
    options.warn = [this](const std::string& line) { said_.push_back(line); };
    return options;
  }
  /// What each has, by what the store says of itself.
  std::vector<std::uint64_t> mebibytes_of(std::vector<TierOptions> tiers) {
    said_.clear();
    const auto store = make_tiered_store(std::make_shared<MemoryStore>(mebibyte), options(std::move(tiers)));
    std::vector<std::uint64_t> mebibytes;
    for (const TierReport& report : tier_reports(*store)) {
      mebibytes.push_back(report.capacity_bytes / mebibyte);
    }
    mebibytes.pop_back();  // The store behind.
    return mebibytes;
  }

  std::vector<std::string> said_;
};

using Mebibytes = std::vector<std::uint64_t>;

TEST_F(OpenTiersTest, what_is_left_and_no_more) {
  const MemoryPromise all(everything);  // But for 32 MiB, which are always left.
  EXPECT_EQ(mebibytes_of({tier("dram", 32)}), Mebibytes{32});
  EXPECT_EQ(said_, std::vector<std::string>{});
  for (const TierKind kind : {TierKind::memory, TierKind::emulated}) {
    EXPECT_EQ(mebibytes_of({tier("dram", 256, kind)}), Mebibytes{32});
    EXPECT_EQ(said_, std::vector<std::string>{
                         "tier 'dram' has 32.0 MiB of its capacity of 256 MiB: no more memory is left beside what "
                         "caches and other tiers may take: give those, or it, less"});
  }
}

TEST_F(OpenTiersTest, a_directory_is_no_memory) {
  const TemporaryDirectory directory;
  const MemoryPromise all(everything);
  for (const TierKind kind : {TierKind::directory, TierKind::emulated}) {
    TierOptions slower = tier("disk", 256, kind);
    slower.path = directory.path();
    EXPECT_EQ(mebibytes_of({slower}), Mebibytes{256});
    EXPECT_EQ(said_, std::vector<std::string>{});
  }
}

TEST_F(OpenTiersTest, a_tier_is_promised_what_it_may_take_until_it_is_closed) {
  const std::uint64_t before = MemoryPromise::left_bytes();
  const std::uint64_t half = before / mebibyte / 2;
  {
    const TieringOptions wanted = options({tier("dram", half)});
    const auto tiers = open_tiers(wanted, everything, wanted.warn);
    EXPECT_LT(MemoryPromise::left_bytes(), before / 4 * 3);
    // Another store, of the same options.
    const auto more = open_tiers(options({tier("dram", half), tier("another", half)}), everything, wanted.warn);
    EXPECT_LT(more[0]->options().capacity_bytes + more[1]->options().capacity_bytes, half * mebibyte / 2 * 3);
    EXPECT_FALSE(said_.empty());
  }
  EXPECT_GT(MemoryPromise::left_bytes(), before / 4 * 3);
}

TEST_F(OpenTiersTest, before_what_is_only_read_a_tier_takes_no_more_than_that) {
  const TemporaryDirectory directory;
  write_file(directory / "data", std::string(3 * mebibyte / 2, 'x'));
  const std::uint64_t before = MemoryPromise::left_bytes();
  const TieringOptions wanted = options({tier("dram", before / mebibyte / 4 * 3)});
  std::vector<std::shared_ptr<Store>> stores;
  for (int count = 0; count < 4; ++count) {
    stores.push_back(make_tiered_store(open_store(directory / "data", OpenMode::read_only), wanted));
  }
  EXPECT_EQ(said_, std::vector<std::string>{});
  EXPECT_GT(MemoryPromise::left_bytes(), before / 4 * 3);
}

TEST_F(OpenTiersTest, what_it_has_taken_is_not_counted_twice) {
  constexpr std::uint64_t block = std::uint64_t{1} << 50;  // Of which nothing is touched.
  Tier vast(tier("dram", 2 * block / mebibyte), block, std::make_unique<MemoryStore>(mebibyte));
  vast.hold(MemoryPromise(2 * block));
  EXPECT_EQ(MemoryPromise::left_bytes(), MemoryPromise::least_left_bytes);
  vast.take(0);
  EXPECT_EQ(MemoryPromise::left_bytes(), MemoryPromise::least_left_bytes);
  vast.take(1);
  EXPECT_GT(MemoryPromise::left_bytes(), 2 * MemoryPromise::least_left_bytes);
}

}  // namespace
}  // namespace tiermap
