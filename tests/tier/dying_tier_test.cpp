// A tier whose place takes nothing more and can be read no more: what the store behind has as well is not lost.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "store/faulty_store.hpp"
#include "store/memory_store.hpp"
#include "tier/tiered_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t store_bytes = 4 * block_bytes;

/// One tier, of which nothing moves by itself, in front of ones.
class DyingTierTest : public testing::Test {
 protected:
  DyingTierTest() {
    const std::vector<char> ones(store_bytes, 1);
    EXPECT_EQ(backing_->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(store_bytes));
    TieringOptions options;
    options.block_bytes = block_bytes;
    options.organize_seconds = options.write_down_seconds = 3600;
    options.warn = [](const std::string&) {};
    TierOptions tier;
    tier.name = "disk";
    tier.capacity_bytes = 8 * block_bytes;
    options.tiers = {tier};
    auto place = std::make_unique<FaultyStore>(std::make_shared<MemoryStore>(tier.capacity_bytes));
    place->on_read([this](auto) { return dead_.load() ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
    place->on_write(
        [this](auto) { return dead_.load() && !takes_writes_.load() ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(std::make_unique<Tier>(tier, block_bytes, std::move(place)));
    store_ = std::make_unique<TieredStore>(backing_, options, std::move(tiers));
  }
  char byte_at(std::uint64_t offset) {
    char byte = 0;
    EXPECT_EQ(store_->read(&byte, 1, offset), 1);
    return byte;
  }

  std::atomic<bool> dead_{false};
  std::atomic<bool> takes_writes_{false};
  const std::shared_ptr<Store> backing_ = std::make_shared<MemoryStore>(store_bytes);
  std::unique_ptr<TieredStore> store_;
};

TEST_F(DyingTierTest, a_write_to_a_part_of_a_copy_goes_to_the_store_behind) {
  EXPECT_EQ(byte_at(0), 1);
  ASSERT_EQ(store_->reports()[0].used_bytes, block_bytes);
  dead_ = true;
  const std::vector<char> twos(4096, 2);
  EXPECT_EQ(store_->write(twos.data(), twos.size(), 4096), 4096);
  EXPECT_EQ(byte_at(4095), 1);
  EXPECT_EQ(byte_at(4096), 2);
  EXPECT_EQ(byte_at(8191), 2);
  EXPECT_EQ(byte_at(8192), 1);
  EXPECT_EQ(store_->flush(), 0);
}

TEST_F(DyingTierTest, a_write_to_a_copy_that_could_not_be_read_goes_to_the_store_behind) {
  EXPECT_EQ(byte_at(0), 1);
  ASSERT_EQ(store_->reports()[0].used_bytes, block_bytes);
  takes_writes_ = true;
  dead_ = true;
  EXPECT_EQ(byte_at(0), 1);
  ASSERT_TRUE(store_->reports()[0].failed);
  const std::vector<char> twos(4096, 2);
  EXPECT_EQ(store_->write(twos.data(), twos.size(), 4096), 4096);
  EXPECT_EQ(byte_at(4095), 1);
  EXPECT_EQ(byte_at(4096), 2);
  EXPECT_EQ(byte_at(8192), 1);
  EXPECT_EQ(store_->flush(), 0);
  char byte = 0;
  EXPECT_EQ(backing_->read(&byte, 1, 4096), 1);
  EXPECT_EQ(byte, 2);
}

TEST_F(DyingTierTest, what_is_nowhere_else_is_an_error) {
  const std::vector<char> twos(block_bytes, 2);
  EXPECT_EQ(store_->write(twos.data(), twos.size(), 0), static_cast<std::int64_t>(block_bytes));
  dead_ = true;
  char byte = 0;
  EXPECT_EQ(store_->read(&byte, 1, 0), -EIO);
  EXPECT_EQ(store_->write(twos.data(), 100, 0), -EIO);
  EXPECT_EQ(store_->flush(), -EIO);
  dead_ = false;
  EXPECT_EQ(byte_at(0), 2);
  EXPECT_EQ(store_->flush(), 0);
}

}  // namespace
}  // namespace tiermap
