// LLNL/umap: a buffer of one or two pages hangs for ever; where few pages can be evicted it crashes.
#include <thread>

#include "umap_fixture.hpp"

namespace tiermap {
namespace {

class SmallBufferTest : public UmapTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Pages, SmallBufferTest, ::testing::Values(1, 2, 3));

TEST_P(SmallBufferTest, DoesNotHang) {
  const Watchdog watchdog("a buffer of few pages", std::chrono::seconds(60));
  set("UMAP_BUFSIZE", static_cast<std::uint64_t>(GetParam()));
  constexpr std::size_t pages = 64;
  const OpenFile file(folder_ / "file", pages * page);
  std::uint64_t* const region = map_words(file, pages * page);
  EXPECT_EQ(::umapcfg_get_max_pages_in_buffer(), static_cast<std::uint64_t>(GetParam()));
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t round = 0; round < 5; ++round) {
        for (std::size_t index = thread; index < pages; index += 4) {
          std::uint64_t* const word = region + index * words_a_page + round;
          EXPECT_EQ(touch(word), index * words_a_page + round);
          poke(word, index);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(::umap_flush(), 0);
  for (std::size_t index = 0; index < pages; ++index) {
    EXPECT_EQ(file.word(index * words_a_page + 4), index);
    EXPECT_EQ(file.word(index * words_a_page + 5), index * words_a_page + 5);
  }
  EXPECT_EQ(::uunmap(region, pages * page), 0);
}

// One copy of 16 pages into the region, which has room for no more than eight.
TEST_P(SmallBufferTest, ASystemCallMayBeHandedMoreThanTheBuffer) {
  skip_without_kernel_faults();
  const Watchdog watchdog("a system call on more than the buffer", std::chrono::seconds(60));
  set("UMAP_BUFSIZE", static_cast<std::uint64_t>(GetParam()));
  const OpenFile from(folder_ / "from", 16 * page);
  const OpenFile to(folder_ / "to", 16 * page, false);
  std::uint64_t* const region = map_words(to, 16 * page);
  EXPECT_EQ(::pread(from.descriptor(), region, 16 * page, 0), static_cast<ssize_t>(16 * page));
  EXPECT_EQ(::uunmap(region, 16 * page), 0);
  EXPECT_EQ(to.word(16 * words_a_page - 1), 16 * words_a_page - 1);
}

TEST_F(UmapTest, WhatIsPinnedIsKeptAndWhatIsTooMuchIsTold) {
  const Watchdog watchdog("pins fill the buffer", std::chrono::seconds(60));
  constexpr std::size_t pages = 100;
  const OpenFile file(folder_ / "file", pages * page);
  std::uint64_t* const region = map_words(file, pages * page);
  char* const bytes = reinterpret_cast<char*>(region);
  ::umap_fetch_and_pin(bytes, 20 * page);
  // More than the buffer has: nothing more is pinned, and all goes on.
  errno = 0;
  ::umap_fetch_and_pin(bytes + 20 * page, 70 * page);
  EXPECT_EQ(errno, ENOMEM);
  for (std::size_t index = 0; index < 20; ++index) {
    poke(region + index * words_a_page + 9, 1000 + index);
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t index = 20; index < pages; ++index) {
      EXPECT_EQ(touch(region + index * words_a_page), index * words_a_page);
    }
  }
  for (std::size_t index = 0; index < 20; ++index) {
    EXPECT_EQ(touch(region + index * words_a_page + 9), 1000 + index);
  }
  EXPECT_EQ(::umap_flush(), 0);
  EXPECT_EQ(file.word(19 * words_a_page + 9), 1019U);
  poke(region + 9, 2000);
  EXPECT_EQ(::uunmap(region, pages * page), 0);
  EXPECT_EQ(file.word(9), 2000U);
}

// Its own churn test never ends when it is optimised.
TEST_F(UmapTest, ChurnKeepsFocusPagesRight) {
  const Watchdog watchdog("churn", std::chrono::seconds(100));
  constexpr std::size_t pages = 300;
  constexpr std::size_t focus = 4;
  const OpenFile file(folder_ / "file", pages * page);
  std::uint64_t* const region = map_words(file, pages * page);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t round = 1; !stop.load(); ++round) {
      for (std::size_t word = 0; word < focus * words_a_page; word += 64) {
        poke(region + word, word + round);
      }
      for (std::size_t word = 0; word < focus * words_a_page; word += 64) {
        ASSERT_EQ(touch(region + word), word + round);
      }
    }
  });
  std::vector<std::thread> readers;
  for (std::size_t reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] {
      std::uint64_t state = reader + 1;
      for (int access = 0; access < 3000; ++access) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const std::size_t word = focus * words_a_page + (state >> 20U) % ((pages - focus) * words_a_page);
        ASSERT_EQ(touch(region + word), word);
      }
    });
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(::uunmap(region, pages * page), 0);
}

}  // namespace
}  // namespace tiermap
