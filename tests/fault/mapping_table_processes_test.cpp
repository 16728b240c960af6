// What becomes of the processes that have a part in the table: they die, fork, stop, are busy, and share the memory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fault/mapping_table_fixture.hpp"

namespace tiermap {
namespace {

// As one does that is in the middle of a long sync(): for longer than one is waited for that does not answer.
TEST_F(MappingTableTest, WhoCannotGiveBackYetIsWaitedFor) {
  constexpr FileIdentity another_file{1, 3};
  std::unique_ptr<MappingTable> first;
  std::atomic<bool> given_back{false};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(11);
  first = join([&](FileIdentity file) {
    if (file == another_file) {
      std::this_thread::sleep_until(end);
      return true;
    }
    if (std::chrono::steady_clock::now() < end + std::chrono::milliseconds(100)) {
      return false;
    }
    given_back = true;
    first->stop_serving(file);
    return true;
  });
  std::vector<MappingTable::Entered> served;
  for (const FileIdentity file : {unmapped_file_, another_file}) {
    served.push_back(first->enter(file, true));
    ASSERT_TRUE(first->serve(file));
  }
  const auto second = join();
  std::thread other([&] { static_cast<void>(second->enter(another_file, true)); });
  const auto entered = second->enter(unmapped_file_, true);
  EXPECT_TRUE(given_back);
  EXPECT_FALSE(entered.kept_by_writer);
  other.join();
}

// It may have much to write for that, and answers before it goes on with the next step.
TEST_F(MappingTableTest, WhoTakesAnotherShareOfTheMemoryIsWaitedFor) {
  std::unique_ptr<MappingTable> first;
  std::atomic<int> steps_begun{0};
  std::atomic<int> steps_before{0};
  first = std::make_unique<MappingTable>(
      [&](FileIdentity file) {
        steps_before = steps_begun.load();
        first->stop_serving(file);
        return true;
      },
      [&](std::size_t) {
        const bool is_first = ++steps_begun == 1;
        std::this_thread::sleep_for(std::chrono::seconds(is_first ? 11 : 0));
        return !is_first;
      },
      path_);
  const auto served = first->enter(unmapped_file_, true);
  ASSERT_TRUE(first->serve(unmapped_file_));
  first->share_memory();
  MappingTable second([](FileIdentity) { return true; }, [](std::size_t) { return true; }, path_);
  second.share_memory();
  while (steps_begun == 0) {
    ::usleep(1000);
  }
  EXPECT_FALSE(second.enter(unmapped_file_, true).kept_by_writer);
  EXPECT_EQ(steps_before, 1);
}

TEST_F(MappingTableTest, WhoDoesNotAnswerIsNotWaitedForLongAndThatIsSaid) {
  constexpr FileIdentity read_file{1, 3};
  const pid_t child = start([&] {
    MappingTable& table = *join().release();
    for (const FileIdentity file : {unmapped_file_, read_file}) {
      static_cast<void>(table.enter(file, file == unmapped_file_));
      static_cast<void>(table.serve(file));
    }
  });
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  const auto table = join();
  bool reads_beside_writer = false;
  std::thread reader([&] { reads_beside_writer = table->enter(unmapped_file_, false).kept_by_writer; });
  EXPECT_FALSE(table->enter(read_file, true).kept_by_writer) << "nothing can be lost";
  reader.join();
  EXPECT_TRUE(reads_beside_writer);
  kill_and_wait(child);
}

TEST_F(MappingTableTest, TheDeadAreForgotten) {
  const pid_t child = start([&] {
    auto* table = join().release();
    if (table->enter(unmapped_file_, true).by_others || !table->serve(unmapped_file_)) {
      ::_exit(1);
    }
  });
  const auto table = join();
  kill_and_wait(child);
  EXPECT_FALSE(table->enter(unmapped_file_, true).by_others);
  EXPECT_TRUE(table->serve(unmapped_file_));
}

TEST_F(MappingTableTest, AChildHasNothingOfItsParents) {
  auto table = join();
  ASSERT_FALSE(table->enter(unmapped_file_, true).by_others);
  ASSERT_TRUE(table->serve(unmapped_file_));
  const pid_t child = start([&] { table.release()->forget_parents(); });
  table.reset();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "the child has not joined";
  kill_and_wait(child);
}

TEST_F(MappingTableTest, WhatAChildHasFromItsParentCounts) {
  const FileIdentity file = make_mapped_file();
  const pid_t child = start([&] { join().release()->inherit({{file, true}}); });
  const auto table = join();
  EXPECT_TRUE(table->enter(file, false).by_others);
  kill_and_wait(child);
  EXPECT_FALSE(table->enter(file, false).by_others);
}

TEST_F(MappingTableTest, WhoSharesTheMemoryIsToldHowManyDo) {
  std::atomic<std::size_t> told{0};
  int refused = 0;
  const auto give_back = [](FileIdentity) { return true; };
  const auto wait_until_told = [&](std::size_t sharers) {
    while (told != sharers) {
      ::usleep(1000);
    }
  };
  // First of all: ThreadSanitizer lets no child have threads whose parent has some.
  const pid_t child = start([&] {
    auto* table = new MappingTable(give_back, [](std::size_t) { return true; }, path_);
    table->share_memory();
  });
  MappingTable first(
      give_back,
      [&](std::size_t sharers) {
        if (refused++ == 0) {  // It is told again what it could not do.
          return false;
        }
        told = sharers;
        return true;
      },
      path_);
  EXPECT_EQ(first.share_memory(), 2U);
  {
    MappingTable third(give_back, [](std::size_t) { return true; }, path_);
    EXPECT_EQ(third.share_memory(), 3U);
    wait_until_told(3);
  }
  wait_until_told(2);
  kill_and_wait(child);
  wait_until_told(1);
  EXPECT_GT(refused, 1);
  const auto who_only_maps = join();
  EXPECT_EQ(first.share_memory(), 1U);
}

// Of such a process /proc shows no mappings, though its other threads have them.
TEST_F(MappingTableTest, AProcessWhoseFirstThreadHasEndedCounts) {
  const FileIdentity file = make_mapped_file();
  const pid_t child = start([&] {
    ::signal(SIGUSR1, [](int) { ::syscall(SYS_exit, 0); });
    join().release()->inherit({{file, true}});
    std::thread([] {
      for (;;) {
        ::pause();
      }
    }).detach();
  });
  const auto table = join();
  EXPECT_TRUE(table->enter(file, false).by_others);
  ::kill(child, SIGUSR1);
  const auto has_mappings = [&] {
    std::ifstream maps("/proc/" + std::to_string(child) + "/maps");
    return maps.peek() != std::ifstream::traits_type::eof();
  };
  while (has_mappings()) {
    ::usleep(1000);
  }
  EXPECT_TRUE(table->enter(file, false).by_others);
  kill_and_wait(child);
  EXPECT_FALSE(table->enter(file, false).by_others);
}

TEST_F(MappingTableTest, WhoHasBeenStoppedIsWaitedForOnce) {
  const pid_t child = start([&] {
    auto* table = join([](FileIdentity) { return true; }).release();
    if (table->enter(unmapped_file_, true).by_others || !table->serve(unmapped_file_)) {
      ::_exit(1);
    }
  });
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  const auto table = join();
  EXPECT_TRUE(table->enter(unmapped_file_, true).by_others);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(table->enter(unmapped_file_, true).by_others);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  kill_and_wait(child);
  EXPECT_FALSE(table->enter(unmapped_file_, true).by_others);
}

}  // namespace
}  // namespace tiermap
