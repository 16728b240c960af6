// A store behind tiers that is made shorter, while something of what is cut off is on its way into a tier; and a file
// that somebody else cuts.
#include <gtest/gtest.h>

#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "store/file_store.hpp"
#include "store/forwarding_store.hpp"
#include "store/memory_store.hpp"
#include "store/temporary_directory.hpp"
#include "tier/tiered_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t blocks = 4;

/// One that has room for twice as many blocks as there are.
TieringOptions roomy_tier(double organize_seconds) {
  TierOptions tier;
  tier.name = "dram";
  tier.capacity_bytes = 2 * blocks * block_bytes;
  TieringOptions options;
  options.tiers = {tier};
  options.block_bytes = block_bytes;
  options.organize_seconds = organize_seconds;
  return options;
}

/// What was read of it is held back until release().
class HeldStore final : public ForwardingStore {
 public:
  explicit HeldStore(std::shared_ptr<Store> base) : ForwardingStore(std::move(base)) {}
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::int64_t got = base_->read(buffer, bytes, offset);
    std::unique_lock lock(mutex_);
    has_read_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return released_; });
    return got;
  }
  void await_read() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_read_; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_read_ = false;
  bool released_ = false;
};

/// Such a block is read from behind and held there; the store is cut off before it, and grows again.
template <typename Bring>
void expect_zeros_after_cut(double organize_seconds, Bring&& bring) {
  const auto memory = std::make_shared<MemoryStore>(blocks * block_bytes);
  const std::vector<char> before(blocks * block_bytes, 'x');
  ASSERT_EQ(memory->write(before.data(), before.size(), 0), static_cast<std::int64_t>(before.size()));
  const auto held = std::make_shared<HeldStore>(memory);
  TieredStore store(held, roomy_tier(organize_seconds));
  std::thread bringer([&] { bring(store); });
  held->await_read();
  ASSERT_EQ(store.resize(0), 0);
  held->release();
  bringer.join();
  ASSERT_EQ(store.resize(blocks * block_bytes), 0);
  std::vector<char> after(blocks * block_bytes, 'y');
  ASSERT_EQ(store.read(after.data(), after.size(), 0), static_cast<std::int64_t>(after.size()));
  EXPECT_EQ(after, std::vector<char>(after.size()));
}

TEST(ShortenedStoreTest, what_a_reader_was_bringing_is_cut_off_too) {
  expect_zeros_after_cut(3600, [](TieredStore& store) {
    std::vector<char> block(block_bytes);
    EXPECT_EQ(store.read(block.data(), block.size(), block_bytes), static_cast<std::int64_t>(block.size()));
  });
}

TEST(ShortenedStoreTest, what_the_organizer_was_bringing_is_cut_off_too) {
  expect_zeros_after_cut(0.001, [](TieredStore& store) { store.score(block_bytes, block_bytes, 1, 1); });
}

/// A file behind tiers of which somebody else leaves a page and a half of the second block.
class CutFileTest : public testing::Test {
 protected:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t left_bytes = block_bytes + page_bytes + page_bytes / 2;

  CutFileTest() {
    write_file(path_, std::string(blocks * block_bytes, 'x'));
    store_ =
        std::make_unique<TieredStore>(FileStore::open(path_, OpenMode::read_write, 0, FileOptions()), roomy_tier(3600));
  }
  void cut() const { std::filesystem::resize_file(path_, left_bytes); }
  std::int64_t read_page(std::uint64_t offset) {
    page_.assign(page_bytes, '?');
    return store_->read(page_.data(), page_.size(), offset);
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file";
  std::unique_ptr<TieredStore> store_;
  std::string page_;
};

TEST_F(CutFileTest, pages_of_which_it_has_nothing_cannot_be_read) {
  cut();
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(read_page(block_bytes + 2 * page_bytes), -EIO) << time;  // Of the block that is there in part.
    EXPECT_EQ(read_page(3 * block_bytes), -EIO) << time;
    EXPECT_EQ(read_page(0), static_cast<std::int64_t>(page_bytes));
    EXPECT_EQ(page_, std::string(page_bytes, 'x'));
    EXPECT_EQ(read_page(block_bytes + page_bytes), static_cast<std::int64_t>(page_bytes));
    EXPECT_EQ(page_, std::string(page_bytes / 2, 'x') + std::string(page_bytes / 2, '\0'));
  }
  store_->score(block_bytes, 3 * block_bytes, 1, 1);
  EXPECT_EQ(read_page(block_bytes + 3 * page_bytes), -EIO);
}

TEST_F(CutFileTest, what_was_changed_behind_its_end_makes_it_long_again) {
  const std::string changed(block_bytes, 'c');
  ASSERT_EQ(store_->write(changed.data(), changed.size(), 3 * block_bytes), static_cast<std::int64_t>(block_bytes));
  cut();
  EXPECT_EQ(read_page(2 * block_bytes), -EIO);
  EXPECT_EQ(read_page(3 * block_bytes), static_cast<std::int64_t>(page_bytes));
  EXPECT_EQ(page_, changed.substr(0, page_bytes));
  EXPECT_EQ(store_->flush(), 0);
  ASSERT_EQ(std::filesystem::file_size(path_), blocks * block_bytes);
  store_.reset();
  std::string there(block_bytes, '?');
  const auto file = FileStore::open(path_, OpenMode::read_only, 0, FileOptions());
  ASSERT_EQ(file->read(there.data(), there.size(), 3 * block_bytes), static_cast<std::int64_t>(block_bytes));
  EXPECT_EQ(there, changed);
}

}  // namespace
}  // namespace tiermap
