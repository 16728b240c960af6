// Threads that do what the wire's own must not: wait for disks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "platform/engine_thread.hpp"

namespace tiermap {

class WorkerThreads {
 public:
  explicit WorkerThreads(std::uint32_t count) {
    for (std::uint32_t index = 0; index < count; ++index) {
      threads_.push_back(start_engine_thread("tiermap-serve", [this] { work(); }));
    }
  }
  /// Everything that was given is done first.
  ~WorkerThreads() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  void give(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      if (tasks_.empty()) {
        return;
      }
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tiermap
