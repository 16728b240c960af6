// What becomes of the processes that have a part in the table: they die, fork, stop, are busy, and share the memory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
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
#include "platform/process_maps.hpp"

namespace tiermap {
namespace {

MappingTable::Share take_at_once(std::size_t /*processes*/) {
  return MappingTable::Share::taken;
}

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
        return is_first ? MappingTable::Share::in_part : MappingTable::Share::taken;
      },
      path_);
  const auto served = first->enter(unmapped_file_, true);
  ASSERT_TRUE(first->serve(unmapped_file_));
  first->share_memory();
  MappingTable second([](FileIdentity) { return true; }, take_at_once, path_);
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
    auto* table = new MappingTable(give_back, take_at_once, path_);
    table->share_memory();
  });
  MappingTable first(
      give_back,
      [&](std::size_t sharers) {
        if (refused++ == 0) {  // It is told again what it could not do.
          return MappingTable::Share::in_part;
        }
        told = sharers;
        return MappingTable::Share::taken;
      },
      path_);
  EXPECT_EQ(first.share_memory(), 2U);
  {
    MappingTable third(give_back, take_at_once, path_);
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

// What it has not given up yet it takes again; and what stood in the way of a share is tried once more.
TEST_F(MappingTableTest, AShareThatIsTakenInPartIsGoneOnWithThoughTheOtherHasGone) {
  std::atomic<int> told_of_two{0};
  std::atomic<int> told_of_one{0};
  const auto wait_for = [](const std::atomic<int>& count, int least) {
    while (count < least) {
      ::usleep(1000);
    }
  };
  MappingTable first([](FileIdentity) { return true; },
                     [&](std::size_t sharers) {
                       if (sharers == 2) {
                         ++told_of_two;
                         return MappingTable::Share::in_part;
                       }
                       return ++told_of_one < 3 ? MappingTable::Share::in_the_way : MappingTable::Share::taken;
                     },
                     path_);
  EXPECT_EQ(first.share_memory(), 1U);
  {
    MappingTable second([](FileIdentity) { return true; }, take_at_once, path_);
    EXPECT_EQ(second.share_memory(), 2U);
    wait_for(told_of_two, 2);
  }
  wait_for(told_of_one, 3);
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

// Before Linux 6.8 a file on overlayfs may be listed by another number than its own: that its own is not there says
// nothing. What a process is told of the kernel's release can be changed; the device here has no major number.
TEST_F(MappingTableTest, WhatTheKernelMayListByAnotherNumberCounts) {
  int seen[2];
  ASSERT_EQ(::pipe(seen), 0);
  const pid_t owner = start([&] { join().release()->inherit({{unmapped_file_, true}}); });
  for (const bool on_old_kernel : {true, false}) {
    const pid_t child = start([&] {
      if (on_old_kernel && ::personality(UNAME26) == -1) {
        ::_exit(1);
      }
      const char by_others = join()->enter(unmapped_file_, false).by_others ? 'y' : 'n';
      static_cast<void>(::write(seen[1], &by_others, 1));
    });
    char by_others = 0;
    EXPECT_EQ(::read(seen[0], &by_others, 1), 1);
    EXPECT_EQ(by_others, on_old_kernel || !is_listed_by_number(unmapped_file_) ? 'y' : 'n');
    kill_and_wait(child);
  }
  kill_and_wait(owner);
  ::close(seen[0]);
  ::close(seen[1]);
}

TEST(ProcessMapsTest, KernelsListFilesByTheirOwnNumbersFromSixEightOn) {
  for (const char* const release : {"6.8.0", "6.18.5-cloud", "7.0", "10.1.2"}) {
    EXPECT_TRUE(lists_own_numbers(release)) << release;
  }
  for (const char* const release : {"6.7.12", "6.1.0-13-amd64", "5.15.0", "2.6.78", "", "unknown"}) {
    EXPECT_FALSE(lists_own_numbers(release)) << release;
  }
  EXPECT_TRUE(is_listed_by_number({makedev(254, 1), 7}));
}

TEST(ProcessMapsTest, WhatNobodyCanTellMayBeMapped) {
  const FileIdentity file{makedev(254, 1), 7};
  EXPECT_TRUE(MappedNumbers().may_contain(file));
  EXPECT_TRUE(MappedNumbers({6, 7}).may_contain(file));
  EXPECT_FALSE(MappedNumbers({6}).may_contain(file));
  const FileIdentity without_device{0, 7};
  EXPECT_EQ(MappedNumbers({6}).may_contain(without_device), !is_listed_by_number(without_device));
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
