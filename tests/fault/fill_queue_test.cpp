// The queue between faults and those who fill: order, batches, closing, and what a full one says.
#include "fault/fill_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

FillRequest fault(std::uint64_t page) {
  FillRequest request;
  request.first = page;
  return request;
}

FillRequest prefetch(std::uint64_t page) {
  FillRequest request = fault(page);
  request.kind = FillKind::prefetch;
  return request;
}

TEST(FillQueue, HandsOutInOrderAndFaultsBeforePrefetches) {
  FillQueue queue;
  FillQueue::Batch batch;
  ASSERT_TRUE(queue.push(prefetch(1)));
  ASSERT_TRUE(queue.push(fault(2)));
  ASSERT_TRUE(queue.push(fault(3)));
  std::vector<std::uint64_t> order;
  while (const std::size_t taken = queue.pop(batch, batch.size(), false)) {
    for (std::size_t index = 0; index < taken; ++index) {
      order.push_back(batch[index].first);
    }
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{2, 3, 1}));
}

TEST(FillQueue, LittleWorkGoesOutOneByOne) {
  FillQueue queue;
  FillQueue::Batch batch;
  queue.push(fault(1));
  queue.push(fault(2));
  EXPECT_EQ(queue.pop(batch, batch.size(), false), 1U);
  EXPECT_EQ(queue.pop(batch, batch.size(), false), 1U);
  EXPECT_EQ(queue.pop(batch, batch.size(), false), 0U);
}

TEST(FillQueue, WhatMayTakeLongIsInNoBatch) {
  FillQueue queue;
  FillQueue::Batch batch;
  for (std::uint64_t page = 0; page < 40; ++page) {
    FillRequest request = fault(page);
    request.alone = page == 0 || page == 5;
    queue.push(request);
  }
  for (const std::size_t expected : {1U, 4U, 1U, 16U}) {
    EXPECT_EQ(queue.pop(batch, batch.size(), false), expected);
  }
  EXPECT_EQ(batch[0].first, 6U);
}

TEST(FillQueue, MuchWorkGoesOutInBatchesOfSixteen) {
  FillQueue queue;
  FillQueue::Batch batch;
  for (std::uint64_t page = 0; page < 40; ++page) {
    queue.push(fault(page));
  }
  EXPECT_EQ(queue.pop(batch, batch.size(), false), 16U);
  for (std::uint64_t index = 0; index < 16; ++index) {
    EXPECT_EQ(batch[index].first, index);
  }
  EXPECT_EQ(queue.pop(batch, 5, false), 5U) << "no more than the caller can take";
}

TEST(FillQueue, WithIdleWorkersWorkIsSpread) {
  FillQueue queue;
  std::atomic<int> took{0};
  std::atomic<std::size_t> most{0};
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker) {
    workers.emplace_back([&] {
      FillQueue::Batch batch;
      while (const std::size_t taken = queue.pop(batch, batch.size(), true)) {
        took += static_cast<int>(taken);
        most = std::max(most.load(), taken);
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // All of them idle.
  for (std::uint64_t page = 0; page < 4; ++page) {
    queue.push(fault(page));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  queue.close();
  for (std::thread& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(took.load(), 4);
  EXPECT_EQ(most.load(), 1U);
}

TEST(FillQueue, AWaiterIsWokenByWorkAndByClosing) {
  FillQueue queue;
  std::atomic<int> state{0};
  std::thread worker([&] {
    FillQueue::Batch batch;
    EXPECT_EQ(queue.pop(batch, batch.size(), true), 1U);
    state = 1;
    EXPECT_EQ(queue.pop(batch, batch.size(), true), 0U);
    state = 2;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(state.load(), 0);
  queue.push(fault(1));
  while (state.load() == 0) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(state.load(), 1);
  queue.close();
  worker.join();
  EXPECT_EQ(state.load(), 2);
}

TEST(FillQueue, AClosedQueueTakesNothingAndStillHandsOutWhatItHas) {
  FillQueue queue;
  FillQueue::Batch batch;
  queue.push(fault(1));
  queue.close();
  EXPECT_FALSE(queue.push(fault(2)));
  EXPECT_EQ(queue.pop(batch, batch.size(), true), 1U);
  EXPECT_EQ(queue.pop(batch, batch.size(), true), 0U);
}

TEST(FillQueue, AFullQueueSaysSoAndLosesNothing) {
  FillQueue queue;
  FillQueue::Batch batch;
  std::uint64_t pushed = 0;
  while (queue.push(fault(pushed))) {
    ++pushed;
    ASSERT_LT(pushed, 10'000'000U);
  }
  EXPECT_GE(pushed, 10'000U);
  EXPECT_TRUE(queue.push(prefetch(1))) << "prefetches have places of their own";
  std::uint64_t next = 0;
  while (next < pushed) {
    const std::size_t taken = queue.pop(batch, batch.size(), false);
    ASSERT_GT(taken, 0U);
    for (std::size_t index = 0; index < taken && next < pushed; ++index) {
      ASSERT_EQ(batch[index].first, next++);
    }
  }
  EXPECT_TRUE(queue.push(fault(0)));
}

TEST(FillQueue, ManyThreadsLoseAndDoubleNothing) {
  FillQueue queue;
  constexpr std::uint64_t each = 20'000;
  std::vector<std::atomic<int>> seen(3 * each);
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&] {
      FillQueue::Batch batch;
      while (const std::size_t taken = queue.pop(batch, batch.size(), true)) {
        for (std::size_t index = 0; index < taken; ++index) {
          seen[batch[index].first].fetch_add(1);
        }
      }
    });
  }
  std::vector<std::thread> pushers;
  for (std::uint64_t pusher = 0; pusher < 3; ++pusher) {
    pushers.emplace_back([&, pusher] {
      for (std::uint64_t page = 0; page < each; ++page) {
        while (!queue.push(page % 2 == 0 ? fault(pusher * each + page) : prefetch(pusher * each + page))) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& pusher : pushers) {
    pusher.join();
  }
  queue.close();
  for (std::thread& worker : workers) {
    worker.join();
  }
  for (const std::atomic<int>& count : seen) {
    ASSERT_EQ(count.load(), 1);
  }
}

}  // namespace
}  // namespace tiermap
