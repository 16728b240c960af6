// Keeps asynchronous signals out of a stretch of code. Application threads hold it while they hold one of the engine's
// locks, so that a signal handler of the program's that touches a region cannot meet a lock its own thread holds.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace tiermap {

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
  sigset_t before_;
};

}  // namespace tiermap
