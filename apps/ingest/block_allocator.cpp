#include "ingest/block_allocator.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>

#include "tiermap/error.hpp"

namespace tiermap {

BlockAllocator::BlockAllocator(AllocatorState& state, std::uint64_t begin, std::uint64_t end) noexcept
    : state_(state), end_(end) {
  state_ = AllocatorState{};
  state_.top = begin;
}

std::uint64_t BlockAllocator::allocate(std::uint32_t size_class) {
  const std::uint64_t bytes = block_bytes(size_class);
  const std::atomic_ref cursor(state_.cursors[size_class]);
  for (;;) {
    std::uint64_t at = cursor.load(std::memory_order_relaxed);
    // A cursor never has a value twice: nobody can take the one that was read here for another.
    while (at % chunk_bytes != 0) {
      if (cursor.compare_exchange_weak(at, at + bytes, std::memory_order_relaxed)) {
        return at;
      }
    }
    // No chunk yet, or the last one is used up. Only who holds the lock moves a cursor on from here.
    const std::lock_guard lock(mutex_);
    if (cursor.load(std::memory_order_relaxed) != at) {
      continue;
    }
    const std::uint64_t chunk = state_.top;
    if (end_ - chunk < chunk_bytes) {
      throw StoreError(EIO, fmt::format("the file is full at {} bytes: the edges are not those that were counted "
                                        "before; let nobody change the input, and try again",
                                        end_));
    }
    state_.top = chunk + chunk_bytes;
    cursor.store(chunk + bytes, std::memory_order_relaxed);
    return chunk;
  }
}

}  // namespace tiermap
