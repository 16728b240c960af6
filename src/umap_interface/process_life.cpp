// How the one object of a process comes to be, what becomes of it at a fork, and what is done at the end.
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "umap_interface/log.hpp"
#include "umap_interface/process.hpp"

namespace tiermap::umap_interface {
namespace {

std::atomic<Process*> current{nullptr};

void before_fork() {
  current.load()->hold();
  hold_log();
}

void after_fork_in_parent() {
  release_log();
  current.load()->release();
}

/// The parent's cache, regions and locks are left as they lie: none of its threads came along.
void after_fork_in_child() {
  release_log();
  const Process& parents = *current.load();
  auto* own = new Process;
  own->inherit(parents);
  current.store(own);
}

void at_the_end() {
  current.load()->sync_at_exit();
}

bool begin() {
  current.store(new Process);
  // Where either is refused (no memory), the program has no fork or no write-back at the end, and all else.
  ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  std::atexit(at_the_end);
  return true;
}

}  // namespace

Process& Process::instance() {
  static const bool begun = begin();
  static_cast<void>(begun);
  return *current.load();
}

}  // namespace tiermap::umap_interface
