// Who closes the gate of a vector's homes gets to do so, whatever others do that pass it.
#include "cluster/job/placing_gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

using namespace std::chrono_literals;

/// Each stays until another one has come after it, or for a while if none comes: left alone, somebody is always inside.
TEST(PlacingGateTest, ItIsClosedThoughSomebodyIsAlwaysInside) {
  PlacingGate gate;
  std::atomic<std::uint64_t> entered{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> passing;
  passing.reserve(3);
  for (int thread = 0; thread < 3; ++thread) {
    passing.emplace_back([&] {
      while (!over) {
        const PlacingGate::Pass pass(gate);
        const std::uint64_t own = ++entered;
        const auto end = std::chrono::steady_clock::now() + 50ms;
        while (!over && entered == own && std::chrono::steady_clock::now() < end) {
          std::this_thread::sleep_for(100us);
        }
      }
    });
  }
  while (entered < 3) {
    std::this_thread::yield();
  }
  std::atomic<int> closed{0};
  std::thread closing([&] {
    for (int turn = 0; turn < 3; ++turn) {
      const PlacingGate::Closed guard(gate);
      ++closed;
    }
  });
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (closed < 3 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(closed, 3);
  over = true;
  closing.join();
  for (std::thread& thread : passing) {
    thread.join();
  }
}

/// As a copy into memory that is itself a shared vector's: the page that it touches is fetched by another thread.
TEST(PlacingGateTest, WhatOneInsideDependsOnPassesWhileItIsBeingClosed) {
  PlacingGate gate;
  std::optional<PlacingGate::Pass> pass;
  pass.emplace(gate);
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    const PlacingGate::Closed guard(gate);
    closed = true;
  });
  for (int turn = 0; turn < 20; ++turn) {
    std::this_thread::sleep_for(1ms);
    std::thread([&] { const PlacingGate::Pass other(gate); }).join();
  }
  EXPECT_FALSE(closed);
  pass.reset();
  closing.join();
  EXPECT_TRUE(closed);
}

}  // namespace
}  // namespace tiermap
