// Fills pages with many reads in flight from one thread. Managers and fillers each have one.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fault/fill_queue.hpp"
#include "fault/pager.hpp"
#include "platform/io_ring.hpp"

namespace tiermap {

/// Reads are joined up to this: the device gains little from more, and the first page of a run waits for its last. And
/// what is under way holds frames that nobody can use yet: with little memory, less of it at once.
constexpr std::uint64_t most_run_bytes(std::uint64_t budget_bytes) noexcept {
  return std::min<std::uint64_t>(1 << 20, budget_bytes / 16);
}

/// Used by one thread. After its construction it neither allocates nor frees: the thread that faults may have been
/// interrupted in malloc(), holding the lock we would wait for.
class FillWorker {
 public:
  FillWorker(Pager& pager, unsigned depth);
  ~FillWorker();

  /// Starts a request; what cannot be read through the ring is read at once.
  void start(const FillRequest& request);
  bool full() const noexcept { return ring_.full(); }
  unsigned in_flight() const noexcept { return ring_.in_flight(); }
  int file_descriptor() const noexcept { return ring_.file_descriptor(); }
  void submit() { ring_.submit(); }
  /// Finishes what the store has delivered, waiting for at least `least` reads (fewer if fewer are in flight).
  void reap(unsigned least);

 private:
  /// Consecutive pages read by one request to the kernel.
  struct Run {
    std::optional<RegionUse> region;
    std::uint64_t first = 0;
    FillKind kind = FillKind::fault;
    bool write = false;
    std::uint64_t started_nanoseconds = 0;
    std::uint64_t read_nanoseconds = 0;
    PrefetchState* completion = nullptr;
    std::vector<FillFrames> frames;  ///< Never more than there is room for from the start; the vectors neither.
    std::vector<iovec> vectors;
    std::uint64_t bytes = 0;
    std::uint64_t file_offset = 0;
    int file_descriptor = -1;
  };
  /// Puts a run back where it came from.
  struct Recycle {
    FillWorker* worker = nullptr;
    void operator()(Run* run) const noexcept { worker->recycle(*run); }
  };
  using OwnedRun = std::unique_ptr<Run, Recycle>;

  OwnedRun take_run(RegionUse region, std::uint64_t first, const FillRequest& request) noexcept;
  void recycle(Run& run) noexcept;
  void start_fault(const FillRequest& request);
  void start_prefetch(const FillRequest& request);
  void prefetch_in_smaller_pages(PagedRegion& region, std::uint64_t page, PrefetchState* completion);
  bool frames_for_prefetch(PagedRegion& region, Arrival arrival, FillFrames& frames);
  enum class Claim : std::uint8_t { claimed, resident, not_wanted, no_memory, other_size };
  Claim claim(PagedRegion& region, std::uint64_t page, Arrival arrival, FillFrames& frames, OwnedRun& run);
  void launch(OwnedRun run);
  void enter_traffic(PagedRegion& region);
  void read_now(Run& run, std::size_t from);
  void finish(Run& run, std::int64_t result);
  void settle(Run& run, std::size_t index, int error);

  Pager& pager_;
  IoRing ring_;
  std::vector<Run> runs_;  ///< As many as can be in flight, and the one being put together. Tokens are indices.
  std::vector<Run*> free_runs_;
};

}  // namespace tiermap
