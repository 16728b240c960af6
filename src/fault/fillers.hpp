// The threads that read: prefetches always, and faults that nobody nearer the fault could serve.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "fault/fill_queue.hpp"
#include "fault/fill_worker.hpp"

namespace tiermap {

class Fillers {
 public:
  Fillers(Pager& pager, std::uint32_t threads);
  ~Fillers();
  Fillers(const Fillers&) = delete;
  Fillers& operator=(const Fillers&) = delete;

  /// Hands over a page in state filling. Safe in signal handlers.
  void fill(PagedRegion& region, std::uint64_t page, bool write, std::uint64_t started_nanoseconds) noexcept;
  /// The same for a page that the caller could fill as well. False, and the page is still his, if that would take a
  /// place in the queue that is not there, or if a filler may be inside a store that waits for whatever it likes, the
  /// caller included: what is queued here is read before any such store is asked. Safe in signal handlers.
  bool hand_over(PagedRegion& region, std::uint64_t page, bool write, std::uint64_t started_nanoseconds) noexcept;
  /// Asks for pages that are not there yet; forgotten if there is too much of that already. Safe in signal handlers.
  /// `completion` may be null.
  void prefetch(PagedRegion& region, const ReadAhead& plan, PrefetchState* completion) noexcept;
  /// What a stream wants: pages ahead of the reader, and those that he has left to go before others. Safe in signal
  /// handlers.
  struct Plan {
    PagedRegion* region;  ///< Where the page size follows the access, that of large pages.
    ReadAhead pages;
  };
  void follow(const Plan& plan) noexcept;
  /// To be asked about each page that a fault misses, and each that it finds unmapped, read ahead or not. Safe in
  /// signal handlers.
  Plan plan_after_miss(PagedRegion& region, std::uint64_t page) const noexcept;
  static Plan plan_after_rescue(PagedRegion& region, std::uint64_t page, bool prefetched) noexcept;

 private:
  explicit Fillers(Pager& pager) : pager_(pager) {}
  /// A page as streams see it: where the page size follows the access, the large one in which it lies.
  struct FollowedPage {
    PagedRegion* region;
    std::uint64_t page;
  };
  static FollowedPage followed_page(PagedRegion& region, std::uint64_t page) noexcept;
  static Plan plan_after_touch(FollowedPage touched) noexcept;
  void run(FillWorker& worker);

  Pager& pager_;
  FillQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace tiermap
