#include "cluster/server/task_workers.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "platform/engine_thread.hpp"

namespace tiermap {

TaskWorkers::TaskWorkers(WorkerBounds bounds, std::chrono::milliseconds idle) : bounds_(bounds), idle_(idle) {
  try {
    const std::lock_guard lock(mutex_);
    for (Group& group : groups_) {
      while (group.threads < bounds_.least) {
        start(group);
      }
    }
  } catch (...) {
    end();
    throw;
  }
}

TaskWorkers::~TaskWorkers() {
  end();
}

void TaskWorkers::end() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  for (Group& group : groups_) {
    group.changed.notify_all();
  }
  gone_.wait(lock, [this] { return threads_.empty(); });
  lock.unlock();
  for (Group& group : groups_) {
    if (group.retired.joinable()) {
      group.retired.join();
    }
  }
}

void TaskWorkers::give(TaskSize size, std::function<void()> work) {
  give(TaskRange(), size, std::move(work));
}

void TaskWorkers::give(const TaskRange& range, TaskSize size, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  Tasks& tasks = data_sets_[range.data_set];
  const auto before = std::ranges::count_if(tasks, [&](const Task& one) { return one.range.conflicts(range); });
  tasks.push_back({range, size, std::move(work), static_cast<std::size_t>(before)});
  ++group(size).unfinished;
  if (before == 0) {
    make_ready(std::prev(tasks.end()));
  }
}

bool TaskWorkers::conflicts(const TaskRange& range) {
  const std::lock_guard lock(mutex_);
  const auto found = data_sets_.find(range.data_set);
  return found != data_sets_.end() &&
         std::ranges::any_of(found->second, [&](const Task& one) { return one.range.conflicts(range); });
}

std::uint32_t TaskWorkers::threads(TaskSize size) {
  const std::lock_guard lock(mutex_);
  return group(size).threads;
}

void TaskWorkers::start(Group& group) {
  const auto self = threads_.emplace(threads_.end());
  try {
    *self = start_engine_thread("tiermap-serve", [this, &group, self] { work(group, self); });
    ++group.threads;
  } catch (...) {
    threads_.erase(self);
    throw;
  }
}

void TaskWorkers::make_ready(Tasks::iterator task) {
  Group& group = this->group(task->size);
  group.ready.push_back(task);
  if (group.idle >= group.ready.size()) {
    group.changed.notify_one();
  } else if (group.threads < bounds_.most) {
    try {
      start(group);
    } catch (const std::exception&) {  // Those that there are get to it.
    }
  }
}

bool TaskWorkers::wait_for_task(Group& group, std::unique_lock<std::mutex>& lock) {
  while (group.ready.empty()) {
    if (ended_ && group.unfinished == 0) {
      return false;
    }
    const bool may_retire = group.threads > bounds_.least;
    std::cv_status status = std::cv_status::no_timeout;
    ++group.idle;
    if (may_retire) {
      status = group.changed.wait_for(lock, idle_);
    } else {
      group.changed.wait(lock);
    }
    --group.idle;
    if (status == std::cv_status::timeout && group.ready.empty() && group.threads > bounds_.least) {
      return false;
    }
  }
  return true;
}

void TaskWorkers::work(Group& group, std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  while (wait_for_task(group, lock)) {
    const Tasks::iterator task = group.ready.front();
    group.ready.pop_front();
    lock.unlock();
    task->work();
    task->work = nullptr;  // What it held may take long to let go of.
    lock.lock();
    finish(task);
  }
  --group.threads;
  std::thread before = std::exchange(group.retired, std::move(*self));
  threads_.erase(self);
  if (threads_.empty()) {
    gone_.notify_all();
  }
  lock.unlock();
  if (before.joinable()) {
    before.join();
  }
}

void TaskWorkers::finish(Tasks::iterator task) {
  const auto set = data_sets_.find(task->range.data_set);
  for (auto later = std::next(task); later != set->second.end(); ++later) {
    if (later->range.conflicts(task->range) && --later->waits_for == 0) {
      make_ready(later);
    }
  }
  Group& group = this->group(task->size);
  if (--group.unfinished == 0 && ended_) {
    group.changed.notify_all();
  }
  set->second.erase(task);
  if (set->second.empty()) {
    data_sets_.erase(set);
  }
}

}  // namespace tiermap
