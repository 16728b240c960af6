// Ends a test that hangs, and says which one: a lost wake-up must fail in seconds, with a core, not after the runner's
// limit.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace tiermap {

class Watchdog {
 public:
  Watchdog(std::string what, std::chrono::seconds patience) : what_(std::move(what)), patience_(patience) {
    // Returns when its thread only waits: a child that is forked while another thread allocates may never allocate
    // itself, as the memory of AddressSanitizer is locked in it for ever.
    std::unique_lock held(mutex_);
    thread_ = std::thread([this] { watch(); });
    changed_.wait(held, [this] { return watching_; });
  }
  ~Watchdog() {
    {
      const std::lock_guard held(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch() {
    // The signals of a test are for the threads that it waits for.
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::unique_lock held(mutex_);
    watching_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(held, patience_, [this] { return done_; })) {
      std::fprintf(stderr, "HANG: %s: not finished after %lld s\n", what_.c_str(),
                   static_cast<long long>(patience_.count()));
      std::abort();
    }
  }

  const std::string what_;
  const std::chrono::seconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tiermap
