// The library's beginning and end.
#include "preload/library.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include <new>

#include "preload/kernel_calls.hpp"
#include "preload/standard_error.hpp"

namespace tiermap::preload {
namespace {

// Neither constructed nor destroyed by the compiler's order: calls come before and after.
alignas(Mappings) std::byte mappings_memory[sizeof(Mappings)];
std::atomic<Mappings*> the_mappings{nullptr};
NextCalls the_next_calls{};

template <typename Function>
void find_next(Function& function, const char* name) noexcept {
  function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

void find_next_calls() noexcept {
  NextCalls& next = the_next_calls;
  find_next(next.read, "read");
  find_next(next.pread, "pread");
  find_next(next.readv, "readv");
  find_next(next.preadv, "preadv");
  find_next(next.preadv2, "preadv2");
  find_next(next.write, "write");
  find_next(next.pwrite, "pwrite");
  find_next(next.writev, "writev");
  find_next(next.pwritev, "pwritev");
  find_next(next.pwritev2, "pwritev2");
  find_next(next.fsync, "fsync");
  find_next(next.fdatasync, "fdatasync");
  find_next(next.close, "close");
  find_next(next.copy_file_range, "copy_file_range");
  find_next(next.sendfile, "sendfile");
  find_next(next.splice, "splice");
  find_next(next.openat, "openat");
  find_next(next.fcntl, "fcntl");
  find_next(next.lockf, "lockf");
  find_next(next.posix_fallocate, "posix_fallocate");
}

/// An allocator of the program's own, such as jemalloc, may have its locks held around fork(), and says so when it is
/// asked first. Who says so later is called before it in the parent, and after it in the child: its locks are free.
void let_allocator_take_part_in_forks() noexcept {
  void* volatile const first = ::malloc(1);
  ::free(first);
}

__attribute__((destructor(101))) void end() {
  if (Mappings* mappings = mappings_for_caller()) {
    mappings->at_process_end();
  }
}

__attribute__((constructor(101))) void begin() {
  find_next_calls();
  const Inside inside;
  note_standard_error();
  auto* mappings = new (mappings_memory) Mappings(read_settings());
  let_allocator_take_part_in_forks();
  ::pthread_atfork([] { the_mappings.load()->before_fork(); }, [] { the_mappings.load()->after_fork_in_parent(); },
                   [] { the_mappings.load()->after_fork_in_child(); });
  ::at_quick_exit(end);
  the_mappings.store(mappings, std::memory_order_release);
}

}  // namespace

const NextCalls& next_calls() noexcept {
  return the_next_calls;
}

Mappings* mappings_for_caller() noexcept {
  Mappings* mappings = the_mappings.load(std::memory_order_acquire);
  return mappings == nullptr || Inside::entered() ? nullptr : mappings;
}

OwnDescriptors* descriptors_of_engine() noexcept {
  Mappings* mappings = the_mappings.load(std::memory_order_acquire);
  return mappings == nullptr ? nullptr : &mappings->own_descriptors();
}

}  // namespace tiermap::preload
