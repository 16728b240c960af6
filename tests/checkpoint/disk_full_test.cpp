// A full disk, or any other failure, in every call: an error, nothing lost, and the commit can be tried again.
#include <sys/mount.h>

#include "checkpoint/disk_in_memory.hpp"
#include "checkpoint/model.hpp"
#include "heap/journal_file.hpp"
#include "store/file_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t identity = 5;

class Refused : public testing::Test {
 protected:
  /// Lets the next `calls` changes of base and journal pass, and then fails all of them.
  void refuse_after(std::uint64_t calls) {
    left_ = calls;
    const auto rule = [this](DiskChange::Kind) { return left_ == 0 ? ENOSPC : (--left_, 0); };
    base_->refuse = rule;
    journal_->refuse = rule;
  }
  void allow() {
    base_->refuse = nullptr;
    journal_->refuse = nullptr;
  }

  /// What a crash would leave now is one of these. Opening such a copy changes nothing of the original.
  void expect_after_crash(const Bytes& one, const Bytes& other, std::uint64_t calls) {
    CheckpointedStore crashed(std::make_shared<FileOnDisk>("base", base_->content()),
                              std::make_shared<FileOnDisk>("journal", journal_->content()), identity);
    const Bytes found = content_of(crashed);
    ASSERT_TRUE(found == one || found == other) << "after " << calls << " calls";
  }

  std::uint64_t left_ = 0;
  std::shared_ptr<FileOnDisk> base_ = std::make_shared<FileOnDisk>("base", Bytes(60'000, 'b'));
  std::shared_ptr<FileOnDisk> journal_ = std::make_shared<FileOnDisk>("journal", Bytes());
};

TEST_F(Refused, at_every_step_of_a_commit_and_after_it) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto store = std::make_unique<CheckpointedStore>(base_, journal_, identity);
  Bytes now = content_of(*store);
  bool failed = true;
  for (std::uint64_t calls = 0; failed || calls < 10; ++calls) {
    for (int step = 0; step < 10; ++step) {
      change_at_random(*store, now, random, true);
    }
    const Bytes before = base_->content();
    const Bytes asked = now;
    refuse_after(calls);
    const int result = store->commit();
    failed = result != 0;
    ASSERT_EQ(result, failed ? -ENOSPC : 0);
    ASSERT_EQ(content_of(*store), now) << "after " << calls << " calls";
    char byte = 'x';  // to the first byte: the store may have shrunk to that one
    const bool refused = store->write(&byte, 1, 0) < 0;
    ASSERT_EQ(content_of(*store)[0], refused ? now[0] : 'x');
    now[0] = refused ? now[0] : 'x';
    expect_after_crash(asked, failed ? before : asked, calls);
    allow();
    // What is written between the attempts does not damage either state.
    for (int step = 0; step < 5; ++step) {
      change_at_random(*store, now, random, true);
    }
    expect_after_crash(asked, failed ? before : asked, calls);
    change_at_random(*store, now, random, true);
    ASSERT_EQ(store->commit(), 0) << "after " << calls << " calls";
    ASSERT_EQ(content_of(*store), now);
    ASSERT_EQ(base_->content(), now);
    ASSERT_LT(calls, 1000U);
  }
}

TEST_F(Refused, at_every_step_of_making_a_journal_and_of_recovering) {
  for (std::uint64_t calls = 0;; ++calls) {
    journal_ = std::make_shared<FileOnDisk>("journal", Bytes());
    refuse_after(calls);
    try {
      CheckpointedStore store(base_, journal_, identity);
      break;
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), ENOSPC);
      EXPECT_NE(std::string(error.what()).find("free some space"), std::string::npos) << error.what();
    }
    allow();
    EXPECT_EQ(content_of(*std::make_unique<CheckpointedStore>(base_, journal_, identity)), Bytes(60'000, 'b'));
    ASSERT_LT(calls, 100U);
  }
  allow();
  journal_ = std::make_shared<FileOnDisk>("journal", Bytes());
  Bytes committed;
  Bytes journal;
  Bytes base;
  {
    CheckpointedStore store(base_, journal_, identity);
    committed = content_of(store);
    std::mt19937_64 random(8);
    for (int step = 0; step < 10; ++step) {
      change_at_random(store, committed, random);
    }
    base_->refuse = [](DiskChange::Kind) { return EIO; };
    ASSERT_EQ(store.commit(), -EIO);
    journal = journal_->content();
    base = base_->content();
  }
  for (std::uint64_t calls = 0;; ++calls) {
    base_ = std::make_shared<FileOnDisk>("base", base);
    journal_ = std::make_shared<FileOnDisk>("journal", journal);
    refuse_after(calls);
    try {
      CheckpointedStore store(base_, journal_, identity);
      ASSERT_EQ(content_of(store), committed);
      break;
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), ENOSPC);
    }
    allow();
    CheckpointedStore store(base_, journal_, identity);
    ASSERT_EQ(content_of(store), committed);
    ASSERT_LT(calls, 100U);
  }
}

/// Each test on a tmpfs of 2 MiB.
class SmallDisk : public testing::Test {
 protected:
  void SetUp() override {
    mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=2m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
    }
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(::umount(directory_.path().c_str()), 0);
    }
  }
  std::unique_ptr<CheckpointedStore> open(OpenMode mode) {
    return std::make_unique<CheckpointedStore>(FileStore::open(directory_ / "base", mode, store_bytes, FileOptions()),
                                               open_journal_file(directory_ / "journal", mode), identity);
  }

  static constexpr std::uint64_t store_bytes = 8 << 20;
  const TemporaryDirectory directory_;
  bool mounted_ = false;
};

TEST_F(SmallDisk, that_fills_up_while_it_is_written_keeps_the_last_commit) {
  auto store = open(OpenMode::create);
  const std::vector<char> ones(300'000, 1);
  std::vector<char> committed(store_bytes, 0);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 0), 300'000);
  std::copy(ones.begin(), ones.end(), committed.begin());
  ASSERT_EQ(store->commit(), 0);
  std::vector<char> now = committed;
  std::int64_t put = 0;
  for (std::uint64_t at = 0; put >= 0; at += 8192) {
    ASSERT_LT(at, store_bytes);
    const std::vector<char> twos(8192, 2);
    put = store->write(twos.data(), twos.size(), at);
    std::copy_n(twos.begin(), std::max<std::int64_t>(put, 0), now.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_EQ(put, -ENOSPC);
  expect_equal(*store, now);
  // Nor is there room for the index, or in the base.
  EXPECT_EQ(store->commit(), -ENOSPC);
  expect_equal(*store, now);
  EXPECT_EQ(store->commit(), -ENOSPC);
  store.reset();
  expect_equal(*open(OpenMode::read_write), committed);
}

TEST_F(SmallDisk, that_is_full_when_a_commit_is_applied_takes_it_once_there_is_room) {
  auto store = open(OpenMode::create);
  const std::vector<char> ones(400'000, 1);
  std::vector<char> committed(store_bytes, 0);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 100'000), 400'000);
  std::copy(ones.begin(), ones.end(), committed.begin() + 100'000);
  std::string ballast(1'600'000, 'x');
  {
    std::ofstream file(directory_ / "ballast", std::ios::binary);
    file << ballast;
  }
  EXPECT_EQ(store->commit(), -ENOSPC);
  expect_equal(*store, committed);
  store.reset();
  EXPECT_THROW(open(OpenMode::read_write), StoreError);
  std::filesystem::remove(directory_ / "ballast");
  store = open(OpenMode::read_write);
  expect_equal(*store, committed);
}

}  // namespace
}  // namespace tiermap
