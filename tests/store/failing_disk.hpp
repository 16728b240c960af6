// A disk that fails as two flush at once. For one file of a test program: it has an fdatasync() in place of the C
// library's.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "tiermap/store.hpp"

namespace tiermap {

/// A disk that fails once. Of two who ask at the same time it tells the second, and the first when that one is done.
class FailingDisk {
 public:
  int synchronise() {
    std::unique_lock held(mutex_);
    if (told_) {
      return 0;
    }
    if (std::exchange(asked_, true)) {
      told_ = true;
      changed_.notify_all();
      errno = EIO;
      return -1;
    }
    changed_.wait_for(held, std::chrono::milliseconds(200), [this] { return told_; });
    if (!std::exchange(told_, true)) {
      errno = EIO;
      return -1;
    }
    changed_.wait_for(held, std::chrono::seconds(2), [this] { return done_; });
    return 0;
  }
  void done() {
    const std::lock_guard held(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool told_ = false;
  bool done_ = false;
};

inline std::atomic<FailingDisk*> failing_disk{nullptr};

/// What two threads are told.
inline std::array<int, 2> flush_twice_on_a_failing_disk(Store& store) {
  FailingDisk disk;
  failing_disk = &disk;
  std::array<int, 2> results{};
  std::array<std::thread, 2> threads;
  for (std::size_t thread = 0; thread < 2; ++thread) {
    threads[thread] = std::thread([&, thread] {
      results[thread] = store.flush();
      disk.done();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  failing_disk = nullptr;
  return results;
}

}  // namespace tiermap

extern "C" int fdatasync(int descriptor) {
  tiermap::FailingDisk* const disk = tiermap::failing_disk.load();
  return disk != nullptr ? disk->synchronise() : static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}
