// Keeps the regions of fault mode kernel near their budget: one thread looks at how much is mapped and takes pages out,
// round and round in the order of addresses; another writes back what was taken out and drops it from the page cache.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "observe/counters.hpp"
#include "platform/present_pages.hpp"
#include "region/kernel_mapping.hpp"

namespace tiermap {

/// Writes back and drops pieces of files in the background. All members are thread-safe.
class FileDropper {
 public:
  /// `counters` outlives this; writes that fail are counted there.
  explicit FileDropper(CounterBlock& counters);
  /// Leaves out what is still queued: the kernel has it all.
  ~FileDropper();

  /// Pages that somebody has mapped again by the time stay. What does not fit the queue is passed over.
  void drop(std::shared_ptr<Store> store, int file_descriptor, std::uint64_t offset, std::uint64_t bytes);
  /// Takes what is queued of a store off the queue. Returns when what was under way with it is done.
  void forget(const Store& store);
  /// What became of writes to a store since the last call: 0, or the negative errno value of the first that failed.
  int take_error(const std::shared_ptr<Store>& store);

 private:
  struct Failure {
    std::weak_ptr<Store> store;
    int error;
  };
  static bool is_of(const Failure& failure, const std::shared_ptr<Store>& store) noexcept {
    return !failure.store.owner_before(store) && !store.owner_before(failure.store);
  }
  void wait_for_piece(std::unique_lock<std::mutex>& lock, const Store& store);
  void remember(const std::shared_ptr<Store>& store, int error);
  struct Piece {
    std::shared_ptr<Store> store;
    int file_descriptor;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  void work();

  CounterBlock& counters_;
  std::mutex mutex_;  ///< Guards all that follows.
  std::condition_variable changed_;
  std::deque<Piece> queue_;
  const Store* busy_with_ = nullptr;
  std::uint64_t pieces_done_ = 0;
  std::vector<Failure> failures_;  ///< One for each store at most.
  bool stop_ = false;
  std::thread thread_;
};

/// All members are thread-safe.
class KernelBudget {
 public:
  /// `counters` outlives this; gauges and evictions are kept there.
  KernelBudget(std::uint64_t budget_bytes, std::uint32_t high_watermark_percent, std::uint32_t low_watermark_percent,
               CounterBlock& counters, bool may_scan = true);
  ~KernelBudget();

  void attach(KernelMapping& mapping, CounterBlock& counters);
  /// Returns when neither the mapping nor, for its sake, its store is touched any more.
  void detach(KernelMapping& mapping);

  std::uint64_t budget_bytes() const noexcept { return budget_.load(std::memory_order_relaxed); }
  /// Returns when what is mapped was seen under it. Throws Error with ENOMEM, and keeps the old one, if that cannot be
  /// had.
  void set_budget_bytes(std::uint64_t bytes);
  std::uint64_t minimum_budget_bytes() const noexcept { return least_budget_bytes; }
  /// What pins and prefetches may fill.
  std::uint64_t room_bytes() const noexcept { return percent_of(budget_bytes(), low_percent_); }

  /// Counts now: what is present of all regions, pages that private mappings made their own included.
  std::uint64_t count_resident_bytes();
  /// Takes a range out of memory, as far as it is not pinned, its page cache as well.
  void give_up(KernelMapping& mapping, ByteRange range);
  /// See FileDropper::take_error().
  int take_write_error(const std::shared_ptr<Store>& store) { return dropper_.take_error(store); }

  /// The kernel maps up to 64 KiB around a fault, and this needs some of them to choose from.
  static constexpr std::uint64_t least_budget_bytes = std::uint64_t{1} << 20;

 private:
  struct Watched {
    KernelMapping* mapping;
    CounterBlock* counters;
  };
  static std::uint64_t percent_of(std::uint64_t bytes, std::uint32_t percent) noexcept { return bytes / 100 * percent; }

  void watch();
  std::uint64_t estimate() const noexcept;
  std::uint64_t calibrate();
  std::uint64_t evict(std::uint64_t wanted);
  void drop_file(const KernelMapping& mapping, std::uint64_t from, std::uint64_t to);

  std::atomic<std::uint64_t> budget_;
  const std::uint32_t high_percent_;
  const std::uint32_t low_percent_;
  CounterBlock& counters_;
  const PresentPages present_;
  FileDropper dropper_;

  std::mutex mutex_;  ///< Guards all that follows.
  std::condition_variable changed_;
  std::vector<Watched> regions_;
  std::size_t hand_region_ = 0;
  std::uint64_t hand_offset_ = 0;
  std::uint64_t other_file_bytes_ = 0;  ///< What the process has of other files, as of the last count.
  std::uint64_t written_bytes_ = 0;     ///< What private mappings had made their own, as of the last count.
  std::uint64_t next_count_nanoseconds_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tiermap
