// Keeps asynchronous signals and cancellation out of a stretch of code. Application threads hold it while they hold one
// of the engine's locks, so that a signal handler of the program's that touches a region cannot meet a lock its own
// thread holds, and a thread that is cancelled leaves no page half done.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace tiermap {

/// The calling thread is not cancelled while this lives: a load or a store is no cancellation point, and what reads a
/// store for it must not become one. May be used in signal handlers (glibc's functions are safe there).
class CancellationHeld {
 public:
  CancellationHeld() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationHeld() { pthread_setcancelstate(before_, nullptr); }
  CancellationHeld(const CancellationHeld&) = delete;
  CancellationHeld& operator=(const CancellationHeld&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    // The signals that a fault of our own raises stay: blocked, the kernel would kill the process.
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  const CancellationHeld held_;
  sigset_t before_;
};

}  // namespace tiermap
