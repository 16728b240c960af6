// What a Region is inside, for either engine. Ranges come checked and rounded to whole pages of the region.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "fault/prefetch_state.hpp"
#include "tiermap/region.hpp"

namespace tiermap {

/// Of offset, length and reserve. Far above any machine's address space for one mapping, far below what would wrap.
inline constexpr std::uint64_t largest_mapping_bytes = std::uint64_t{1} << 46U;

class RegionImplementation {
 public:
  virtual ~RegionImplementation() = default;

  virtual std::byte* data() const noexcept = 0;
  virtual std::uint64_t size() const noexcept = 0;
  virtual std::uint64_t page_size_bytes() const noexcept = 0;
  /// What may be read for an access. Ranges to prefetch are rounded to that.
  virtual std::uint64_t least_page_bytes() const noexcept { return page_size_bytes(); }
  virtual std::shared_ptr<PrefetchState> prefetch(std::span<const ByteRange> ranges) = 0;
  virtual void pin(ByteRange range) = 0;
  virtual void unpin(ByteRange range) = 0;
  virtual void advise(Advice advice, ByteRange range) = 0;
  /// Advice::dont_need, but that memory may stay with the cache, for the pages that come next.
  virtual void make_room(ByteRange range) { advise(Advice::dont_need, range); }
  /// How many pages of the range are in memory; all, where nobody knows. Of pages of a chosen size.
  virtual std::uint64_t pages_in_memory(ByteRange range) const noexcept {
    return (range.bytes + page_size_bytes() - 1) / page_size_bytes();
  }
  virtual void sync(ByteRange range) = 0;
  virtual void write_back(ByteRange range) = 0;
  virtual void flush(ByteRange range) = 0;
  virtual void discard(ByteRange range) = 0;
  virtual void update(ByteRange range, const std::function<void()>& change) = 0;
  /// Whether `replace` did it; nothing is mapped by this object then.
  virtual bool hand_over(const std::function<bool()>& replace) = 0;
  virtual void resize(std::uint64_t length) = 0;
  /// Writes back and unmaps; throws, and stays mapped, if something could not be written.
  virtual void unmap() = 0;
  /// Unmaps whatever happens.
  virtual void abandon() noexcept = 0;
  virtual Statistics statistics() const = 0;

  /// Whether this is a forked child: the threads that would serve the region are the parent's, and so is the region.
  bool in_child() const noexcept { return ::getpid() != owner_; }

  static Prefetch make_prefetch(std::shared_ptr<PrefetchState> state) {
    Prefetch result;
    result.state_ = std::move(state);
    return result;
  }

 private:
  pid_t owner_ = ::getpid();
};

}  // namespace tiermap
