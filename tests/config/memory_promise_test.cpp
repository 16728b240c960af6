// What the caches and tiers of a process may still take is counted once, whoever asks.
#include "platform/memory_promise.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "config/size.hpp"

namespace tiermap {
namespace {

/// More than any machine has.
constexpr std::uint64_t everything = std::uint64_t{1} << 60;
constexpr std::uint64_t least = MemoryPromise::least_left_bytes;

TEST(MemoryPromise, WhatIsPromisedIsLeftToNobodyElse) {
  const std::uint64_t before = MemoryPromise::left_bytes();
  ASSERT_GT(before, 4 * least);
  {
    const MemoryPromise all(everything);
    EXPECT_EQ(MemoryPromise::left_bytes(), least);
    EXPECT_EQ(parse_budget("50%", "--budget"), least / 2);
    EXPECT_EQ(MemoryPromise([](std::uint64_t left_bytes) { return left_bytes; }).bytes(), least);
  }
  EXPECT_GT(MemoryPromise::left_bytes(), before / 2);
}

TEST(MemoryPromise, WhatIsSparedForTheProgramLeavesTheLeast) {
  const auto all_of = [](std::uint64_t left_bytes) { return left_bytes; };
  EXPECT_GT(MemoryPromise(all_of, everything).bytes(), MemoryPromise::left_bytes() / 2);
  const MemoryPromise all(everything);
  EXPECT_EQ(MemoryPromise(all_of, everything).bytes(), least);
}

TEST(MemoryPromise, WhatIsTakenIsNotCountedTwice) {
  MemoryPromise all(everything);
  std::uint64_t taken = 0;
  all.count_taken([&] { return taken; });
  EXPECT_EQ(MemoryPromise::left_bytes(), least);
  taken = everything;
  EXPECT_GT(MemoryPromise::left_bytes(), 2 * least);
  taken = everything + 1;  // For a moment.
  EXPECT_GT(MemoryPromise::left_bytes(), 2 * least);
}

TEST(MemoryPromise, MayBecomeLessAndMove) {
  MemoryPromise first(everything);
  MemoryPromise second(std::move(first));
  first = std::move(second);
  EXPECT_EQ(first.bytes(), everything);
  EXPECT_EQ(MemoryPromise::left_bytes(), least);
  first.change(1);
  EXPECT_EQ(first.bytes(), 1U);
  EXPECT_GT(MemoryPromise::left_bytes(), 2 * least);
  MemoryPromise nothing;
  nothing.change(everything);
  nothing.count_taken([] { return std::uint64_t{1}; });
  EXPECT_EQ(nothing.bytes(), 0U);
  EXPECT_GT(MemoryPromise::left_bytes(), 2 * least);
}

TEST(MemoryPromise, NothingIsPromisedByWhoThrows) {
  const auto refuse = [](std::uint64_t) -> std::uint64_t { throw std::runtime_error("too little"); };
  EXPECT_THROW(MemoryPromise{refuse}, std::runtime_error);
  EXPECT_GT(MemoryPromise::left_bytes(), 2 * least);
}

TEST(MemoryPromise, ThreadsThatAskAtOnceAreNotPromisedTheSame) {
  const std::uint64_t before = MemoryPromise::left_bytes();
  constexpr std::size_t threads = 8;
  std::vector<MemoryPromise> promises(threads);
  std::atomic<std::size_t> waiting = threads;
  std::vector<std::thread> running;
  for (MemoryPromise& promise : promises) {
    running.emplace_back([&] {
      for (--waiting; waiting > 0;) {
        std::this_thread::yield();
      }
      promise = MemoryPromise([](std::uint64_t left_bytes) { return left_bytes / 2; });
    });
  }
  std::uint64_t all = 0;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    running[thread].join();
    all += promises[thread].bytes();
  }
  EXPECT_LT(all, before / 4 * 5 + threads * least);  // Others may give memory back meanwhile.
}

/// A child that asks, and promises something itself; 0 if what its parent promised does not count there.
int exit_code_of_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const bool is_left = MemoryPromise::left_bytes() > 2 * least;
    const MemoryPromise own(everything);
    ::_exit(is_left && MemoryPromise::left_bytes() == least ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// The machine has less by what is taken; the limit is what it was.
TEST(MemoryPromise, OfALimitOfAddressesAllThatIsPromisedIsTakenOff) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{everything / 4, RLIM_INFINITY};  // Not to be reached.
    bool is_right = ::setrlimit(RLIMIT_AS, &limit) == 0;
    MemoryPromise most(everything / 16 - 2 * least);
    most.count_taken([] { return everything; });
    is_right = is_right && MemoryPromise::left_bytes() == 2 * least;
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(MemoryPromise, AForkedChildHasNoneOfItsParents) {
  const MemoryPromise all(everything);
  EXPECT_EQ(exit_code_of_child(), 0);
  EXPECT_EQ(MemoryPromise::left_bytes(), least) << "what a child promises is its own";
}

TEST(MemoryPromise, AChildFindsNothingLockedThatAThreadOfItsParentHad) {
  std::atomic<bool> stop = false;
  std::thread promising([&] {
    while (!stop) {
      const MemoryPromise some([](std::uint64_t left_bytes) { return left_bytes / 4; });
    }
  });
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_EQ(exit_code_of_child(), 0);
  }
  stop = true;
  promising.join();
}

}  // namespace
}  // namespace tiermap
