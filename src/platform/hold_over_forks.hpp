// Mutexes that no child of fork() finds locked by a thread that stayed with its parent.
#pragma once

#include <pthread.h>

#include <mutex>

namespace tiermap {

/// Has `mutex`, a variable of a namespace, locked by who forks, until the fork is over. Called as the program is
/// loaded: at the mutex's first use it would be too late for a fork beside that. Where it is refused (no memory), a
/// child finds the mutex as it is. Locks are taken in no certain order: nobody waits for one of these in another.
template <std::mutex& mutex>
int hold_over_forks() noexcept {
  return ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
}

}  // namespace tiermap
