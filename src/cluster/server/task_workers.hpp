// Threads that do what the wire's own must not: wait for disks. As many as there is work for, and in the order that
// the bytes need which the work is about.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace tiermap {

/// Small tasks do not wait behind large ones: both have threads of their own.
enum class TaskSize : std::uint8_t { small, large };
inline constexpr std::uint64_t large_task_bytes = 16 << 10;
constexpr TaskSize task_size(std::uint64_t bytes) noexcept {
  return bytes < large_task_bytes ? TaskSize::small : TaskSize::large;
}

/// What a task reads or writes.
struct TaskRange {
  const void* data_set = nullptr;  ///< Which one, by any address of its own for as long as tasks of it are there.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool writes = false;

  static TaskRange reading(const void* data_set, std::uint64_t offset, std::uint64_t bytes) noexcept {
    return {data_set, offset, offset + std::min(bytes, UINT64_MAX - offset), false};
  }
  static TaskRange writing(const void* data_set, std::uint64_t offset, std::uint64_t bytes) noexcept {
    return {data_set, offset, offset + std::min(bytes, UINT64_MAX - offset), true};
  }
  static TaskRange writing_all(const void* data_set) noexcept { return writing(data_set, 0, UINT64_MAX); }

  /// Whether the order of both matters.
  bool conflicts(const TaskRange& other) const noexcept {
    return data_set == other.data_set && (writes || other.writes) && begin < other.end && other.begin < end;
  }
};

struct WorkerBounds {
  std::uint32_t least = 1;
  std::uint32_t most = 8;
};

/// Tasks that conflict are done one after the other, in the order in which they were given. All others are done
/// together: reads until a write of the same bytes is met, and writes of bytes that are not the same. No thread waits
/// for another's task: one that has to wait lies in a list until it may begin.
///
/// Thread-safe. Tasks may give tasks, must not wait for them, and must not throw.
class TaskWorkers {
 public:
  /// Of each size as many threads as `bounds` say: one more whenever a task finds none free, and one fewer when one had
  /// nothing to do for `idle`. Throws PlatformError if even the least cannot be started.
  explicit TaskWorkers(WorkerBounds bounds, std::chrono::milliseconds idle = std::chrono::seconds(1));
  /// Everything that was given is done first.
  ~TaskWorkers();
  TaskWorkers(const TaskWorkers&) = delete;
  TaskWorkers& operator=(const TaskWorkers&) = delete;

  /// What conflicts with nothing.
  void give(TaskSize size, std::function<void()> work);
  void give(const TaskRange& range, TaskSize size, std::function<void()> work);
  /// Whether a task is there, under way or not, that must come before one of this range.
  bool conflicts(const TaskRange& range);
  std::uint32_t threads(TaskSize size);

 private:
  struct Task {
    TaskRange range;
    TaskSize size;
    std::function<void()> work;
    std::size_t waits_for = 0;  ///< So many that were given before.
  };
  using Tasks = std::list<Task>;
  struct Group {
    std::deque<Tasks::iterator> ready;
    std::condition_variable changed;  ///< Something is ready, or nothing will be any more.
    std::uint32_t threads = 0;
    std::uint32_t idle = 0;
    std::uint64_t unfinished = 0;  ///< Tasks, ready or not.
    std::thread retired;           ///< Of those that had nothing to do the last: joined by the next one.
  };

  Group& group(TaskSize size) noexcept { return groups_.at(static_cast<std::size_t>(size)); }
  void start(Group& group);
  void make_ready(Tasks::iterator task);
  void end();
  void work(Group& group, std::list<std::thread>::iterator self);
  /// Whether there is a task; the thread is to end if not.
  bool wait_for_task(Group& group, std::unique_lock<std::mutex>& lock);
  void finish(Tasks::iterator task);

  const WorkerBounds bounds_;
  const std::chrono::milliseconds idle_;
  std::mutex mutex_;  ///< Guards what follows.
  bool ended_ = false;
  std::array<Group, 2> groups_;
  std::list<std::thread> threads_;                    ///< Those that have not retired.
  std::condition_variable gone_;                      ///< All of them have.
  std::unordered_map<const void*, Tasks> data_sets_;  ///< Unfinished tasks in the order in which they were given.
};

}  // namespace tiermap
