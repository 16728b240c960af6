// LLNL/umap: umap_flush() and umap_prefetch() with no region crash; a flush while eviction runs deadlocks.
#include <thread>

#include "umap_fixture.hpp"

namespace tiermap {
namespace {

class FlushTest : public UmapTest {};

TEST_F(FlushTest, WithoutRegionsThereIsNothingToDo) {
  EXPECT_EQ(::umap_flush(), 0);
  umap_prefetch_item item{&item};
  ::umap_prefetch(1, &item);
  ::umap_prefetch(-1, &item);
  ::umap_fetch_and_pin(reinterpret_cast<char*>(&item), 1);
}

TEST_F(FlushTest, AnIndependentReadThenSeesWhatWasWritten) {
  const OpenFile one(folder_ / "one", 20 * page);
  const OpenFile other(folder_ / "other", 20 * page);
  std::uint64_t* const first = map_words(one, 20 * page);
  std::uint64_t* const second = map_words(other, 20 * page);
  for (std::size_t word = 0; word < 20 * words_a_page; word += words_a_page) {
    poke(first + word, word + 1);
    poke(second + word + 5, word + 2);
  }
  EXPECT_EQ(::umap_flush(), 0);
  for (std::size_t word = 0; word < 20 * words_a_page; word += words_a_page) {
    EXPECT_EQ(one.word(word), word + 1);
    EXPECT_EQ(other.word(word + 5), word + 2);
    EXPECT_EQ(other.word(word + 6), word + 6);
  }
  EXPECT_EQ(::uunmap(first, 20 * page), 0);
  EXPECT_EQ(::uunmap(second, 20 * page), 0);
}

TEST_F(FlushTest, WhileEvictionRuns) {
  const Watchdog watchdog("flush while eviction runs", std::chrono::seconds(60));
  constexpr std::size_t pages = 200;
  const OpenFile file(folder_ / "file", pages * page);
  std::uint64_t* const region = map_words(file, pages * page);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (std::size_t writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&, writer] {
      for (std::size_t round = 1; !stop.load(); ++round) {
        for (std::size_t index = writer; index < pages; index += 3) {
          poke(region + index * words_a_page + 1, round);
        }
      }
    });
  }
  for (int flush = 0; flush < 30; ++flush) {
    EXPECT_EQ(::umap_flush(), 0);
  }
  stop.store(true);
  for (std::thread& writer : writers) {
    writer.join();
  }
  EXPECT_EQ(::umap_flush(), 0);
  for (std::size_t index = 0; index < pages; ++index) {
    EXPECT_EQ(file.word(index * words_a_page + 1), region[index * words_a_page + 1]);
  }
  EXPECT_EQ(::uunmap(region, pages * page), 0);
}

TEST_F(FlushTest, WhileRegionsComeAndGo) {
  const Watchdog watchdog("flush while regions come and go", std::chrono::seconds(60));
  const OpenFile file(folder_ / "file", 4 * page);
  std::atomic<bool> stop{false};
  std::thread flusher([&] {
    while (!stop.load()) {
      EXPECT_EQ(::umap_flush(), 0);
    }
  });
  for (std::uint64_t round = 1; round <= 100; ++round) {
    std::uint64_t* const region = map_words(file, 4 * page);
    poke(region + 7, round);
    EXPECT_EQ(::uunmap(region, 4 * page), 0);
    EXPECT_EQ(file.word(7), round);
  }
  stop.store(true);
  flusher.join();
}

TEST_F(FlushTest, AStoreThatCannotBeWrittenIsTold) {
  ScriptedStore store(4 * page);
  std::uint64_t* const region = map_store(store, 4 * page);
  std::atomic<bool> full{true};
  store.on_write = [&](char*, std::size_t, off_t) -> ssize_t {
    if (!full.load()) {
      return ScriptedStore::pass;
    }
    errno = ENOSPC;
    return -1;
  };
  poke(region + 3, 33);
  errno = 0;
  EXPECT_EQ(::umap_flush(), -1);
  EXPECT_EQ(errno, ENOSPC);
  errno = 0;
  EXPECT_EQ(::uunmap(region, 4 * page), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(touch(region + 3), 33U);
  full.store(false);
  EXPECT_EQ(::umap_flush(), 0);
  EXPECT_EQ(store.content[3], 33U);
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
}

}  // namespace
}  // namespace tiermap
