#include <sys/prctl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "system_calls/heap_calls.hpp"

namespace tiermap {
namespace {

std::atomic<bool> watching{false};
std::atomic<std::uint64_t> calls_of_engine{0};

[[maybe_unused]] void note_heap_call() noexcept {
  char name[16] = "";
  if (watching.load(std::memory_order_relaxed) && ::prctl(PR_GET_NAME, name) == 0 &&
      std::strncmp(name, "tiermap-", 8) == 0) {
    calls_of_engine.fetch_add(1);
  }
}

}  // namespace

void watch_heap_calls(bool on) noexcept {
  if (on) {
    calls_of_engine.store(0);
  }
  watching.store(on);
}

std::uint64_t heap_calls_of_engine() noexcept {
  return calls_of_engine.load();
}

}  // namespace tiermap

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
void* operator new(std::size_t size) {
  tiermap::note_heap_call();
  if (void* memory = std::malloc(size == 0 ? 1 : size); memory != nullptr) {
    return memory;
  }
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  tiermap::note_heap_call();
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  tiermap::note_heap_call();
  std::free(memory);
}
#endif
