#include "platform/ending_signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "platform/engine_thread.hpp"
#include "platform/futex.hpp"

namespace tiermap {
namespace {

/// Those of users, terminals and batch systems. Not SIGPROF and SIGVTALRM: profilers take them only where nobody has.
constexpr std::array ending_numbers = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU};
constexpr std::uint32_t no_signal = 0;
constexpr std::uint32_t no_more_signals = ~0U;
constexpr std::uint32_t to_finish = ~1U;
constexpr std::uint32_t finished = ~2U;

std::atomic<std::uint32_t> told_signal{no_signal};  ///< The signal that came, or one of those above.
std::atomic<pid_t> waiting_process{0};              ///< Whose thread waits for one.
/// The program has a handler that the kernel puts the default in place of when a signal comes (SA_RESETHAND).
std::atomic<bool> any_for_once{false};

void end_by(int number) noexcept {
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(number, &by_default, nullptr);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, number);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), number);
}

/// Tells the thread, unless it has been told something before. False if there is none in this process (a child of
/// vfork() has the same memory), or if it is done.
bool tell(std::uint32_t what) noexcept {
  std::uint32_t before = no_signal;
  if (waiting_process.load() != ::getpid() ||
      (!told_signal.compare_exchange_strong(before, what) && (before == no_more_signals || before == finished))) {
    return false;
  }
  futex_wake_all(&told_signal);
  return true;
}

/// The process ends while this waits. Where it does not, the thread may be waiting for a lock that the program held as
/// the signal came: it goes on to give that back.
void on_signal(int number) {
  constexpr std::int64_t longest_wait = 10'000'000'000;
  const int saved = errno;
  if (!tell(static_cast<std::uint32_t>(number))) {
    end_by(number);
  } else {
    // Whoever ends a program may say so twice, as `timeout` does.
    futex_wait(&told_signal, told_signal.load(), longest_wait);
  }
  errno = saved;
}

void take_default(int number) noexcept {
  if (::getpid() == 1) {
    return;
  }
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  struct sigaction before = {};
  const bool left = ::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL;
  if (!left && (static_cast<unsigned>(before.sa_flags) & static_cast<unsigned>(SA_RESETHAND)) != 0) {
    any_for_once.store(true);
    futex_wake_all(&told_signal);
  }
  // Another thread may have set one since.
  if (left && ::sigaction(number, &action, &before) == 0 && before.sa_handler != SIG_DFL) {
    ::sigaction(number, &before, nullptr);
  }
}

/// Nobody is told when the kernel puts a default back: it is looked for, sooner than somebody gives a signal again.
void wait_for_signal(const std::function<void()>& before_end) noexcept {
  constexpr std::int64_t between_looks = 50'000'000;
  while (told_signal.load() == no_signal) {
    if (any_for_once.exchange(false)) {
      EndingSignals::take();
      futex_wait(&told_signal, no_signal, between_looks);
    } else {
      futex_wait(&told_signal, no_signal);
    }
  }
  const std::uint32_t number = told_signal.load();
  if (number == no_more_signals) {
    return;
  }
  before_end();
  if (number != to_finish) {
    end_by(static_cast<int>(number));
  }
  told_signal.store(finished);
  futex_wake_all(&told_signal);
  // To ThreadSanitizer a thread that has ended and was not joined is a leak: this one goes with the process.
  while (told_signal.load() == finished) {
    futex_wait(&told_signal, finished);
  }
}

}  // namespace

EndingSignals::EndingSignals(std::function<void()> before_end) {
  told_signal.store(no_signal);
  thread_ = start_engine_thread("tiermap-ends", [call = std::move(before_end)] { wait_for_signal(call); });
  waiting_process.store(::getpid());
}

// Where a signal came first the thread waits for the lock that the caller holds.
EndingSignals::~EndingSignals() {
  waiting_process.store(0);
  std::uint32_t before = no_signal;
  if (!told_signal.compare_exchange_strong(before, no_more_signals) &&
      (before != finished || !told_signal.compare_exchange_strong(before, no_more_signals))) {
    thread_.detach();
    return;
  }
  futex_wake_all(&told_signal);
  thread_.join();
}

bool EndingSignals::finish() noexcept {
  if (!tell(to_finish)) {
    return false;
  }
  for (std::uint32_t now = told_signal.load(); now != finished; now = told_signal.load()) {
    futex_wait(&told_signal, now);
  }
  return true;
}

void EndingSignals::forget_parents() noexcept {
  waiting_process.store(0);
}

void EndingSignals::take() noexcept {
  for (const int number : ending_numbers) {
    take_default(number);
  }
}

bool EndingSignals::ends_by(int number) noexcept {
  return std::ranges::find(ending_numbers, number) != ending_numbers.end();
}

bool EndingSignals::has_taken(int number) noexcept {
  struct sigaction now = {};
  return waiting_process.load() == ::getpid() && ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == on_signal;
}

void EndingSignals::take_again(int number) noexcept {
  if (waiting_process.load() == ::getpid()) {
    take_default(number);
  }
}

}  // namespace tiermap
