// The lock of all mappings: many look, one changes. Who wants to change comes before those who come later to look, or a
// program whose threads write files all the time would never map another. So no thread takes it twice.
#pragma once

#include <pthread.h>

namespace tiermap::preload {

/// As std::shared_mutex, whose order is not said.
class MappingsLock {
 public:
  MappingsLock() noexcept {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  MappingsLock(const MappingsLock&) = delete;
  MappingsLock& operator=(const MappingsLock&) = delete;
  ~MappingsLock() { pthread_rwlock_destroy(&lock_); }

  void lock() noexcept { pthread_rwlock_wrlock(&lock_); }
  void unlock() noexcept { pthread_rwlock_unlock(&lock_); }
  void lock_shared() noexcept { pthread_rwlock_rdlock(&lock_); }
  void unlock_shared() noexcept { pthread_rwlock_unlock(&lock_); }

 private:
  pthread_rwlock_t lock_;
};

}  // namespace tiermap::preload
