// What is written, committed, reopened; beside a model, on files and on sparse directories.
#include "heap/checkpointed_store.hpp"

#include <sys/stat.h>

#include "checkpoint/disk_in_memory.hpp"
#include "checkpoint/model.hpp"
#include "heap/journal_file.hpp"
#include "store/file_store.hpp"
#include "store/sparse_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t identity = 4711;

class CheckpointedStoreTest : public testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Store> open_base(std::uint64_t bytes = 0, bool writable = true) {
    const OpenMode mode = bytes > 0 ? OpenMode::create : writable ? OpenMode::read_write : OpenMode::read_only;
    if (!GetParam()) {
      return FileStore::open(directory_ / "base", mode, bytes, FileOptions());
    }
    SparseOptions options;
    options.segment_bytes = bytes > 0 ? 64 << 10 : 0;
    return SparseStore::open(directory_ / "base", mode, bytes, options);
  }
  std::unique_ptr<CheckpointedStore> create(std::uint64_t bytes) {
    return std::make_unique<CheckpointedStore>(open_base(bytes), open_journal_file(journal(), OpenMode::create),
                                               identity);
  }
  std::unique_ptr<CheckpointedStore> reopen() {
    return std::make_unique<CheckpointedStore>(open_base(), open_journal_file(journal(), OpenMode::read_write),
                                               identity);
  }
  std::string journal() const { return directory_ / "journal"; }

  const TemporaryDirectory directory_;
};

TEST_P(CheckpointedStoreTest, follows_the_model_through_commits_and_reopening) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<char> now(300'001, 0);
  std::vector<char> committed = now;
  auto store = create(now.size());
  for (Rounds rounds(250); rounds.go_on() && !HasFailure(); rounds.next()) {
    switch (random() % 24) {
      case 0:
      case 1:
        ASSERT_EQ(store->commit(), 0);
        committed = now;
        break;
      case 2:
        store.reset();
        store = reopen();
        now = committed;
        expect_equal(*store, now);
        break;
      case 3:
        expect_equal(*store, now);
        break;
      default:
        change_at_random(*store, now, random, true);
    }
  }
  expect_equal(*store, now);
  ASSERT_EQ(store->commit(), 0);
  store.reset();
  // Once closed, base alone has it all, and the journal nothing but what every journal has.
  expect_equal(*open_base(), now);
  EXPECT_EQ(std::filesystem::file_size(journal()), 3 * 4096U);
}

TEST_P(CheckpointedStoreTest, the_base_has_the_last_commit_whatever_is_written) {
  const auto store = create(100'000);
  std::vector<char> now(100'000, 0);
  std::mt19937_64 random(1);
  for (int step = 0; step < 50; ++step) {
    change_at_random(*store, now, random);
  }
  ASSERT_EQ(store->commit(), 0);
  const std::vector<char> committed = now;
  EXPECT_EQ(store->generation(), 1U);
  for (int step = 0; step < 200; ++step) {
    change_at_random(*store, now, random);
  }
  EXPECT_EQ(store->flush(), 0);
  const CheckpointedStore::ApplyingPause pause(*store);
  EXPECT_EQ(pause.generation(), 1U);
  const auto copy = directory_ / "copy";
  std::filesystem::copy(directory_ / "base", copy, std::filesystem::copy_options::recursive);
  if (GetParam()) {
    expect_equal(*SparseStore::open(copy, OpenMode::read_write, 0, SparseOptions()), committed);
  } else {
    expect_equal(*FileStore::open(copy, OpenMode::read_write, 0, FileOptions()), committed);
  }
  expect_equal(*store, now);
}

TEST_P(CheckpointedStoreTest, a_commit_waits_for_a_snapshot_and_writes_do_not) {
  const auto store = create(100'000);
  ASSERT_EQ(store->write("one", 3, 5000), 3);
  auto pause = store->pause_applying();
  std::atomic<bool> committed{false};
  std::thread committing([&] {
    EXPECT_EQ(store->commit(), 0);
    committed = true;
  });
  ASSERT_EQ(store->write("two", 3, 9000), 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(committed);
  pause.reset();
  committing.join();
  EXPECT_EQ(store->generation(), 1U);
}

TEST_P(CheckpointedStoreTest, nothing_changed_is_nothing_written) {
  const auto store = create(100'000);
  ASSERT_EQ(store->commit(), 0);
  EXPECT_EQ(store->generation(), 0U);
  ASSERT_EQ(store->write("one", 3, 5000), 3);
  ASSERT_EQ(store->commit(), 0);
  ASSERT_EQ(store->commit(), 0);
  EXPECT_EQ(store->generation(), 1U);
}

TEST_P(CheckpointedStoreTest, a_block_written_again_and_again_takes_no_more_room) {
  const auto store = create(1 << 20);
  const AlignedBuffer block = aligned_buffer(4096);
  for (int round = 0; round < 4'000; ++round) {
    std::memset(block.get(), round, 4096);
    ASSERT_EQ(store->write(block.get(), 4096, 8192), 4096);
  }
  EXPECT_LT(store->journal_bytes_in_use(), 4U << 20);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(store->write(block.get(), 4096, 8192), 4096);
    ASSERT_EQ(store->commit(), 0);
  }
  EXPECT_LT(store->journal_bytes_in_use(), 64U << 10);
  EXPECT_LT(std::filesystem::file_size(journal()), 4U << 20);
}

TEST_P(CheckpointedStoreTest, a_hole_gives_its_room_back_when_it_is_committed) {
  const auto store = create(4 << 20);
  const std::vector<char> ones(4 << 20, 1);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 0), 4 << 20);
  ASSERT_EQ(store->commit(), 0);
  const auto blocks = [&] {
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path())) {
      struct stat status = {};
      const bool of_base = entry.path().string().find("base") != std::string::npos;
      sum += of_base && ::stat(entry.path().c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) : 0;
    }
    return sum * 512;
  };
  const std::uint64_t before = blocks();
  ASSERT_EQ(store->punch(4096, 3 << 20), 0);
  std::vector<char> expected = ones;
  std::fill_n(expected.begin() + 4096, 3 << 20, 0);
  expect_equal(*store, expected);
  EXPECT_EQ(blocks(), before);
  ASSERT_EQ(store->commit(), 0);
  expect_equal(*store, expected);
  EXPECT_LE(blocks(), before - (3 << 20));
}

TEST_P(CheckpointedStoreTest, one_writer_or_many_readers) {
  {
    const auto store = create(100'000);
    ASSERT_EQ(store->write("one", 3, 5000), 3);
    ASSERT_EQ(store->commit(), 0);
    for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only}) {
      try {
        open_journal_file(journal(), mode);
        ADD_FAILURE() << "opened twice";
      } catch (const StoreError& error) {
        EXPECT_EQ(error.code().value(), EBUSY);
        EXPECT_NE(std::string(error.what()).find(directory_.path()), std::string::npos) << error.what();
      }
    }
  }
  const auto open_reader = [&] {
    return std::make_unique<CheckpointedStore>(open_base(0, false), open_journal_file(journal(), OpenMode::read_only),
                                               identity, false);
  };
  const auto first = open_reader();
  const auto second = open_reader();
  EXPECT_THROW(open_journal_file(journal(), OpenMode::read_write), StoreError);
  char text[3];
  EXPECT_EQ(second->read(text, 3, 5000), 3);
  EXPECT_EQ(std::string(text, 3), "one");
  EXPECT_EQ(second->write("two", 3, 0), -EROFS);
  EXPECT_EQ(second->commit(), -EROFS);
  EXPECT_EQ(second->punch(0, 1), -EROFS);
}

TEST_P(CheckpointedStoreTest, the_end_of_the_store_is_the_end) {
  const auto store = create(10'000);
  EXPECT_EQ(store->write("xy", 2, 9'999), 1);
  EXPECT_EQ(store->write("xy", 2, 10'000), -ENOSPC);
  EXPECT_EQ(store->resize(std::uint64_t{1} << 60), -EFBIG);
  EXPECT_EQ(store->punch(10'000, 5), 0);
  EXPECT_EQ(store->punch(9'000, ~std::uint64_t{0}), 0);
  char last = 'z';
  EXPECT_EQ(store->read(&last, 1, 9'999), 1);
  EXPECT_EQ(last, 0);
}

INSTANTIATE_TEST_SUITE_P(Bases, CheckpointedStoreTest, testing::Bool(),
                         [](const auto& information) { return information.param ? "sparse" : "file"; });

/// A base and the journal of a commit that was not applied, as a crash leaves them.
struct Interrupted {
  Bytes base;
  Bytes journal;
  Bytes committed;
  std::size_t slot_bytes = 0;  ///< Of the journal that the commit needs.
};

Interrupted interrupted_commit() {
  const auto base = std::make_shared<FileOnDisk>("base", Bytes(20'001, 'b'));
  const auto journal = std::make_shared<FileOnDisk>("journal", Bytes());
  Interrupted result;
  CheckpointedStore store(base, journal, identity);
  result.committed = base->content();
  std::mt19937_64 random(3);
  for (int step = 0; step < 4; ++step) {
    change_at_random(store, result.committed, random);
  }
  EXPECT_EQ(store.punch(8192, 5000), 0);
  std::fill_n(result.committed.begin() + 8192, 5000, 0);
  base->refuse = [](DiskChange::Kind) { return EIO; };
  EXPECT_EQ(store.commit(), -EIO);
  EXPECT_EQ(content_of(store), result.committed);
  result.base = base->content();
  result.journal = journal->content();
  result.slot_bytes = store.journal_bytes_in_use();
  while (result.journal.back() == 0) {
    result.journal.pop_back();
  }
  result.journal.resize((result.journal.size() + 4095) / 4096 * 4096);
  return result;
}

Bytes recovered(const Bytes& base, const Bytes& journal, bool writable) {
  const auto file = std::make_shared<FileOnDisk>("base", base);
  CheckpointedStore store(file, std::make_shared<FileOnDisk>("journal", journal), identity, writable);
  const Bytes content = content_of(store);
  EXPECT_EQ(file->content(), writable ? content : base);
  return content;
}

TEST(CheckpointedStoreRecovery, a_commit_that_was_not_applied_is_there) {
  const Interrupted crash = interrupted_commit();
  ASSERT_NE(crash.base, crash.committed);
  EXPECT_EQ(recovered(crash.base, crash.journal, true), crash.committed);
  EXPECT_EQ(recovered(crash.base, crash.journal, false), crash.committed);
}

TEST(CheckpointedStoreRecovery, every_flipped_byte_is_refused_or_does_no_harm) {
  const Interrupted crash = interrupted_commit();
  std::size_t refused = 0;
  // Every byte that has a meaning, and of each slot's content one in some.
  for (std::size_t byte = 0; byte < crash.journal.size(); byte += byte % 4096 < 128 ? 1 : 13) {
    Bytes journal = crash.journal;
    journal[byte] ^= static_cast<char>(1 << byte % 8);
    try {
      ASSERT_EQ(recovered(crash.base, journal, byte % 2 == 0), crash.committed) << "byte " << byte;
    } catch (const StoreError& error) {
      ++refused;
      const std::string message = error.what();
      ASSERT_NE(message.find("journal"), std::string::npos) << message;
      ASSERT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
  EXPECT_GE(refused, crash.slot_bytes / 13);
}

TEST(CheckpointedStoreRecovery, every_truncation_is_refused_or_does_no_harm) {
  const Interrupted crash = interrupted_commit();
  for (std::size_t bytes = 4096 * 2; bytes < crash.journal.size(); bytes += 512) {
    try {
      const Bytes journal(crash.journal.begin(), crash.journal.begin() + static_cast<std::ptrdiff_t>(bytes));
      ASSERT_EQ(recovered(crash.base, journal, true), crash.committed) << bytes << " bytes";
    } catch (const StoreError&) {
    }
  }
}

void expect_refused(const Bytes& journal, std::uint64_t asked, const std::string& because) {
  try {
    CheckpointedStore store(std::make_shared<FileOnDisk>("base", Bytes(20'001)),
                            std::make_shared<FileOnDisk>("the journal", journal), asked);
    ADD_FAILURE() << "opened in spite of: " << because;
  } catch (const StoreError& error) {
    EXPECT_NE(std::string(error.what()).find(because), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("the journal"), std::string::npos) << error.what();
  }
}

TEST(CheckpointedStoreRecovery, what_is_no_journal_of_this_heap_is_refused_by_name) {
  const Bytes good = interrupted_commit().journal;
  expect_refused(good, identity + 1, "another heap: the identity in it is 4711");
  Bytes changed = good;
  changed[8] = 2;
  expect_refused(changed, identity, "version 2 and this program reads version 1");
  changed = good;
  changed[0] = 'X';
  expect_refused(changed, identity, "is not the journal of a heap");
  changed = good;
  changed[20] = 1;
  expect_refused(changed, identity, "header");
  changed = good;
  changed[4096 + 16] ^= 1;
  changed[8192 + 50] ^= 1;
  expect_refused(changed, identity, "both copies of its commit record");
  changed = good;
  std::fill_n(changed.begin(), 4096, 0);
  expect_refused(changed, identity, "its header (bytes 0 to 63) is gone");
}

TEST(CheckpointedStoreRecovery, a_base_of_another_size_is_refused) {
  const auto journal = std::make_shared<FileOnDisk>("journal", Bytes());
  CheckpointedStore(std::make_shared<FileOnDisk>("base", Bytes(5000)), journal, identity);
  try {
    CheckpointedStore(std::make_shared<FileOnDisk>("base", Bytes(4999)), journal, identity);
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_NE(std::string(error.what()).find("base has 4999 bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tiermap
