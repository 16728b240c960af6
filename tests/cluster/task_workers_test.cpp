// In which order, how many at a time, and by how many threads a server's tasks are done. Nothing here is timed: tasks
// wait until what they are to meet has come, for a minute at most.
#include "cluster/server/task_workers.hpp"

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cluster/wire_fixture.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

const int set_one = 1;
const int set_two = 2;

TaskRange reading(std::uint64_t begin, std::uint64_t end, const void* set = &set_one) {
  return TaskRange::reading(set, begin, end - begin);
}
TaskRange writing(std::uint64_t begin, std::uint64_t end, const void* set = &set_one) {
  return TaskRange::writing(set, begin, end - begin);
}

/// Opened once, and then open.
class Gate {
 public:
  void open() {
    opened_.store(true);
    opened_.notify_all();
  }
  void pass() const { opened_.wait(false); }

 private:
  std::atomic<bool> opened_{false};
};

/// Returns in all tasks when as many are in it at once.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}
  bool attend() {
    ++come_;
    return comes_true([&] { return come_ >= size_; });
  }

 private:
  const int size_;
  std::atomic<int> come_{0};
};

TEST(TaskWorkersTest, WhatOverlapsIsDoneInTheOrderInWhichItCame) {
  std::mt19937_64 random(1);
  std::vector<int> last(64, -1);  // Which write was the last, of each byte: of writers alone at a time.
  std::atomic<int> wrong{0};
  {
    TaskWorkers workers({2, 8});
    std::vector<int> expected(64, -1);
    for (int number = 0; number < 3000; ++number) {
      const std::uint64_t begin = random() % 60;
      const std::uint64_t end = begin + 1 + random() % 4;
      const TaskSize size = random() % 2 == 0 ? TaskSize::small : TaskSize::large;
      if (random() % 3 == 0) {
        std::fill(expected.begin() + static_cast<int>(begin), expected.begin() + static_cast<int>(end), number);
        workers.give(writing(begin, end), size, [&, begin, end, number] {
          std::fill(last.begin() + static_cast<int>(begin), last.begin() + static_cast<int>(end), number);
        });
      } else {
        const std::vector<int> seen(expected.begin() + static_cast<int>(begin),
                                    expected.begin() + static_cast<int>(end));
        workers.give(reading(begin, end), size, [&, begin, seen] {
          wrong += std::equal(seen.begin(), seen.end(), last.begin() + static_cast<int>(begin)) ? 0 : 1;
        });
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(TaskWorkersTest, ReadsAreDoneTogetherUntilAWriteIsMet) {
  std::atomic<bool> written{false};
  std::atomic<int> right{0};
  {
    TaskWorkers workers({1, 8});
    Meeting before(3);
    Meeting after(3);
    for (int number = 0; number < 3; ++number) {
      workers.give(reading(0, 100), TaskSize::small, [&] { right += before.attend() && !written ? 1 : 0; });
    }
    workers.give(writing(50, 60), TaskSize::small, [&] { written = true; });
    for (int number = 0; number < 3; ++number) {
      workers.give(reading(0, 100), TaskSize::small, [&] { right += after.attend() && written ? 1 : 0; });
    }
  }
  EXPECT_EQ(right, 6);
}

TEST(TaskWorkersTest, WritesOfOtherBytesAreDoneTogether) {
  std::atomic<int> right{0};
  {
    TaskWorkers workers({1, 8});
    Meeting all(4);
    workers.give(writing(0, 10), TaskSize::large, [&] { right += all.attend() ? 1 : 0; });
    workers.give(writing(10, 20), TaskSize::large, [&] { right += all.attend() ? 1 : 0; });
    workers.give(writing(5, 15, &set_two), TaskSize::large, [&] { right += all.attend() ? 1 : 0; });
    workers.give(TaskSize::large, [&] { right += all.attend() ? 1 : 0; });
  }
  EXPECT_EQ(right, 4);
}

TEST(TaskWorkersTest, SmallOnesAreDoneWhileALargeOneStandsStill) {
  TaskWorkers workers({1, 1});
  Gate gate;
  std::atomic<int> small{0};
  std::atomic<int> large{0};
  workers.give(writing(0, 1 << 20), TaskSize::large, [&] { gate.pass(), ++large; });
  workers.give(writing(1 << 20, 2 << 20), TaskSize::large, [&] { ++large; });
  for (std::uint64_t number = 0; number < 10; ++number) {
    workers.give(writing(2 << 20, 3 << 20), TaskSize::small, [&] { ++small; });
  }
  EXPECT_TRUE(comes_true([&] { return small == 10; }));
  EXPECT_EQ(large, 0);
  gate.open();
  EXPECT_TRUE(comes_true([&] { return large == 2; }));
}

TEST(TaskWorkersTest, WhoWaitsForAnotherTakesNoThread) {
  TaskWorkers workers({1, 2});
  Gate gate;
  std::atomic<bool> other{false};
  std::atomic<int> behind{0};
  workers.give(writing(0, 10), TaskSize::small, [&] { gate.pass(); });
  for (int number = 0; number < 20; ++number) {
    workers.give(writing(0, 10), TaskSize::small, [&] { ++behind; });
  }
  workers.give(writing(10, 20), TaskSize::small, [&] { other = true; });
  EXPECT_TRUE(comes_true([&] { return other.load(); }));
  EXPECT_EQ(behind, 0);
  EXPECT_TRUE(workers.conflicts(reading(5, 6)));
  EXPECT_FALSE(workers.conflicts(reading(5, 6, &set_two)));
  gate.open();
  EXPECT_TRUE(comes_true([&] { return !workers.conflicts(writing(0, 20)); }));
  EXPECT_EQ(behind, 20);
}

TEST(TaskWorkersTest, ThreadsComeAndGoBetweenTheirBounds) {
  TaskWorkers workers({2, 5}, 1ms);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(comes_true([&] { return workers.threads(TaskSize::small) == 2; }));
    Gate gate;
    std::atomic<int> running{0};
    std::atomic<int> done{0};
    for (std::uint64_t number = 0; number < 20; ++number) {
      workers.give(writing(number, number + 1), TaskSize::small, [&] { ++running, gate.pass(), ++done; });
    }
    EXPECT_TRUE(comes_true([&] { return running == 5; }));
    EXPECT_EQ(workers.threads(TaskSize::small), 5U);
    EXPECT_EQ(workers.threads(TaskSize::large), 2U);
    gate.open();
    EXPECT_TRUE(comes_true([&] { return done == 20; }));
    EXPECT_EQ(running, 20);
  }
}

TEST(TaskWorkersTest, EverythingIsDoneAtTheEnd) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> done{0};
    auto held = std::make_shared<int>(0);
    {
      TaskWorkers workers({1, 3}, 1ms);
      for (std::uint64_t number = 0; number < 50; ++number) {
        const TaskSize size = number % 3 == 0 ? TaskSize::large : TaskSize::small;
        workers.give(writing(number % 4, number % 4 + 2), size, [&, held] {
          workers.give(TaskSize::large, [&, held] { ++done; });
          ++done;
        });
      }
    }
    EXPECT_EQ(done, 100);
    EXPECT_EQ(held.use_count(), 1);
  }
}

}  // namespace
}  // namespace tiermap
