// A Region: bytes of a store as an address range. Loads and stores just work; the rest of this header says what is
// coming and what must last.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tiermap/options.hpp"
#include "tiermap/statistics.hpp"

namespace tiermap {

/// A piece of a region, in bytes from its start.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Completion of a prefetch. Copies refer to the same prefetch. Thread-safe.
class Prefetch {
 public:
  Prefetch() = default;
  /// Waits until every page was fetched or given up (a page whose read failed, or for which no memory was free, is
  /// given up: touching it tells the error). Returns how many pages are in memory because of it or were already; one
  /// that a fault or another prefetch is just reading is left to that, neither waited for nor counted.
  std::uint64_t wait() const;
  /// Waits as long as that at most; a signal handler that runs meanwhile ends it, too. Returns done().
  bool wait_for(std::chrono::milliseconds time) const noexcept;
  /// Whether wait() would return at once.
  bool done() const noexcept;

 private:
  friend class RegionImplementation;
  std::shared_ptr<class PrefetchState> state_;
};

/// An address range served by a Cache. Movable, not copyable; unmaps when destroyed, writing back what is dirty first
/// (without the promise of sync(); errors are lost there, so call sync() or unmap()). Members may be called from any
/// thread at once, but for unmap(), hand_over(), resize() and destruction. Ranges are in bytes from the region's start;
/// they are rounded out to whole pages, and a range that leaves the region throws OptionError (ERANGE). Members are not
/// for signal handlers; the memory is, even where they interrupted malloc() (with self-serving faults unless they block
/// SIGBUS).
class Region {
 public:
  Region() = default;
  Region(Region&&) noexcept;
  Region& operator=(Region&&) noexcept;
  ~Region();

  std::byte* data() const noexcept;     ///< First byte; nullptr if nothing is mapped.
  std::uint64_t size() const noexcept;  ///< Bytes mapped.
  /// What ranges are rounded to. Where the page size follows the access this is 64 KiB, though more or less than that
  /// may be read at once.
  std::uint64_t page_size_bytes() const noexcept;
  explicit operator bool() const noexcept { return implementation_ != nullptr; }

  /// The region as an array of T, as many as fit.
  template <typename T>
  std::span<T> as_span() const noexcept {
    return {reinterpret_cast<T*>(data()), static_cast<std::size_t>(size() / sizeof(T))};
  }

  /// Fetches pages in the background, contiguous or not, in the order given; gives up rather than evict pages that this
  /// same call fetched. Where the page size follows the access, ranges are rounded to 4 KiB only.
  Prefetch prefetch(std::span<const ByteRange> ranges);
  Prefetch prefetch(ByteRange range) { return prefetch(std::span<const ByteRange>(&range, 1)); }

  /// Fetches the range and keeps it in memory until as many unpin() calls. Throws Error with ENOMEM, and pins nothing,
  /// if the budget cannot hold it beside what is pinned already; with EIO if the store fails. The page size of the
  /// region no longer follows the access: it is 64 KiB from here on.
  void pin(ByteRange range);
  /// Undoes one pin() of the same range. Throws OptionError if some page of it is not pinned.
  void unpin(ByteRange range);

  /// Says what will be done with the range; never changes what the bytes are. Normal, sequential and random say how the
  /// program reads: they hold for the whole region, whatever the range, until the next of them (in fault mode kernel
  /// for the range). The others are done once, to the range.
  void advise(Advice advice, ByteRange range);
  void advise(Advice advice) { advise(advice, {0, size()}); }

  /// Writes back what is dirty in the range and makes it durable. What other threads write meanwhile may or may not be
  /// included. Throws Error with the store's errno if something could not be written: it stays dirty and is tried
  /// again. Of a writable region, clean pages that were moved into place are compared with their checksums, for the
  /// sake of the program's own direct I/O (docs/design.md): at the checksum's 17 GB/s or so. sync(range) looks at the
  /// range alone.
  void sync(ByteRange range);
  void sync() { sync({0, size()}); }

  /// sync() without durability: when it returns, the store has what is dirty in the range now.
  void write_back(ByteRange range);

  /// Starts writing back what is dirty in the range, without waiting and without durability.
  void flush(ByteRange range);
  void flush() { flush({0, size()}); }

  /// Drops the range from memory, dirty pages unwritten, but for one that reaches beyond it and is written whole (where
  /// no page size was chosen): the next access reads what the store has. Pinned pages are read again in place.
  void discard(ByteRange range);

  /// Lets `change` alter the store's bytes in the range behind the region's back (a write() to the file, say). What is
  /// dirty in the range is written back first, and nobody reaches its pages while `change` runs: accesses wait, and
  /// then find what the store has. `change` must touch no page of the range itself, nor call members of this region.
  /// What it throws is passed on. Throws Error like sync(), and then `change` has not run.
  void update(ByteRange range, const std::function<void()>& change);

  /// Gives the address range up to another mapping, in one step that other threads do not notice. Everything dirty is
  /// written back, accesses that are not served yet wait, and `replace` is called: it is to put a mapping of the same
  /// bytes at [data(), data() + size() rounded up to 4096) in one call (mmap() or mremap() over it), and say whether it
  /// did. Then the waiting threads go on there, and nothing is mapped by this object any more. Returns what `replace`
  /// did; if false, or something is thrown (what `replace` throws; Error as by sync(), or with ENOTSUP in another fault
  /// mode than notify), the region goes on as before. Not for pinned regions: what is pinned is unpinned. `replace`
  /// must touch no page of the region.
  bool hand_over(const std::function<bool()>& replace);

  /// Changes the length, without moving: growing needs address space (RegionOptions::reserve_bytes; without it the
  /// neighbouring addresses must be free, else Error with ENOMEM). Shrinking writes back what it cuts off first and
  /// then frees it; the store keeps its size. With manual_flush nothing is written: what is cut off is dropped, and
  /// unwritten changes in a page that is cut, or in a last page that is not full and is to grow, are refused with
  /// EBUSY. No other thread may use the part that goes.
  void resize(std::uint64_t length);

  /// sync() without durability, then unmaps; a private copy's changes are dropped. Throws like sync() and then stays
  /// mapped. Idempotent.
  void unmap();

  Statistics statistics() const;

 private:
  friend class Cache;
  friend class TransactionPrefetcher;
  void make_room(ByteRange range);  // Advice::dont_need, but that memory may stay with the cache.
  std::uint64_t pages_in_memory(ByteRange range) const;
  explicit Region(std::shared_ptr<class RegionImplementation> implementation) noexcept;
  std::shared_ptr<class RegionImplementation> implementation_;
};

}  // namespace tiermap
