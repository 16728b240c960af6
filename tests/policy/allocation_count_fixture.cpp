#include <atomic>
#include <cstdlib>
#include <new>

#include "policy/allocation_count.hpp"

namespace tiermap {

namespace {
std::atomic<std::uint64_t> allocations{0};
}

std::uint64_t allocation_count() noexcept {
  return allocations.load();
}

}  // namespace tiermap

void* operator new(std::size_t size) {
  tiermap::allocations.fetch_add(1);
  if (void* memory = std::malloc(size == 0 ? 1 : size); memory != nullptr) {
    return memory;
  }
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
