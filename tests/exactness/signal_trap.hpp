// Catches the SIGBUS or SIGSEGV of an access, by jumping out of the handler as programs that survive a failing disk do.
#pragma once

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstdint>

namespace tiermap {

/// Make it before the first cache of the process: the self-serving engine hands on to the handler it found. Accesses
/// that fault outside signal_of() kill the process as usual.
class SignalTrap {
 public:
  SignalTrap() {
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &bus_before_);
    ::sigaction(SIGSEGV, &action, &segv_before_);
  }
  ~SignalTrap() {
    ::sigaction(SIGBUS, &bus_before_, nullptr);
    ::sigaction(SIGSEGV, &segv_before_, nullptr);
  }
  SignalTrap(const SignalTrap&) = delete;
  SignalTrap& operator=(const SignalTrap&) = delete;

  /// Loads the word; returns the number of the signal it raised, or 0. Several threads may store to one word at once,
  /// which is no race to be told of.
  [[gnu::no_sanitize_thread]] static int load(const volatile std::uint64_t* address, std::uint64_t& value) {
    if (const int number = sigsetjmp(jump_, 1); number != 0) {
      armed_ = false;
      return number;
    }
    armed_ = true;
    value = *address;
    armed_ = false;
    return 0;
  }
  [[gnu::no_sanitize_thread]] static int store(volatile std::uint64_t* address, std::uint64_t value) {
    if (const int number = sigsetjmp(jump_, 1); number != 0) {
      armed_ = false;
      return number;
    }
    armed_ = true;
    *address = value;
    armed_ = false;
    return 0;
  }

  /// How many writes to read-only regions were told of only after the fact.
  static std::uint64_t late_reports() { return late_reports_; }

 private:
  static void handle(int number, siginfo_t* information, void*) {
    if (number == SIGSEGV && information->si_code == SI_QUEUE) {
      ++late_reports_;
      return;
    }
    if (armed_) {
      siglongjmp(jump_, number);
    }
    ::signal(number, SIG_DFL);
    ::raise(number);
  }

  static inline std::atomic<std::uint64_t> late_reports_{0};
  static inline thread_local sigjmp_buf jump_;
  static inline thread_local volatile bool armed_ = false;
  struct sigaction bus_before_{};
  struct sigaction segv_before_{};
};

}  // namespace tiermap
