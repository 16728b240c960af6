// Tiers in front of a store: nothing is lost whatever moves meanwhile, all of it is behind them in the end, and a tier
// that fails is left.
#include "tier/tiered_store.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "config/environment.hpp"
#include "store/faulty_store.hpp"
#include "store/file_store.hpp"
#include "store/forwarding_store.hpp"
#include "store/memory_store.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "store/unread_standard_error.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t store_bytes = 100 * block_bytes + 1234;

TierOptions in_memory(std::uint64_t blocks) {
  TierOptions tier;
  tier.name = "dram";
  tier.capacity_bytes = blocks * block_bytes;
  return tier;
}

TierOptions in_directory(const std::string& path, std::uint64_t blocks) {
  TierOptions tier;
  tier.name = "disk";
  tier.kind = TierKind::directory;
  tier.path = path;
  tier.capacity_bytes = blocks * block_bytes;
  return tier;
}

/// Restless: all the time something moves.
TieringOptions restless(std::vector<TierOptions> tiers) {
  TieringOptions options;
  options.tiers = std::move(tiers);
  options.block_bytes = block_bytes;
  options.organize_seconds = 0.001;
  options.write_down_seconds = 0.002;
  return options;
}

/// Nothing moves by itself within a test.
TieringOptions calm(std::vector<TierOptions> tiers) {
  TieringOptions options = restless(std::move(tiers));
  options.organize_seconds = 3600;
  options.write_down_seconds = 3600;
  return options;
}

std::vector<char> content(Store& store) {
  std::vector<char> bytes(store.size_bytes());
  EXPECT_EQ(store.read(bytes.data(), bytes.size(), 0), static_cast<std::int64_t>(bytes.size()));
  return bytes;
}

/// Waits until it holds, if only for a moment, for seconds at most.
template <typename Condition>
void await(Condition&& condition) {
  bool held = condition();
  for (int turn = 0; turn < 5000 && !held; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    held = condition();
  }
  EXPECT_TRUE(held);
}

class TieredStoreTest : public testing::Test {
 protected:
  std::unique_ptr<TieredStore> open(const TieringOptions& options) {
    return std::make_unique<TieredStore>(backing_, options);
  }
  const TemporaryDirectory directory_;
  const std::shared_ptr<Store> backing_ = std::make_shared<MemoryStore>(store_bytes);
};

TEST_F(TieredStoreTest, all_is_behind_the_tiers_in_the_end) {
  std::vector<char> expected(store_bytes);
  {
    const auto store = open(restless({in_memory(5), in_directory(directory_.path(), 20)}));
    random_work(*store, expected, 0, store_bytes, 400, 1);
    expect_equal(*store, expected);
    EXPECT_EQ(store->settle(), 0);
    EXPECT_EQ(content(*backing_), expected);
    random_work(*store, expected, 0, store_bytes, 100, 2);
  }
  EXPECT_EQ(content(*backing_), expected);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(TieredStoreTest, nothing_is_lost_where_all_fits_exactly) {
  constexpr std::uint64_t blocks = store_bytes / block_bytes + 1;
  std::vector<char> expected(store_bytes);
  {
    const auto store = open(restless({in_memory(blocks / 2), in_directory(directory_.path(), blocks - blocks / 2)}));
    random_work(*store, expected, 0, store_bytes, 400, 3);
    expect_equal(*store, expected);
    for (std::uint64_t block = 0; block < blocks; ++block) {  // Those of the slower one are to change places.
      store->score(block * block_bytes, block_bytes, static_cast<double>(block) / blocks, 1);
    }
    random_work(*store, expected, 0, store_bytes, 400, 4);
    expect_equal(*store, expected);
  }
  EXPECT_EQ(content(*backing_), expected);
}

TEST_F(TieredStoreTest, threads_scores_and_flushes_at_once) {
  constexpr std::uint64_t threads = 4;
  std::vector<char> expected(store_bytes);
  const auto store = open(restless({in_memory(5), in_directory(directory_.path(), 10)}));
  std::atomic<bool> done{false};
  std::thread scorer([&] {
    for (std::uint64_t round = 0; !done.load(); ++round) {
      store->score(round * 7 % 100 * block_bytes, 3 * block_bytes, static_cast<double>(round % 11) / 10, 1 + round % 3);
      EXPECT_EQ(store->flush(), 0);
      static_cast<void>(store->reports());
      static_cast<void>(store->read_microseconds(round % 100 * block_bytes, block_bytes));
    }
  });
  std::vector<std::thread> workers;
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      random_work(*store, expected, store_bytes * thread / threads, store_bytes * (thread + 1) / threads, 150, thread);
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  done.store(true);
  scorer.join();
  expect_equal(*store, expected);
}

/// One that keeps what it is given elsewhere until it has settled, which may fail.
class SettlingStore final : public ForwardingStore {
 public:
  explicit SettlingStore(std::shared_ptr<Store> base) : ForwardingStore(std::move(base)) {}
  int settle() override { return result; }
  int result = 0;
};

TEST_F(TieredStoreTest, what_cannot_settle_behind_the_tiers_is_said) {
  const auto behind = std::make_shared<SettlingStore>(backing_);
  TieredStore store(behind, calm({in_memory(20)}));
  std::vector<char> expected(store_bytes);
  random_work(store, expected, 0, store_bytes, 50, 1);
  behind->result = -EACCES;
  EXPECT_EQ(store.settle(), -EACCES);
  EXPECT_EQ(store.flush(), 0);  // Which is another promise.
  behind->result = 0;
  EXPECT_EQ(store.settle(), 0);
  EXPECT_EQ(content(*backing_), expected);
}

/// A file that somebody else makes longer between two looks at its length.
class LengthenedStore final : public Store {
 public:
  explicit LengthenedStore(std::shared_ptr<Store> file) : file_(std::move(file)) {}
  /// At the `number`-th look from now on, counted from 1, what that sees is older than what `work` does.
  void at_look(int number, std::function<void()> work) {
    work_ = std::move(work);
    looks_left_.store(number);
  }
  std::uint64_t size_bytes() const override {
    const std::uint64_t size = file_->size_bytes();
    if (looks_left_.fetch_sub(1) == 1) {
      work_();
    }
    return size;
  }
  bool writable() const override { return true; }
  bool growable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return file_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return file_->write(buffer, bytes, offset);
  }
  int resize(std::uint64_t bytes) override { return file_->resize(bytes); }
  int flush() override { return file_->flush(); }

 private:
  const std::shared_ptr<Store> file_;
  std::function<void()> work_;
  mutable std::atomic<int> looks_left_{0};
};

TEST_F(TieredStoreTest, threads_that_lengthen_it_in_one_block_lose_nothing) {
  constexpr std::uint64_t half = block_bytes / 2;
  constexpr int looks_of_a_write = 8;
  for (int look = 1; look <= looks_of_a_write; ++look) {
    const auto file =
        std::make_shared<LengthenedStore>(FileStore::open(directory_ / std::to_string(look), OpenMode::create, 0, {}));
    TieredStore store(file, calm({in_memory(20)}));
    const std::vector<char> first(half, 'a');
    const std::vector<char> second(half, 'b');
    std::thread other;
    std::atomic<bool> written{false};
    file->at_look(look, [&] {
      other = std::thread([&] {
        EXPECT_EQ(store.write(second.data(), half, half), static_cast<std::int64_t>(half));
        written.store(true);
      });
      // Where the block is owned already it has to wait for that.
      for (int turn = 0; turn < 50 && !written.load(); ++turn) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_EQ(store.write(first.data(), half, 0), static_cast<std::int64_t>(half));
    file->at_look(0, {});
    if (other.joinable()) {
      other.join();
      const std::vector<char> there = content(store);
      EXPECT_EQ(std::string(there.begin(), there.end()), std::string(half, 'a') + std::string(half, 'b')) << look;
    }
  }
}

TEST_F(TieredStoreTest, what_is_written_stays_in_the_tier_until_it_is_to_last) {
  const auto store = open(calm({in_memory(20)}));
  const std::vector<char> ones(block_bytes, 1);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(block_bytes));
  EXPECT_EQ(content(*backing_)[0], 0);
  EXPECT_EQ(store->reports()[0].dirty_bytes, block_bytes);
  EXPECT_EQ(store->flush(), 0);
  EXPECT_EQ(content(*backing_)[0], 1);
  EXPECT_EQ(store->reports()[0].dirty_bytes, 0U);
  EXPECT_EQ(store->reports()[0].used_bytes, block_bytes);
}

TEST_F(TieredStoreTest, dirty_blocks_go_down_while_the_program_computes) {
  const auto store = open(restless({in_memory(20)}));
  const std::vector<char> ones(4 * block_bytes, 1);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(ones.size()));
  await([&] { return store->reports()[0].dirty_bytes == 0; });
  EXPECT_EQ(content(*backing_)[4 * block_bytes - 1], 1);
}

TEST_F(TieredStoreTest, a_second_read_comes_from_the_tier) {
  const auto store = open(calm({in_memory(20)}));
  std::vector<char> buffer(4096);
  store->read(buffer.data(), buffer.size(), 5 * block_bytes);
  EXPECT_EQ(store->reports().back().reads, 1U);
  store->read(buffer.data(), buffer.size(), 5 * block_bytes + 8192);
  EXPECT_EQ(store->reports().back().reads, 1U);
  EXPECT_EQ(store->reports()[0].reads, 1U);
}

TEST_F(TieredStoreTest, a_small_write_beside_the_tiers_does_not_read_a_block) {
  const auto faulty = std::make_shared<FaultyStore>(backing_);
  TieredStore store(faulty, calm({in_memory(20)}));
  const char one = 1;
  EXPECT_EQ(store.write(&one, 1, 3 * block_bytes), 1);
  EXPECT_EQ(faulty->reads(), 0U);
  EXPECT_EQ(content(*backing_)[3 * block_bytes], 1);
}

TEST_F(TieredStoreTest, what_is_needed_soonest_comes_to_the_fastest_tier) {
  const auto store = open(restless({in_memory(16), in_directory(directory_.path(), 64)}));
  std::vector<char> all(store_bytes);
  store->read(all.data(), all.size(), 0);  // Both tiers are full of the first blocks.
  store->score(90 * block_bytes, 4 * block_bytes, 1, 1);
  await([&] {
    store->score(90 * block_bytes, 4 * block_bytes, 1, 1);
    const std::uint64_t before = store->reports()[0].reads;
    for (std::uint64_t block = 90; block < 94; ++block) {
      store->read(all.data(), block_bytes, block * block_bytes);
    }
    return store->reports()[0].reads == before + 4;
  });
}

TEST_F(TieredStoreTest, a_resize_leaves_nothing_behind_the_end) {
  const std::shared_ptr<Store> file = FileStore::open(directory_ / "file", OpenMode::create, store_bytes, {});
  TieredStore store(file, restless({in_memory(200)}));
  const std::vector<char> ones(store_bytes, 1);
  ASSERT_EQ(store.write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(store_bytes));
  ASSERT_EQ(store.resize(10 * block_bytes + 100), 0);
  ASSERT_EQ(store.resize(20 * block_bytes), 0);
  std::vector<char> expected(20 * block_bytes, 0);
  std::fill_n(expected.begin(), 10 * block_bytes + 100, 1);
  EXPECT_EQ(content(store), expected);
  EXPECT_EQ(store.flush(), 0);
  EXPECT_EQ(content(*file), expected);
}

TEST_F(TieredStoreTest, what_is_punched_is_zeros_in_the_tiers_too) {
  const std::shared_ptr<Store> file = FileStore::open(directory_ / "file", OpenMode::create, store_bytes, {});
  TieredStore store(file, restless({in_memory(200)}));
  std::vector<char> expected(store_bytes, 1);
  ASSERT_EQ(store.write(expected.data(), expected.size(), 0), static_cast<std::int64_t>(store_bytes));
  ASSERT_EQ(store.punch(block_bytes + 4096, 3 * block_bytes), 0);
  std::fill_n(expected.begin() + block_bytes + 4096, 3 * block_bytes, 0);
  EXPECT_EQ(content(store), expected);
  EXPECT_EQ(store.flush(), 0);
  EXPECT_EQ(content(*file), expected);
}

TEST_F(TieredStoreTest, a_store_that_cannot_punch_loses_nothing) {
  const auto store = open(calm({in_memory(200)}));
  const std::vector<char> ones(store_bytes, 1);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(store_bytes));
  EXPECT_EQ(store->punch(0, block_bytes), -ENOTSUP);
  EXPECT_EQ(content(*store), ones);
}

TEST_F(TieredStoreTest, a_backing_store_that_fails_is_told_and_tried_again) {
  const auto faulty = std::make_shared<FaultyStore>(backing_);
  std::atomic<bool> broken{true};
  faulty->on_write([&](auto) { return broken.load() ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  TieredStore store(faulty, restless({in_memory(200)}));
  const std::vector<char> ones(store_bytes, 1);
  ASSERT_EQ(store.write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(store_bytes));
  EXPECT_EQ(store.flush(), -EIO);
  EXPECT_EQ(content(store), ones);
  broken.store(false);
  EXPECT_EQ(store.flush(), 0);
  EXPECT_EQ(content(*backing_), ones);
}

TEST_F(TieredStoreTest, a_place_that_the_store_behind_does_not_take_keeps_no_other_from_going_down) {
  const auto faulty = std::make_shared<FaultyStore>(backing_);
  std::atomic<bool> broken{true};
  faulty->on_write([&](const FaultyStore::Call& call) {
    const bool hit = call.offset / block_bytes == 3;
    return broken.load() && hit ? FaultyStore::fail(EIO) : FaultyStore::pass();
  });
  TieredStore store(faulty, restless({in_memory(20)}));
  const std::vector<char> ones(10 * block_bytes, 1);
  ASSERT_EQ(store.write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(ones.size()));
  await([&] { return store.reports()[0].dirty_bytes == block_bytes; });
  EXPECT_EQ(store.flush(), -EIO);
  broken = false;
  EXPECT_EQ(store.flush(), 0);
  const std::vector<char> there = content(*backing_);
  EXPECT_TRUE(std::equal(ones.begin(), ones.end(), there.begin()));
}

TEST_F(TieredStoreTest, a_full_directory_keeps_what_fits_and_is_told_of_once) {
  if (::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
  }
  std::vector<char> expected(store_bytes);
  std::mutex told_mutex;
  std::vector<std::string> told;
  std::string capacity;
  {
    TieringOptions options = restless({in_directory(directory_.path(), 64), in_memory(10)});
    options.retry_seconds = 0.001;
    options.warn = [&](const std::string& line) {
      const std::lock_guard held(told_mutex);
      told.push_back(line);
    };
    const auto store = open(options);
    for (std::uint64_t round = 0; round < 20; ++round) {
      random_work(*store, expected, 0, store_bytes, 50, round);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // It is tried again.
    }
    expect_equal(*store, expected);
    await([&] { return store->reports()[0].capacity_bytes <= 16 * block_bytes; });
    const TierReport report = store->reports()[0];
    EXPECT_FALSE(report.failed);
    EXPECT_GE(report.capacity_bytes, 14 * block_bytes);
    EXPECT_GT(report.used_bytes, 0U);
  }
  EXPECT_EQ(content(*backing_), expected);
  ASSERT_EQ(told.size(), 1U) << told.back();
  EXPECT_TRUE(told[0].starts_with("tier 'disk' in '" + directory_.path() + "' is full at ")) << told[0];
  EXPECT_TRUE(told[0].ends_with(" of 1MiB (No space left on device): slower ones take the rest; nothing is lost"))
      << told[0];
  EXPECT_EQ(::umount(directory_.path().c_str()), 0);
}

TEST_F(TieredStoreTest, a_directory_that_was_full_is_used_as_far_as_there_is_room_again) {
  if (::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
  }
  std::vector<char> expected(store_bytes);
  {
    TieringOptions options = restless({in_directory(directory_.path(), 12), in_memory(10)});
    options.retry_seconds = 0.002;
    options.warn = [](const std::string&) {};
    write_file(directory_ / "others", std::string(200'000, 'x'));
    const auto store = open(options);
    random_work(*store, expected, 0, store_bytes, 100, 5);
    await([&] { return store->reports()[0].capacity_bytes < 5 * block_bytes; });
    std::filesystem::remove(directory_ / "others");  // Another program's file goes.
    std::uint64_t round = 6;
    await([&] {
      random_work(*store, expected, 0, store_bytes, 20, round++);
      return store->reports()[0].used_bytes > 8 * block_bytes;
    });
    expect_equal(*store, expected);
  }
  EXPECT_EQ(content(*backing_), expected);
  EXPECT_EQ(::umount(directory_.path().c_str()), 0);
}

TEST_F(TieredStoreTest, tiers_are_used_in_the_order_of_what_a_block_takes) {
  TierOptions slow = in_directory(directory_.path(), 20);
  slow.bytes_per_second = 100e6;
  TierOptions fast = in_memory(20);
  fast.bytes_per_second = 5e9;
  fast.latency_microseconds = 1;
  TieringOptions options = calm({slow, fast});
  std::vector<std::string> told;
  options.warn = [&](const std::string& line) { told.push_back(line); };
  const auto store = open(options);
  EXPECT_EQ(store->reports()[0].name, "dram");
  const std::vector<char> ones(block_bytes, 1);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(block_bytes));
  EXPECT_EQ(store->reports()[0].used_bytes, block_bytes);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0],
            "tiers are used in the order 'dram', 'disk', as their bandwidth and latency (where these are "
            "equal, their cost) say of a block of 16KiB, and not "
            "as they are listed: list them so");
}

TEST_F(TieredStoreTest, nobody_has_to_hear_what_is_said) {
  TierOptions slow = in_directory(directory_.path(), 20);
  slow.bytes_per_second = 100e6;
  TierOptions fast = in_memory(20);
  fast.bytes_per_second = 5e9;
  const UnreadStandardError unread;
  EXPECT_EQ(content(*open(calm({slow, fast}))), content(*backing_));
}

TEST_F(TieredStoreTest, an_emulated_tier_says_so) {
  TierOptions slow = in_memory(20);
  slow.kind = TierKind::emulated;
  slow.latency_microseconds = 20'000;
  const auto store = open(calm({slow}));
  EXPECT_NE(store->name().find("emulated"), std::string::npos);
  EXPECT_EQ(store->reports()[0].name, "dram (emulated)");
  std::vector<char> buffer(4096);
  store->read(buffer.data(), buffer.size(), 0);
  const auto begun = std::chrono::steady_clock::now();
  store->read(buffer.data(), buffer.size(), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(20));
}

TEST_F(TieredStoreTest, a_directory_that_is_missing_is_refused) {
  try {
    make_tiered_store(backing_, calm({in_directory(directory_ / "none", 10)}));
    FAIL() << "it was taken";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_EQ(std::string(error.what()), directory_ / "none" +
                                             " cannot take tier 'disk': No such file or directory: check the path, and "
                                             "that its folder is there");
  }
}

TEST_F(TieredStoreTest, other_stores_have_no_tiers) {
  EXPECT_EQ(refusal([&] { tier_reports(*backing_); }),
            "memory has no tiers: open it as tiered:///tiers.yaml?store=URL");
}

}  // namespace
}  // namespace tiermap
