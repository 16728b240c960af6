// What a cache and its regions did, read from code. Another process reads the same numbers with `tiermap top`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tiermap {

/// What is counted, for each region and for the cache as a whole. counter_name() gives the name in JSON and on screens.
enum class Counter : std::uint8_t {
  read_faults,       ///< Accesses to absent pages that were reads. In notify mode a page of several blocks may be asked
                     ///< for once more while it is being put into place.
  write_faults,      ///< Accesses to absent pages that were writes.
  protect_faults,    ///< First writes to clean resident pages.
  coalesced_faults,  ///< Faults on a page that was being filled already.
  fills,             ///< Pages filled from the store, prefetched ones included.
  zero_fills,        ///< Of those, pages in a hole that the store tells of, or past its end: no read.
  rescues,           ///< Pages found unmapped but still in memory: no I/O.
  evictions,         ///< Pages whose frame was given up.
  unmaps,            ///< Pages taken from the program's address range, still in their frame.
  write_backs,       ///< Pages of which something was written to the store.
  read_bytes,        ///< Bytes read from the store.
  written_bytes,     ///< Bytes written to the store.
  prefetched_pages,  ///< Pages filled before anyone asked.
  prefetch_used,     ///< Of those, pages known to have been used; of pages up to 16 KiB only a sample is watched.
  prefetch_wasted,   ///< Of those watched, pages evicted without that; with placement copy a read of one goes unseen.
  frame_waits,       ///< Faults that found no frame, and evicted a page themselves or waited for the evictors.
  read_errors,       ///< Reads the store failed.
  write_errors,      ///< Writes the store failed; the page stays dirty.
  window_writes,     ///< Writes caught in the window between placing a page and protecting it.
  move_retries,      ///< UFFDIO_MOVE calls repeated because the page was pinned or busy.
  copies,            ///< Pages placed by UFFDIO_COPY.
  moves,             ///< Pages placed by UFFDIO_MOVE.
  batches,           ///< Times a worker took a whole batch of faults at once.
  count_             ///< How many there are.
};
inline constexpr std::size_t counter_count = static_cast<std::size_t>(Counter::count_);
const char* counter_name(Counter counter) noexcept;

/// The stages of serving a fault that are timed.
enum class Stage : std::uint8_t {
  queue,  ///< From the message, or from handing it on, until a worker takes it; a thread that serves itself has none.
  frame,  ///< Until a free frame is at hand.
  read,   ///< Until the store has filled it.
  place,  ///< Until the program can reach it.
  total,  ///< All of it.
  count_
};
inline constexpr std::size_t stage_count = static_cast<std::size_t>(Stage::count_);
const char* stage_name(Stage stage) noexcept;

/// A histogram of durations: bucket i counts those of at least 2^i and under 2^(i+1) nanoseconds.
struct LatencyHistogram {
  std::array<std::uint64_t, 40> buckets{};
  std::uint64_t count() const noexcept;
  /// The duration in nanoseconds that a share (0 to 1) of the events did not exceed, to a factor of two; 0 if none.
  std::uint64_t quantile_nanoseconds(double share) const noexcept;
};

/// A consistent-enough snapshot: each number is exact, but they are not all of one instant.
struct Statistics {
  std::array<std::uint64_t, counter_count> counters{};
  std::array<LatencyHistogram, stage_count> stages{};
  std::uint64_t budget_bytes = 0;
  std::uint64_t resident_bytes = 0;  ///< In frames, mapped or not.
  std::uint64_t mapped_bytes = 0;    ///< Of those, in the program's address range.
  std::uint64_t dirty_bytes = 0;     ///< In pages that were changed since they were last written back, or taken to be.
  std::uint64_t operator[](Counter counter) const noexcept { return counters[static_cast<std::size_t>(counter)]; }
};

}  // namespace tiermap
