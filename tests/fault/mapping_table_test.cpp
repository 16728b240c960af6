// The table by which processes tell each other what they map: two tables on one file are two processes to each other.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fault/mapping_table_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

TEST_F(MappingTableTest, TheLastOneRemovesTheFile) {
  auto first = join();
  auto second = join();
  EXPECT_TRUE(std::filesystem::exists(path_));
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
  second->leave();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(MappingTableTest, ReadersServeBesideEachOther) {
  const auto first = join();
  const auto second = join();
  for (MappingTable* table : {first.get(), second.get()}) {
    const auto entered = table->enter(unmapped_file_, false);
    EXPECT_FALSE(entered.by_others);
    EXPECT_TRUE(table->serve(unmapped_file_));
  }
}

TEST_F(MappingTableTest, WhoServesGivesBackBeforeAWriterMaps) {
  std::atomic<int> given_back{0};
  const auto first = join([&](FileIdentity file) {
    EXPECT_EQ(file, unmapped_file_);
    return ++given_back == 3;  // The first two times it cannot be done.
  });
  ASSERT_FALSE(first->enter(unmapped_file_, false).by_others);
  ASSERT_TRUE(first->serve(unmapped_file_));
  const auto second = join();
  const auto entered = second->enter(unmapped_file_, true);
  EXPECT_EQ(given_back, 3);
  EXPECT_TRUE(entered.by_others) << "it is still served, as nobody has said otherwise";
}

TEST_F(MappingTableTest, WhoHasGivenBackIsInNobodysWay) {
  std::unique_ptr<MappingTable> first;
  first = join([&](FileIdentity file) {
    first->stop_serving(file);
    return true;
  });
  ASSERT_FALSE(first->enter(unmapped_file_, true).by_others);
  ASSERT_TRUE(first->serve(unmapped_file_));
  const auto second = join();
  const auto entered = second->enter(unmapped_file_, false);
  EXPECT_FALSE(entered.by_others) << "the first does not map it any more";
  EXPECT_TRUE(second->serve(unmapped_file_));
}

TEST_F(MappingTableTest, WhatTheKernelMapsElsewhereIsNotServed) {
  const FileIdentity file = make_mapped_file();
  const auto first = join();
  ASSERT_FALSE(first->enter(file, true).by_others);
  const auto second = join();
  EXPECT_TRUE(second->enter(file, false).by_others);
  ::munmap(mapped_, kernel_page_bytes);
  mapped_ = nullptr;
  EXPECT_FALSE(second->enter(file, false).by_others) << "it is not mapped any more";
}

TEST_F(MappingTableTest, WhoIsAboutToMapCounts) {
  const auto first = join();
  const auto second = join();
  {
    const auto coming = first->enter(unmapped_file_, true);
    EXPECT_TRUE(second->enter(unmapped_file_, true).by_others);
    EXPECT_FALSE(second->serve(unmapped_file_));
  }
  EXPECT_FALSE(second->enter(unmapped_file_, true).by_others) << "the first has not mapped it";
}

TEST_F(MappingTableTest, AFullTableIsClearedOfWhatIsOver) {
  const auto first = join();
  const auto second = join();
  std::vector<MappingTable::Entered> coming;
  for (std::uint64_t number = 1; number <= 4096; ++number) {
    coming.push_back(first->enter({9, number}, true));
    ASSERT_FALSE(coming.back().by_others);
  }
  EXPECT_TRUE(second->enter(unmapped_file_, true).by_others) << "there is no room to say so";
  coming.clear();
  bool full = true;
  for (int attempt = 0; attempt < 1100 && full; ++attempt) {
    full = second->enter(unmapped_file_, true).by_others;
  }
  EXPECT_FALSE(full) << "of what the first has not mapped there is still an entry";
}

// Of two that serve a file at a time one at most may write.
TEST_F(MappingTableTest, TwoThatComeAtATimeDoNotBothServe) {
  constexpr int rounds = 2000;
  std::atomic<int> serving{0};
  std::atomic<int> both{0};
  std::atomic<int> served{0};
  const auto serve_again_and_again = [&] {
    std::unique_ptr<MappingTable> table;
    std::atomic<bool> mine{false};
    const auto give_back = [&] {
      if (mine.exchange(false)) {
        --serving;
      }
    };
    table = join([&](FileIdentity file) {
      give_back();
      table->stop_serving(file);
      return true;
    });
    for (int round = 0; round < rounds; ++round) {
      const auto entered = table->enter(unmapped_file_, true);
      if (entered.by_others || !table->serve(unmapped_file_)) {
        continue;
      }
      ++served;
      mine = true;
      both += ++serving > 1 ? 1 : 0;
      give_back();
      table->stop_serving(unmapped_file_);
    }
    table->stop_answering();
  };
  std::thread other(serve_again_and_again);
  serve_again_and_again();
  other.join();
  EXPECT_EQ(both, 0);
  EXPECT_GT(served, 0);
}

// Here the kernel maps the file for a child, again and again; whoever looks for what it maps meanwhile may find that it
// maps nothing, and must not take away what it says of the mapping that it has made since.
TEST_F(MappingTableTest, WhatIsMappedAnewWhileOthersLookCounts) {
  const FileIdentity file = make_mapped_file();
  const FileDescriptor opened(::open((folder_.path() + "/file").c_str(), O_RDWR));
  void* const memory = ::mmap(nullptr, kernel_page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& child_maps = *new (memory) std::atomic<std::uint64_t>(0);  // While it is odd.
  const pid_t child = start([&] {
    ::munmap(mapped_, kernel_page_bytes);
    std::thread([&] {
      MappingTable& table = *join().release();
      for (unsigned round = 0;; ++round) {
        void* mapping = nullptr;
        {
          const auto entered = table.enter(file, true);
          mapping = ::mmap(nullptr, kernel_page_bytes, PROT_READ, MAP_SHARED, opened.get(), 0);
        }
        ++child_maps;
        ::usleep(round * 7 % 200);
        ++child_maps;
        ::munmap(mapping, kernel_page_bytes);
        ::usleep(round * 13 % 200);
      }
    }).detach();
  });
  std::mutex change;
  std::atomic<bool> serving{false};
  std::unique_ptr<MappingTable> table;
  table = join([&](FileIdentity) {
    const std::lock_guard held(change);
    serving = false;
    table->stop_serving(file);
    return true;
  });
  int both = 0;
  int served = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) {
    {
      const auto entered = table->enter(file, true);
      const std::lock_guard held(change);
      serving = !entered.by_others && table->serve(file);
    }
    served += serving ? 1 : 0;
    for (int look = 0; look < 3; ++look) {
      const std::uint64_t mapped = child_maps;
      const bool at_a_time = mapped % 2 != 0 && serving;
      both += at_a_time && child_maps == mapped ? 1 : 0;
      ::usleep(50);
    }
    const std::lock_guard held(change);
    serving = false;
    table->stop_serving(file);
  }
  kill_and_wait(child);
  ::munmap(memory, kernel_page_bytes);
  EXPECT_EQ(both, 0);
  EXPECT_GT(served, 0);
}

TEST_F(MappingTableTest, WhoServesIsAskedAlsoWhereTheTableIsFull) {
  std::atomic<int> given_back{0};
  std::unique_ptr<MappingTable> first;
  first = join([&](FileIdentity file) {
    ++given_back;
    first->stop_serving(file);
    return true;
  });
  ASSERT_FALSE(first->enter(unmapped_file_, true).by_others);
  ASSERT_TRUE(first->serve(unmapped_file_));
  std::vector<MappingTable::Entered> coming;
  for (std::uint64_t number = 1; number < 4096; ++number) {
    coming.push_back(first->enter({9, number}, true));
    ASSERT_FALSE(coming.back().by_others);
  }
  EXPECT_TRUE(join()->enter(unmapped_file_, true).by_others);
  EXPECT_EQ(given_back, 1);
}

TEST_F(MappingTableTest, WhoMayNotServeAMappingMoreIsStillAskedForTheFirst) {
  std::atomic<bool> free{false};
  std::atomic<bool> given_back{false};
  std::unique_ptr<MappingTable> first;
  first = join([&](FileIdentity file) {
    if (free) {
      given_back = true;
      first->stop_serving(file);
    }
    return free.load();
  });
  ASSERT_FALSE(first->enter(unmapped_file_, false).by_others);
  ASSERT_TRUE(first->serve(unmapped_file_));
  const auto another = first->enter(unmapped_file_, false);
  EXPECT_FALSE(another.by_others);
  std::atomic<bool> begun{false};
  std::thread writer([&] {
    const auto second = join();
    begun = true;
    const auto entered = second->enter(unmapped_file_, true);
    EXPECT_TRUE(given_back) << "it did not wait";
  });
  while (!begun || first->serve(unmapped_file_)) {
    ::usleep(100);
  }
  free = true;
  writer.join();
}

// As one that was killed leaves it, before another version of Tiermap comes.
TEST_F(MappingTableTest, AnotherVersionsTableIsReplacedWhereNobodyHasIt) {
  const auto make_another_versions = [&] { std::fstream(path_, std::ios::in | std::ios::out).seekp(6).write("99", 2); };
  {
    const auto table = join();
    make_another_versions();
    EXPECT_THROW(join(), PlatformError) << "somebody has it";
  }
  std::filesystem::remove(path_);
  kill_and_wait(start([&] { static_cast<void>(join().release()); }));
  make_another_versions();
  EXPECT_NO_THROW(join());
}

TEST_F(MappingTableTest, ATableThatSomebodyHasRemovedIsNobodysToRemove) {
  const auto first = join();
  std::filesystem::remove(path_);
  const auto second = join();
  first->leave();
  EXPECT_TRUE(std::filesystem::exists(path_)) << "it is the second one's";
}

TEST_F(MappingTableTest, ALimitOfFileSizesIsNotMet) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  EXPECT_THROW(join(), PlatformError);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  const auto first = join();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  EXPECT_NO_THROW(join()) << "it has its size";
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST_F(MappingTableTest, WhatIsNoTableIsRefused) {
  std::filesystem::create_directory(path_);
  EXPECT_THROW(join(), PlatformError);
  std::filesystem::remove(path_);
  std::ofstream(path_) << "something else";
  EXPECT_THROW(join(), PlatformError);
  std::filesystem::remove(path_);
  EXPECT_NO_THROW(join());
}

}  // namespace
}  // namespace tiermap
