// Signals that end the program: what it has stored is written back before, as the kernel would keep it.
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "platform/ending_signals.hpp"
#include "preload/library.hpp"
#include "preload/next_call.hpp"

using tiermap::EndingSignals;
using tiermap::preload::Mappings;
using tiermap::preload::mappings_for_caller;
using tiermap::preload::NextCall;
using tiermap::preload::served_mappings;

namespace {

/// Whether it is a signal of crashes, with which nothing is to be waited for any more, and which the engine sends too;
/// or one that is to end the program on the spot, or that ends none.
bool is_left_alone(int number) noexcept {
  switch (number) {
    case SIGABRT:
    case SIGBUS:
    case SIGCHLD:
    case SIGCONT:
    case SIGFPE:
    case SIGILL:
    case SIGKILL:
    case SIGSEGV:
    case SIGSTOP:
    case SIGSYS:
    case SIGTRAP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGURG:
    case SIGWINCH:
      return true;
    default:
      return number <= 0;
  }
}

bool ends_program(int number) noexcept {
  struct sigaction action = {};
  return !is_left_alone(number) && ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_DFL;
}

bool is_blocked(int number) noexcept {
  sigset_t blocked;
  return ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 && ::sigismember(&blocked, number) == 1;
}

/// A program that was told to end does so, when it has tidied up, by the signal that told it. This may be its handler,
/// which may have interrupted malloc(), so that nothing can be written back here: it is when the signal comes.
void before_own_signal(int number) noexcept {
  const int saved = errno;
  if (Mappings* mappings = served_mappings();
      mappings != nullptr && mappings->served().any_writable() && mappings->owned_by_caller() && ends_program(number)) {
    EndingSignals::take_again(number);
    if (!EndingSignals::has_taken(number) && !is_blocked(number)) {  // There is no thread for it.
      static_cast<void>(mappings->write_back_all());
    }
  }
  errno = saved;
}

/// The program has left a signal at its default again, or will have once it has come.
void after_default(int number) noexcept {
  const int saved = errno;
  if (Mappings* mappings = mappings_for_caller();
      mappings != nullptr && mappings->owned_by_caller() && EndingSignals::ends_by(number)) {
    EndingSignals::take_again(number);
  }
  errno = saved;
}

sighandler_t handle(int number, sighandler_t handler, NextCall<sighandler_t(int, sighandler_t)>& next) noexcept {
  const sighandler_t before = next(number, handler);
  if (before != SIG_ERR) {
    after_default(number);
  }
  return before;
}

}  // namespace

TIERMAP_EXPORTED int raise(int number) noexcept {
  before_own_signal(number);
  return static_cast<int>(::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), number));
}
TIERMAP_EXPORTED int kill(pid_t process, int number) noexcept {
  if (process == 0 || process == ::getpid() || process == -::getpgrp()) {
    before_own_signal(number);
  }
  // In this thread, which is not to go on while another one ends the program.
  if (process == ::getpid() && EndingSignals::has_taken(number) && !is_blocked(number)) {
    return raise(number);
  }
  return static_cast<int>(::syscall(SYS_kill, process, number));
}
TIERMAP_EXPORTED int pthread_kill(pthread_t thread, int number) noexcept {
  static constinit NextCall<int(pthread_t, int)> next("pthread_kill");
  before_own_signal(number);
  return next(thread, number);
}
TIERMAP_EXPORTED int killpg(pid_t group, int number) noexcept {
  if (group < 0) {
    errno = EINVAL;
    return -1;
  }
  return kill(-group, number);
}

TIERMAP_EXPORTED int sigaction(int number, const struct sigaction* action, struct sigaction* before) noexcept {
  static constinit NextCall<int(int, const struct sigaction*, struct sigaction*)> next("sigaction");
  const int result = next(number, action, before);
  constexpr auto for_once = static_cast<unsigned>(SA_RESETHAND);
  if (action != nullptr && result == 0 &&
      (action->sa_handler == SIG_DFL || (static_cast<unsigned>(action->sa_flags) & for_once) != 0)) {
    after_default(number);
  }
  return result;
}
TIERMAP_EXPORTED sighandler_t signal(int number, sighandler_t handler) noexcept {
  static constinit NextCall<sighandler_t(int, sighandler_t)> next("signal");
  return handle(number, handler, next);
}
// What it is in programs that are made as the standards have it.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library chose this name.
TIERMAP_EXPORTED sighandler_t __sysv_signal(int number, sighandler_t handler) noexcept {
  static constinit NextCall<sighandler_t(int, sighandler_t)> next("__sysv_signal");
  return handle(number, handler, next);
}
