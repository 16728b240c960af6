// A store behind tiers, such as a program's own, that reports failure by exceptions.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>

#include "store/forwarding_store.hpp"
#include "store/memory_store.hpp"
#include "tier/tiered_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t store_bytes = 100 * block_bytes + 1234;

class ThrowingStore final : public ForwardingStore {
 public:
  explicit ThrowingStore(std::shared_ptr<Store> base) : ForwardingStore(std::move(base)) {}
  bool growable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    require_health();
    return base_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    require_health();
    return base_->write(buffer, bytes, offset);
  }
  int resize(std::uint64_t bytes) override {
    require_health();
    return base_->resize(bytes);
  }

  std::atomic<bool> healthy{true};

 private:
  void require_health() const {
    if (!healthy) {
      throw std::runtime_error("not now");
    }
  }
};

TEST(ThrowingStoreTest, an_exception_of_the_store_behind_is_an_error) {
  const auto behind = std::make_shared<ThrowingStore>(std::make_shared<MemoryStore>(store_bytes));
  TieringOptions options;
  options.block_bytes = block_bytes;
  options.organize_seconds = 0.001;  // All the time something moves.
  options.write_down_seconds = 0.002;
  options.tiers.resize(1);
  options.tiers[0].name = "dram";
  options.tiers[0].capacity_bytes = 4 * block_bytes;
  TieredStore store(behind, options);
  const std::vector<char> block(block_bytes, 'x');
  ASSERT_EQ(store.write(block.data(), block_bytes, 0), static_cast<std::int64_t>(block_bytes));  // Into the tier.
  behind->healthy = false;
  char byte = 0;
  EXPECT_EQ(store.read(&byte, 1, 50 * block_bytes), -EIO);
  EXPECT_EQ(store.write(&byte, 1, 60 * block_bytes), -EIO);
  EXPECT_EQ(store.write(&byte, 1, store_bytes), -EIO);
  EXPECT_EQ(store.resize(1), -EIO);
  behind->healthy = true;
  EXPECT_EQ(store.flush(), 0);
  EXPECT_EQ(store.read(&byte, 1, 17), 1);
  EXPECT_EQ(byte, 'x');
}

}  // namespace
}  // namespace tiermap
