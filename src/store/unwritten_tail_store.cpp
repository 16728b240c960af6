#include "store/unwritten_tail_store.hpp"

#include <algorithm>
#include <cstring>

namespace tiermap {

void UnwrittenTailStore::shrink_tail(std::uint64_t written_end) noexcept {
  std::uint64_t begin = tail_begin_.load(std::memory_order_relaxed);
  while (begin < written_end && !tail_begin_.compare_exchange_weak(begin, written_end, std::memory_order_acq_rel)) {
  }
}

std::int64_t UnwrittenTailStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t begin = tail_begin_.load(std::memory_order_acquire);
  if (offset < begin) {
    return base_->read(buffer, std::min<std::uint64_t>(bytes, begin - offset), offset);
  }
  const std::uint64_t size = base_->size_bytes();
  const std::uint64_t there = std::min<std::uint64_t>(bytes, size > offset ? size - offset : 0);
  std::memset(buffer, 0, there);
  return static_cast<std::int64_t>(there);
}

std::int64_t UnwrittenTailStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  shrink_tail(offset + bytes);
  return base_->write(buffer, bytes, offset);
}

bool UnwrittenTailStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  const std::uint64_t begin = tail_begin_.load(std::memory_order_acquire);
  if (offset < begin) {
    return base_->locate_read(offset, std::min(bytes, begin - offset), extent);
  }
  extent = {-1, 0, bytes, true, false};
  return true;
}

bool UnwrittenTailStore::locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept {
  shrink_tail(offset + bytes);
  return base_->locate_write(offset, bytes, extent);
}

}  // namespace tiermap
