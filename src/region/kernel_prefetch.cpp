#include "region/kernel_prefetch.hpp"

#include <algorithm>
#include <utility>

#include "platform/engine_thread.hpp"
#include "platform/populate.hpp"

namespace tiermap {

KernelPrefetch::KernelPrefetch() : thread_(start_engine_thread("tm-prefetch", [this] { work(); })) {}

KernelPrefetch::~KernelPrefetch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const Request& request : queue_) {
    request.state->settle(pages_in(*request.mapping, request.range), 0);
  }
}

std::uint32_t KernelPrefetch::pages_in(const KernelMapping& mapping, ByteRange range) noexcept {
  return static_cast<std::uint32_t>((range.bytes + mapping.page_bytes() - 1) / mapping.page_bytes());
}

std::shared_ptr<PrefetchState> KernelPrefetch::add(KernelMapping& mapping, CounterBlock& region, CounterBlock& cache,
                                                   std::span<const ByteRange> ranges, std::uint64_t most_bytes) {
  std::uint32_t pages = 0;
  for (const ByteRange& range : ranges) {
    pages += pages_in(mapping, range);
  }
  auto state = PrefetchState::make(pages);
  std::uint32_t given_up = 0;
  std::uint64_t room = most_bytes / mapping.page_bytes() * mapping.page_bytes();
  {
    const std::lock_guard lock(mutex_);
    for (const ByteRange& range : ranges) {
      const ByteRange taken{range.offset, std::min(range.bytes, room)};
      given_up += pages_in(mapping, range) - pages_in(mapping, taken);
      room -= taken.bytes;
      if (taken.bytes > 0) {
        queue_.push_back({&mapping, &region, &cache, taken, state});
      }
    }
  }
  changed_.notify_all();
  if (given_up > 0) {
    state->settle(given_up, 0);
  }
  return state;
}

void KernelPrefetch::cancel(const KernelMapping& mapping) {
  std::unique_lock lock(mutex_);
  for (Request& request : queue_) {
    if (request.mapping == &mapping) {
      request.state->settle(pages_in(mapping, request.range), 0);
    }
  }
  std::erase_if(queue_, [&](const Request& request) { return request.mapping == &mapping; });
  changed_.wait(lock, [&] { return busy_with_ != &mapping; });
}

void KernelPrefetch::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) {
      return;
    }
    // A piece at a time, so that cancel() need not wait long.
    constexpr std::uint64_t largest_piece = std::uint64_t{1} << 20;
    Request& first = queue_.front();
    KernelMapping& mapping = *first.mapping;
    const ByteRange piece{first.range.offset,
                          std::min(first.range.bytes, std::max(largest_piece, mapping.page_bytes()))};
    const Request request = first;
    first.range = {piece.offset + piece.bytes, first.range.bytes - piece.bytes};
    if (first.range.bytes == 0) {
      queue_.pop_front();
    }
    busy_with_ = &mapping;
    lock.unlock();

    const std::uint64_t whole_pages = (piece.bytes + 4095) / 4096 * 4096;
    const bool filled = populate_pages(mapping.data() + piece.offset, whole_pages) == 0;
    const std::uint32_t pages = pages_in(mapping, piece);
    if (filled) {
      request.region->add(Counter::prefetched_pages, pages);
      request.cache->add(Counter::prefetched_pages, pages);
    }
    lock.lock();
    busy_with_ = nullptr;
    request.state->settle(pages, filled ? pages : 0);
    changed_.notify_all();
  }
}

}  // namespace tiermap
