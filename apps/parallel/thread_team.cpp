#include "parallel/thread_team.hpp"

#include <string>
#include <system_error>
#include <utility>

namespace tiermap {

namespace {

void end_all(std::vector<std::thread>& threads, std::mutex& mutex, std::condition_variable& changed, bool& ending) {
  {
    const std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace

ThreadTeam::ThreadTeam(std::uint32_t threads) {
  try {
    for (std::uint32_t member = 1; member < threads; ++member) {
      threads_.emplace_back([this, member] { work(member); });
    }
  } catch (const std::system_error& error) {
    end_all(threads_, mutex_, changed_, ending_);
    throw std::system_error(error.code(), "only " + std::to_string(size()) + " of " + std::to_string(threads) +
                                              " threads can be started, choose fewer --threads");
  }
}

ThreadTeam::~ThreadTeam() {
  end_all(threads_, mutex_, changed_, ending_);
}

void ThreadTeam::run(const std::function<void(std::uint32_t)>& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    running_ = size();
    ++generation_;
  }
  changed_.notify_all();
  run_guarded(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
  if (failure_ != nullptr) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void ThreadTeam::for_each(std::uint64_t count, const std::function<void(std::uint64_t)>& job) {
  std::atomic<std::uint64_t> next{0};
  run([&](std::uint32_t) {
    for (std::uint64_t index = next++; index < count; index = next++) {
      job(index);
    }
  });
}

void ThreadTeam::work(std::uint32_t member) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || generation_ != seen; });
      if (ending_) {
        return;
      }
      seen = generation_;
    }
    run_guarded(member);
  }
}

void ThreadTeam::run_guarded(std::uint32_t member) noexcept {
  std::exception_ptr failure;
  try {
    (*job_)(member);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure != nullptr && failure_ == nullptr) {
    failure_ = failure;
  }
  if (--running_ == 0) {
    changed_.notify_all();
  }
}

}  // namespace tiermap
