#include "fault/fillers.hpp"

#include <algorithm>
#include <cerrno>

#include "fault/page_size_choice.hpp"
#include "platform/engine_thread.hpp"

namespace tiermap {
namespace {

constexpr unsigned reads_at_once = 64;

/// Whether it is the small pages of a region whose page size follows the access.
bool is_small_size(const PagedRegion& region) noexcept {
  return region.choice != nullptr && &region == &region.choice->small();
}

/// Whether all of a page is in memory, or on its way there.
bool is_there(const PagedRegion& region, std::uint64_t page) noexcept {
  if (region.table.load(page).state() != PageState::absent) {
    return true;
  }
  const PageSizeChoice* const choice = region.choice;
  return choice != nullptr && (choice->is_wide(region.page_address(page)) ||
                               choice->count_small(page) == region.page_bytes / PageSizeChoice::small_page_bytes);
}

/// So many are one after the other, as far as a stream may pass them.
std::uint32_t count_in_memory_before(const PagedRegion& region, std::uint64_t page) noexcept {
  std::uint32_t count = 0;
  while (count < StreamDetector::most_passed && count < page && is_there(region, page - count - 1)) {
    ++count;
  }
  return count;
}

}  // namespace

// From the delegated constructor on the destructor ends those that run, should another one not start.
Fillers::Fillers(Pager& pager, std::uint32_t threads) : Fillers(pager) {
  for (std::uint32_t index = 0; index < threads; ++index) {
    threads_.push_back(start_engine_thread(
        "tiermap-fill", [this, worker = std::make_unique<FillWorker>(pager, reads_at_once)] { run(*worker); }));
  }
}

Fillers::~Fillers() {
  queue_.close();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Fillers::fill(PagedRegion& region, std::uint64_t page, bool write, std::uint64_t started_nanoseconds) noexcept {
  region.users.fetch_add(1, std::memory_order_acq_rel);
  const FillRequest request{.region = &region,
                            .first = page,
                            .kind = FillKind::fault,
                            .write = write,
                            .alone = region.reads_may_block(),
                            .started_nanoseconds = started_nanoseconds};
  while (!queue_.push(request)) {
    // Tens of thousands of faults wait already: one more can wait for a place.
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

bool Fillers::hand_over(PagedRegion& region, std::uint64_t page, bool write,
                        std::uint64_t started_nanoseconds) noexcept {
  region.users.fetch_add(1, std::memory_order_acq_rel);
  const FillRequest request{.region = &region,
                            .first = page,
                            .kind = FillKind::fault,
                            .write = write,
                            .handed_over = true,
                            .started_nanoseconds = started_nanoseconds};
  if (!queue_.push(request, &pager_.blocking_regions)) {
    RegionUse::adopt(&region);
    return false;
  }
  return true;
}

void Fillers::prefetch(PagedRegion& region, const ReadAhead& plan, PrefetchState* completion) noexcept {
  if (plan.count == 0) {
    return;
  }
  region.users.fetch_add(1, std::memory_order_acq_rel);
  const FillRequest request{.region = &region,
                            .first = plan.first,
                            .step = plan.step,
                            .count = plan.count,
                            .kind = FillKind::prefetch,
                            .alone = region.reads_may_block(),
                            .completion = completion};
  if (!queue_.push(request)) {
    RegionUse::adopt(&region);
    if (completion != nullptr) {
      completion->settle(plan.count, 0);
    }
  }
}

void Fillers::follow(const Plan& plan) noexcept {
  PagedRegion& region = *plan.region;
  const ReadAhead& pages = plan.pages;
  const PageSizeChoice* const choice = region.choice;
  for (std::uint32_t index = 0; index < pages.count_behind; ++index) {
    const std::uint64_t page = pages.behind + static_cast<std::uint64_t>(pages.step * static_cast<std::int64_t>(index));
    if (choice == nullptr || !choice->is_wide(region.page_address(page))) {
      pager_.advise(region, page, Hotness::cold);
    } else if (choice->ends_wide(page)) {  // Before that the reader is still in it.
      pager_.advise(choice->wide(), choice->wide().page_of(region.page_address(page)), Hotness::cold);
    }
  }
  if (choice == nullptr || pages.step != 1 || !choice->has_wide_pages(pager_.frames().budget_bytes())) {
    return prefetch(region, pages, nullptr);
  }
  choice->split(pages.first, pages.count, [this](PagedRegion& part, std::uint64_t first, std::uint32_t count) {
    prefetch(part, {first, 1, count}, nullptr);
  });
}

Fillers::FollowedPage Fillers::followed_page(PagedRegion& region, std::uint64_t page) noexcept {
  const PageSizeChoice* const choice = region.choice;
  return choice == nullptr ? FollowedPage{&region, page}
                           : FollowedPage{&choice->large(), choice->large_page_of(region, page)};
}

Fillers::Plan Fillers::plan_after_miss(PagedRegion& region, std::uint64_t page) const noexcept {
  if (is_small_size(region)) {
    const bool seen = region.choice->missed_small(page, pager_.frames().budget_bytes());
    return seen ? plan_after_touch(followed_page(region, page)) : Plan{&region, {}};
  }
  if (region.choice != nullptr) {
    region.choice->missed_larger();
  }
  return plan_after_touch(followed_page(region, page));
}

Fillers::Plan Fillers::plan_after_rescue(PagedRegion& region, std::uint64_t page, bool prefetched) noexcept {
  const FollowedPage touched = followed_page(region, page);
  if (prefetched) {
    return {touched.region, touched.region->streams->used(touched.page)};
  }
  return is_small_size(region) ? Plan{&region, {}} : plan_after_touch(touched);
}

Fillers::Plan Fillers::plan_after_touch(FollowedPage touched) noexcept {
  return {touched.region,
          touched.region->streams->missed(touched.page, count_in_memory_before(*touched.region, touched.page))};
}

void Fillers::run(FillWorker& worker) {
  FillQueue::Batch batch;
  while (true) {
    const bool idle = worker.in_flight() == 0;
    const std::size_t taken = worker.full() ? 0 : queue_.pop(batch, batch.size(), idle);
    if (taken == 0 && idle) {
      return;
    }
    for (std::size_t index = 0; index < taken; ++index) {
      if (taken > 1 && index == 0) {
        pager_.count(*batch[0].region, Counter::batches);
      }
      worker.start(batch[index]);
    }
    // With more to start, look at the device only in passing.
    worker.reap(taken > 0 && !worker.full() ? 0 : 1);
  }
}

}  // namespace tiermap
