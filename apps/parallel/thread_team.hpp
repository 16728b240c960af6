// A fixed number of threads that do one job together, again and again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tiermap {

/// Threads that wait for work. One job at a time; run() is for the thread that made the team.
class ThreadTeam {
 public:
  explicit ThreadTeam(std::uint32_t threads);  ///< Throws std::system_error if not so many can be started.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(threads_.size()) + 1; }

  /// Calls job(0) to job(size() - 1), each on a thread of its own, the caller's included, and waits for all. Throws
  /// what the first of them to fail threw.
  void run(const std::function<void(std::uint32_t)>& job);

  /// Calls job(i) for every i under `count`, each once, on whichever thread is free; lower ones are begun first.
  void for_each(std::uint64_t count, const std::function<void(std::uint64_t)>& job);

 private:
  void work(std::uint32_t member);
  void run_guarded(std::uint32_t member) noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t generation_ = 0;
  std::uint32_t running_ = 0;
  bool ending_ = false;
  const std::function<void(std::uint32_t)>* job_ = nullptr;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace tiermap
