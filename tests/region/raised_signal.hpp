// Tells whether an access raises a signal, and lets the test go on after it.
#pragma once

#include <csetjmp>
#include <csignal>

namespace tiermap {

inline thread_local sigjmp_buf after_signal;
inline thread_local volatile std::sig_atomic_t signal_expected = 0;
inline thread_local void* volatile signal_address = nullptr;

inline void leave_by_signal(int number, siginfo_t* information, void*) {
  if (signal_expected == 0) {
    struct sigaction fatal{};
    fatal.sa_handler = SIG_DFL;
    ::sigaction(number, &fatal, nullptr);
    return;  // The access is tried again, and kills.
  }
  signal_address = information->si_addr;
  siglongjmp(after_signal, number);
}

inline bool catch_signals() {
  struct sigaction action{};
  action.sa_sigaction = leave_by_signal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGBUS, &action, nullptr);
  return true;
}

// Before main(): a self-serving cache hands on to the handler that was there before it.
inline const bool signals_caught = catch_signals();

/// The signal that the access raises, 0 if none. The access must own nothing that wants destroying.
template <typename Access>
int signal_raised_by(Access&& access) {
  const int number = sigsetjmp(after_signal, 1);
  if (number == 0) {
    signal_expected = 1;
    access();
  }
  signal_expected = 0;
  return number;
}

}  // namespace tiermap
