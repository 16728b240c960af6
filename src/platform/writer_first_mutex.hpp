// A lock that many share and one has alone, where who wants it alone comes before those who come later to share it:
// threads that share it all the time would keep him waiting for ever. So no thread takes it twice.
#pragma once

#include <pthread.h>
#include <time.h>

#include <chrono>

namespace tiermap {

/// As std::shared_mutex, whose order is not said.
class WriterFirstMutex {
 public:
  WriterFirstMutex() noexcept {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  WriterFirstMutex(const WriterFirstMutex&) = delete;
  WriterFirstMutex& operator=(const WriterFirstMutex&) = delete;
  ~WriterFirstMutex() { pthread_rwlock_destroy(&lock_); }

  void lock() noexcept { pthread_rwlock_wrlock(&lock_); }
  /// False if it is not to be had alone within that time.
  bool try_lock_for(std::chrono::milliseconds time) noexcept {
    const timespec until = in(time);
    return pthread_rwlock_timedwrlock(&lock_, &until) == 0;
  }
  /// False if it is not to be had shared within that time.
  bool try_lock_shared_for(std::chrono::milliseconds time) noexcept {
    const timespec until = in(time);
    return pthread_rwlock_timedrdlock(&lock_, &until) == 0;
  }
  void unlock() noexcept { pthread_rwlock_unlock(&lock_); }
  void lock_shared() noexcept { pthread_rwlock_rdlock(&lock_); }
  void unlock_shared() noexcept { pthread_rwlock_unlock(&lock_); }

 private:
  static timespec in(std::chrono::milliseconds time) noexcept {
    constexpr std::int64_t second = 1'000'000'000;
    timespec until = {};
    ::clock_gettime(CLOCK_REALTIME, &until);
    const std::int64_t nanoseconds = until.tv_nsec + std::chrono::nanoseconds(time).count();
    until.tv_sec += nanoseconds / second;
    until.tv_nsec = nanoseconds % second;
    return until;
  }

  pthread_rwlock_t lock_;
};

}  // namespace tiermap
