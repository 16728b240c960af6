// Threads that write and read while commits run, and the store under a region, as the heap uses it.
#include <thread>

#include "checkpoint/disk_in_memory.hpp"
#include "checkpoint/model.hpp"
#include "heap/journal_file.hpp"
#include "store/file_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t identity = 12;

/// Every word of a block tells the block and the version.
void fill_block(char* block, std::uint64_t number, std::uint64_t version) {
  std::fill_n(reinterpret_cast<std::uint64_t*>(block), 512, number << 32 | version);
}

// Each thread has blocks of its own and gives them rising versions, in order. So each commit has a version of the first
// block that is that of the last one or one more.
TEST(CheckpointedThreads, what_is_written_during_a_commit_damages_no_commit) {
  constexpr std::uint64_t threads = 3;
  constexpr std::uint64_t blocks_each = 40;
  const TemporaryDirectory directory;
  CheckpointedStore store(
      FileStore::open(directory / "base", OpenMode::create, threads * blocks_each * 4096, FileOptions()),
      open_journal_file(directory / "journal", OpenMode::create), identity);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    writers.emplace_back([&, thread] {
      const AlignedBuffer block = aligned_buffer(4096);
      for (std::uint64_t version = 1; !stop; ++version) {
        for (std::uint64_t index = 0; index < blocks_each; ++index) {
          const std::uint64_t number = thread * blocks_each + index;
          fill_block(block.get(), number, version);
          ASSERT_EQ(store.write(block.get(), 4096, number * 4096), 4096);
          const std::uint64_t earlier = thread * blocks_each + (index + version) % blocks_each;
          ASSERT_EQ(store.read(block.get(), 4096, earlier * 4096), 4096);
          const auto* const words = reinterpret_cast<const std::uint64_t*>(block.get());
          ASSERT_EQ(words[0], words[511]);
          ASSERT_TRUE(words[0] == 0 || words[0] >> 32 == earlier);
          const std::uint64_t least = earlier <= number ? version : version - 1;
          ASSERT_EQ(words[0] & 0xffff'ffff, least);
        }
      }
    });
  }
  const auto base = FileStore::open(directory / "base", OpenMode::read_only, 0, FileOptions());
  for (Rounds rounds(60); rounds.go_on() && !testing::Test::HasFailure(); rounds.next()) {
    ASSERT_EQ(store.commit(), 0);
    const CheckpointedStore::ApplyingPause pause(store);
    const std::vector<char> content = content_of(*base);
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      std::uint64_t before = ~std::uint64_t{0};
      std::uint64_t first = 0;
      for (std::uint64_t index = 0; index < blocks_each; ++index) {
        const std::uint64_t number = thread * blocks_each + index;
        const auto* const words = reinterpret_cast<const std::uint64_t*>(content.data() + number * 4096);
        ASSERT_TRUE(std::all_of(words, words + 512, [&](std::uint64_t word) { return word == words[0]; }));
        const std::uint64_t version = words[0] & 0xffff'ffff;
        first = index == 0 ? version : first;
        ASSERT_LE(version, before) << "a later write is committed and an earlier one is not";
        ASSERT_LE(first - version, 1U);
        before = version;
      }
    }
  }
  stop = true;
  for (std::thread& writer : writers) {
    writer.join();
  }
}

// Parts of one block written by several threads, read while others write its neighbours.
TEST(CheckpointedThreads, parts_of_a_block_do_not_undo_one_another) {
  const auto base = std::make_shared<FileOnDisk>("base", Bytes(64 << 10));
  CheckpointedStore store(base, std::make_shared<FileOnDisk>("journal", Bytes()), identity);
  constexpr std::uint64_t part = 512;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<char> mine(part);
      std::vector<char> back(part);
      for (int round = 1; round < 300; ++round) {
        for (std::uint64_t block = 0; block < 16; ++block) {
          std::fill(mine.begin(), mine.end(), static_cast<char>(round));
          const std::uint64_t offset = block * 4096 + thread * part;
          ASSERT_EQ(store.write(mine.data(), part, offset), static_cast<std::int64_t>(part));
          ASSERT_EQ(store.read(back.data(), part, offset), static_cast<std::int64_t>(part));
          ASSERT_EQ(back, mine);
        }
      }
    });
  }
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(store.commit(), 0);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

class CheckpointedRegion : public testing::TestWithParam<std::uint64_t> {};

TEST_P(CheckpointedRegion, with_a_quarter_of_the_data_in_memory_returns_to_the_last_commit) {
  constexpr std::uint64_t words_in_all = (8 << 20) / 8;
  const TemporaryDirectory directory;
  const auto open = [&](OpenMode mode) {
    return std::make_shared<CheckpointedStore>(
        FileStore::open(directory / "base", mode, words_in_all * 8, FileOptions()),
        open_journal_file(directory / "journal", mode), identity);
  };
  CacheOptions cache_options;
  cache_options.budget_bytes = words_in_all * 8 / 4;
  cache_options.publish_statistics = false;
  cache_options.fault_mode = FaultMode::notify;
  RegionOptions options;
  options.access = Access::read_write;
  options.page_size_bytes = GetParam();
  std::vector<std::uint64_t> committed(words_in_all, 0);
  std::mt19937_64 random(5);
  for (int life = 0; life < 3; ++life) {
    Cache cache(cache_options);
    auto store = open(life == 0 ? OpenMode::create : OpenMode::read_write);
    Region region = cache.map(store, options);
    const auto words = region.as_span<std::uint64_t>();
    std::vector<std::uint64_t> now = committed;
    for (int round = 0; round < 3; ++round) {
      for (int step = 0; step < 200; ++step) {
        const std::uint64_t at = random() % words_in_all;
        ASSERT_EQ(words[at], now[at]) << "word " << at;
        now[at] = words[at] = random();
      }
      if (round < 2) {
        region.sync();
        ASSERT_EQ(store->commit(), 0);
        committed = now;
      }
    }
    ASSERT_TRUE(std::equal(now.begin(), now.end(), words.begin()));
    region.unmap();
    region = Region();
    store.reset();
    const auto base = FileStore::open(directory / "base", OpenMode::read_only, 0, FileOptions());
    const std::vector<char> bytes = content_of(*base);
    ASSERT_EQ(std::memcmp(bytes.data(), committed.data(), bytes.size()), 0) << "life " << life;
  }
}

INSTANTIATE_TEST_SUITE_P(PageSizes, CheckpointedRegion, testing::Values(4096, 64 << 10));

}  // namespace
}  // namespace tiermap
