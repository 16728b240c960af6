// fork(), and the end of the process.
#include <cerrno>
#include <new>
#include <optional>

#include "observe/publication_layout.hpp"
#include "observe/trace_recorder.hpp"
#include "platform/signals_blocked.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/locking.hpp"
#include "preload/mappings.hpp"
#include "tiermap/error.hpp"

namespace tiermap::preload {
namespace {

/// Numbers that this process's cache may be published under: a child of a child of its begins further on.
constexpr std::uint32_t most_instances = 8;

// Of the thread that forks, which is the child's too.
thread_local std::optional<SignalsBlocked> fork_quiet;
thread_local std::optional<Inside> fork_inside;

}  // namespace

int Mappings::write_back_all() noexcept {
  const Looking looking(lock_);
  int problem = 0;
  for (const auto& mapping : mappings_) {
    const int result = write_back(*mapping, {0, mapping->region.size()});
    problem = result != 0 ? result : problem;
  }
  return problem;
}

// Parent and child share what they write, or each has its own from here on: only the kernel can do that. What is only
// read the child gets from the kernel, and the parent keeps.
void Mappings::before_fork() noexcept {
  // Before the lock is taken, and until it is given back: a handler may want it.
  fork_quiet.emplace();
  fork_inside.emplace();
  lock_.lock();
  for_each(nullptr, SIZE_MAX, [&](Mapping& mapping) {
    if (mapping.shared_and_writable() || mapping.overlay != nullptr) {
      convert(mapping, "the program forked, and can write to it");
    }
  });
}

void Mappings::after_fork_in_parent() noexcept {
  lock_.unlock();
  fork_inside.reset();
  fork_quiet.reset();
}

// One thread, and whatever the others held is held for ever: nothing is freed here, nor destroyed.
void Mappings::after_fork_in_child() noexcept {
  for (auto& mapping : mappings_) {
    if (mapping->in_children) {
      const MapRequest& request = mapping->request;
      kernel::map(mapping->start, mapping->bytes, request.protection, mapping->kernel_flags(),
                  mapping->store->program_descriptor(), request.offset);
      FileHistory& history = histories_[mapping->file];
      history.note_kernel_mapping(mapping->store->writable());
      history.to_protect = history.to_protect || mapping->store->writable();
      kernels_to_protect_ = kernels_to_protect_ || history.to_protect;
    }
    own_descriptors_.remove_all(mapping->descriptors());
    for (const int descriptor : mapping->descriptors()) {
      ::syscall(SYS_close, descriptor);
    }
    [[maybe_unused]] const auto* const left = mapping.release();
  }
  mappings_.clear();
  for (auto& [file, store] : retired_) {
    new std::shared_ptr<MappedFileStore>(std::move(store));
  }
  retired_.clear();
  retired_count_.store(0);
  record_locked_.clear();
  own_descriptors_.close_engines();
  served_.clear();
  cache_ = nullptr;
  [[maybe_unused]] const auto* const parents = ending_signals_.release();
  EndingSignals::forget_parents();
  ended_statistics_.reset();
  changes_under_way_.clear();
  serve_again_after_locks();  // A child has none.
  fitting_.reset();
  outcome_.begin_anew();
  owner_ = ::getpid();
  ended_ = false;
  new (&lock_) WriterFirstMutex;
  for (std::mutex& lock : position_locks_) {
    new (&lock) std::mutex;
  }
  join_others_in_child();
  fork_inside.reset();
  fork_quiet.reset();
}

// Without the thread for it the program ends by its signals as they come.
void Mappings::prepare_end(bool stores) noexcept {
  try {
    if (ending_signals_ == nullptr) {  // Also without anything to write: what is published goes at the end.
      ending_signals_ = std::make_unique<EndingSignals>([this] {
        if (const auto call = end_with_.load(); call != nullptr) {
          call();
        }
        at_end(Ending::process);
      });
    }
    if (stores) {
      EndingSignals::take();
    }
  } catch (const std::exception&) {  // The program may have no more threads, or no memory.
  }
}

void Mappings::at_process_end() noexcept {
  if (!owned_by_caller()) {  // A child of vfork() has the same memory.
    return;
  }
  end_with_.store(nullptr);
  if (!EndingSignals::finish()) {
    at_end(Ending::process);
  }
}

void Mappings::at_end(Ending ending) noexcept {
  if (!owned_by_caller()) {
    return;
  }
  write_back_all();
  TraceRecorder::settle_all();
  try {
    const Looking looking(lock_);
    if (!ended_.exchange(true)) {
      const std::optional<Statistics> statistics =
          cache_ != nullptr ? std::optional(cache_->statistics()) : ended_statistics_;
      outcome_.report(ending, statistics.has_value() ? &*statistics : nullptr, page_bytes_);
    }
    if (table_ != nullptr && ending == Ending::process) {
      table_->leave();
    }
    // The cache is never destroyed, so that what other threads still touch is there to the last.
    for (std::uint32_t instance = 0; cache_ != nullptr && instance < most_instances; ++instance) {
      ::unlink(("/dev/shm/" + format_publication_name({::geteuid(), owner_, instance})).c_str());
    }
  } catch (const std::exception& error) {
    Outcome::complain(error.what());
  }
}

}  // namespace tiermap::preload
