// How the one object of a process comes to be, what becomes of it at a fork, and what is done at the end.
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

#include "umap_interface/log.hpp"
#include "umap_interface/process.hpp"
#include "umap_interface/program_store.hpp"

namespace tiermap::umap_interface {
namespace {

std::atomic<Process*> current{nullptr};
/// Held while that is made. No static of a function's: of a first call that is under way at a fork the child would wait
/// for the end, and who makes the call is not there.
constinit std::mutex making;

void before_fork() {
  making.lock();
  if (Process* const process = current.load()) {
    process->hold();
  }
  ProgramStore::hold_all();
  hold_log();
}

void release_shared() {
  release_log();
  ProgramStore::release_all();
  making.unlock();
}

void after_fork_in_parent() {
  if (Process* const process = current.load()) {
    process->release();
  }
  release_shared();
}

/// The parent's cache, regions and locks are left as they lie: none of its threads came along.
void after_fork_in_child() {
  if (const Process* const parents = current.load()) {
    auto* own = new Process;
    own->inherit(*parents);
    current.store(own);
  }
  release_shared();
}

void at_the_end() {
  current.load()->end();
}

// Where this is refused (no memory), a child finds the locks as they are.
[[maybe_unused]] const int taking_part = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

}  // namespace

Process& Process::instance() {
  Process* process = current.load();
  if (process == nullptr) {
    const std::lock_guard held(making);
    process = current.load();
    if (process == nullptr) {
      process = new Process;
      current.store(process);
      // Now and no sooner: what the program makes before its first region is there until that is written back. Where it
      // is refused (no memory), there is no write-back at the end, and all else.
      std::atexit(at_the_end);
    }
  }
  return *process;
}

}  // namespace tiermap::umap_interface
