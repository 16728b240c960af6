// What cannot be done while the engine runs: locking all memory, and what the kernel lets none do that have threads.
#include <sys/mman.h>

#include <cerrno>

#include "preload/kernel_calls.hpp"
#include "preload/locking.hpp"
#include "preload/mappings.hpp"
#include "preload/program_threads.hpp"

namespace tiermap::preload {
namespace {

constexpr const char* all_locked = "the program locks all of its memory";

}  // namespace

// The engine keeps more addresses in reserve than there is memory, and the kernel would give memory to all of them: so
// it ends before, and may start again if only what there is now is to be locked.
int Mappings::lock_all(int flags) noexcept {
  const Changing changing(lock_);
  if ((flags & MCL_CURRENT) != 0 && !end_cache(all_locked)) {
    errno = ENOMEM;
    return -1;
  }
  const auto result = static_cast<int>(::syscall(SYS_mlockall, flags));
  if (result == 0) {
    const char* nothing = nullptr;
    (flags & MCL_FUTURE) != 0 ? static_cast<void>(refuse_all_.compare_exchange_strong(nothing, all_locked))
                              : serve_again_after_locks();
  }
  return result;
}

int Mappings::unlock_all() noexcept {
  const Changing changing(lock_);
  const auto result = static_cast<int>(::syscall(SYS_munlockall));
  if (result == 0) {
    serve_again_after_locks();
  }
  return result;
}

void Mappings::serve_again_after_locks() noexcept {
  const char* reason = all_locked;
  refuse_all_.compare_exchange_strong(reason, nullptr);
}

void Mappings::end_engine(const char* reason) noexcept {
  {
    const Changing changing(lock_);
    static_cast<void>(end_cache(reason));
  }
  wait_for_ended_threads();
}

// Gives back what is served, and ends the engine's threads: false if something dirty cannot be written, of which there
// was a line on standard error.
bool Mappings::end_cache(const char* reason) noexcept {
  convert_range(nullptr, SIZE_MAX, reason);
  if (mappings_.empty() && cache_ != nullptr) {
    ended_statistics_ = cache_->statistics();
    delete cache_;
    cache_ = nullptr;
    ending_signals_.reset();
    if (table_ != nullptr) {
      table_->stop_answering();
    }
  }
  return mappings_.empty();
}

}  // namespace tiermap::preload
