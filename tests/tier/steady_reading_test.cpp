// Where all that is read again and again fits into the tiers it stays there.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "store/faulty_store.hpp"
#include "store/memory_store.hpp"
#include "store/temporary_directory.hpp"
#include "tier/tiered_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;

TierOptions in_memory(const std::string& name, std::uint64_t blocks) {
  TierOptions tier;
  tier.name = name;
  tier.capacity_bytes = blocks * block_bytes;
  return tier;
}

class SteadyReadingTest : public testing::Test {
 protected:
  /// Reads of the backing store, and blocks moved between tiers, over so many passes.
  struct Work {
    std::uint64_t read_behind = 0;
    std::uint64_t promoted = 0;
    std::uint64_t demoted = 0;
  };

  void open(std::uint64_t blocks, std::vector<TierOptions> tiers) {
    backing_ = std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(blocks * block_bytes));
    TieringOptions options;
    options.tiers = std::move(tiers);
    options.block_bytes = block_bytes;
    options.organize_seconds = 0.001;
    store_ = std::make_unique<TieredStore>(backing_, options);
  }
  Work seen() const {
    Work work{backing_->read_bytes() / block_bytes};
    for (const TierReport& report : store_->reports()) {
      work.promoted += report.promoted_in;
      work.demoted += report.demoted_in;
    }
    return work;
  }
  Work pass(int times) {
    const Work before = seen();
    std::vector<char> buffer(block_bytes);
    for (int time = 0; time < times; ++time) {
      for (std::uint64_t at = 0; at < backing_->size_bytes(); at += block_bytes) {
        store_->read(buffer.data(), buffer.size(), at);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
    const Work after = seen();
    return {after.read_behind - before.read_behind, after.promoted - before.promoted, after.demoted - before.demoted};
  }

  /// Until all are in their tiers, which does not take many.
  void await_pass_without_reads_behind() {
    std::uint64_t read_behind = 1;
    for (int time = 0; time < 100 && read_behind > 0; ++time) {
      read_behind = pass(1).read_behind;
    }
    ASSERT_EQ(read_behind, 0U);
  }

  std::shared_ptr<FaultyStore> backing_;
  std::unique_ptr<TieredStore> store_;
};

TEST_F(SteadyReadingTest, what_fits_exactly_is_read_behind_no_more) {
  const std::vector<std::vector<TierOptions>> tiers = {{in_memory("one", 64)},
                                                       {in_memory("fast", 32), in_memory("slow", 32)}};
  for (const std::vector<TierOptions>& some : tiers) {
    open(64, some);
    await_pass_without_reads_behind();
    const Work steady = pass(5);
    EXPECT_EQ(steady.read_behind, 0U) << some.size() << " tiers";
    EXPECT_EQ(steady.promoted + steady.demoted, 0U) << some.size() << " tiers";
  }
}

TEST_F(SteadyReadingTest, what_nearly_fits_is_read_behind_no_more) {
  open(62, {in_memory("fast", 32), in_memory("slow", 32)});
  await_pass_without_reads_behind();
  EXPECT_EQ(pass(5).read_behind, 0U);
}

}  // namespace
}  // namespace tiermap
