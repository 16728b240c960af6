#include "preload/changes_under_way.hpp"

#include <sys/stat.h>
#include <time.h>

#include <cerrno>

#include "preload/kernel_calls.hpp"

namespace tiermap::preload {
namespace {

thread_local pid_t own_thread [[gnu::tls_model("initial-exec")]] = 0;

bool has_ended(std::uint64_t thread) noexcept {
  const int saved = errno;
  const bool ended = ::syscall(SYS_tgkill, ::getpid(), thread, 0) != 0 && errno == ESRCH;
  errno = saved;
  return ended;
}

/// Any number of threads may wait in a write to a socket or a pipe, for as long as whoever reads there likes.
bool may_be_file(int descriptor) noexcept {
  const int saved = errno;
  struct stat status = {};
  const bool may = kernel::status(descriptor, &status) != 0 || S_ISREG(status.st_mode);
  errno = saved;
  return may;
}

/// Writes of files end soon, but what was begun by a call that a signal handler has jumped out of never does.
template <typename Test>
bool wait_while(Test under_way) noexcept {
  constexpr timespec pause = {.tv_sec = 0, .tv_nsec = 100'000};
  constexpr int most_pauses = 30'000;
  for (int pauses = 0; under_way(); ++pauses) {
    if (pauses == most_pauses) {
      return false;
    }
    ::syscall(SYS_nanosleep, &pause, nullptr);  // The C library's can be cancelled.
  }
  return true;
}

}  // namespace

std::size_t ChangesUnderWay::begin(int descriptor, bool may_wait) noexcept {
  if (own_thread == 0) {
    own_thread = static_cast<pid_t>(::syscall(SYS_gettid));
  }
  const auto thread = static_cast<std::uint64_t>(own_thread);
  const std::uint64_t number = std::uint64_t{static_cast<std::uint32_t>(descriptor)} + 1;
  const std::uint64_t change = thread << 33U | number << 1U | (may_wait ? 1U : 0U);
  std::size_t taken = most;
  for (std::size_t tries = 0; tries < most && taken == most; ++tries) {
    const std::size_t slot = (thread + tries) % most;
    std::uint64_t free = 0;
    if (slots_[slot].change.load(std::memory_order_relaxed) == 0 &&
        slots_[slot].change.compare_exchange_strong(free, change)) {
      taken = slot;
    }
  }
  if (taken == most && !may_be_file(descriptor)) {
    return none;
  }
  if (taken == most) {
    without_slot_.fetch_add(1);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return taken;
}

void ChangesUnderWay::end(std::size_t slot) noexcept {
  if (slot < most) {
    slots_[slot].change.store(0, std::memory_order_release);
  } else if (slot == most) {
    without_slot_.fetch_sub(1, std::memory_order_release);
  }
}

// The change in the slot, if it is under way and the file's, else 0. Where another thread has closed the descriptor
// meanwhile it may be any file's.
std::uint64_t ChangesUnderWay::under_way_in(Slot& slot, FileIdentity file) noexcept {
  const std::uint64_t change = slot.change.load(std::memory_order_acquire);
  if (change == 0) {
    return 0;
  }
  if (has_ended(change >> 33U)) {
    std::uint64_t left = change;
    slot.change.compare_exchange_strong(left, 0);
    return 0;
  }
  struct stat status = {};
  const auto descriptor = static_cast<int>(static_cast<std::uint32_t>(change >> 1U) - 1);
  return kernel::status(descriptor, &status) != 0 || FileIdentity::of(status) == file ? change : 0;
}

bool ChangesUnderWay::wait_until_ended(FileIdentity file) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (Slot& slot : slots_) {
    bool may_wait = false;
    const bool ended = wait_while([&] {
      const std::uint64_t change = under_way_in(slot, file);
      may_wait = change % 2 == 1;
      return change != 0 && !may_wait;
    });
    if (!ended || may_wait) {
      return false;
    }
  }
  return wait_while([&] { return without_slot_.load(std::memory_order_acquire) != 0; });
}

void ChangesUnderWay::clear() noexcept {
  own_thread = 0;
  for (Slot& slot : slots_) {
    slot.change.store(0, std::memory_order_relaxed);
  }
  without_slot_.store(0, std::memory_order_relaxed);
}

}  // namespace tiermap::preload
