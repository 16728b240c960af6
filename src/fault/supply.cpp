// Where frames come from when a page is wanted: free ones, then unmapped clean pages, then the evictors.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "fault/pager.hpp"
#include "platform/clock.hpp"
#include "platform/write_unless_closed.hpp"

namespace tiermap {

void Pager::ring_evictors() noexcept {
  evictor_work.fetch_add(1);
  if (evictors_asleep.load() != 0) {
    futex_wake_all(&evictor_work);
  }
}

// One: were all who wait woken for every page, they would spend the processors' time finding out that it is gone.
void Pager::announce_supply() noexcept {
  supply.fetch_add(1);
  if (supply_sleepers.load() != 0) {
    futex_wake_one(&supply);
  }
}

void Pager::pass_on_supply() noexcept {
  if (supply_sleepers.load() != 0 && frames_.available_bytes() + unmapped_bytes() > 0) {
    futex_wake_one(&supply);
  }
}

void Pager::wait_for_supply(std::uint32_t epoch, std::int64_t patience_nanoseconds) noexcept {
  ring_evictors();
  supply_sleepers.fetch_add(1);
  futex_wait(&supply, epoch, patience_nanoseconds);
  supply_sleepers.fetch_sub(1);
}

bool Pager::exhausted(std::uint32_t exhausted_before, std::uint64_t started_nanoseconds) const noexcept {
  // A page in the hands of a thread that is not running at the moment is in no list: passes alone prove nothing.
  constexpr std::uint64_t patience_nanoseconds = 1'000'000'000;
  constexpr std::uint64_t patience_with_transfers_nanoseconds = 30'000'000'000;
  // Those who come after one who was told need not each wait as long: the first of two more passes may have begun
  // before, the second looks for what has changed.
  constexpr std::uint64_t patience_when_full_nanoseconds = 20'000'000;
  const std::uint32_t passes = exhausted_passes.load(std::memory_order_acquire) - exhausted_before;
  const std::uint64_t now = now_nanoseconds();
  if (found_full_.load(std::memory_order_acquire) && passes >= 2 &&
      now >= started_nanoseconds + patience_when_full_nanoseconds) {
    return true;
  }
  const std::uint64_t hope = std::max(started_nanoseconds, last_hope_nanoseconds.load(std::memory_order_acquire));
  const bool transfers = now < last_held_nanoseconds.load(std::memory_order_acquire) + patience_nanoseconds;
  return passes >= 3 && now >= hope + (transfers ? patience_with_transfers_nanoseconds : patience_nanoseconds);
}

void Pager::return_frames(const FillFrames& frames) noexcept {
  frames_.give_back(frames.data, true);
  if (frames.token != no_frame) {
    frames_.give_back(frames.token, frames_.record(frames.token).populated);
  }
  fills_with_frames.fetch_sub(1, std::memory_order_release);
  announce_supply();
}

FrameId Pager::reclaim_unmapped() noexcept {
  const std::lock_guard held(policy_lock_);
  while (true) {
    const FrameId frame = policy_.choose_to_free();
    if (frame == no_frame) {
      return no_frame;
    }
    PagedRegion& region = *frames_.record(frame).region;
    const std::uint64_t page = frames_.record(frame).page;
    const RegionUse use(region);  // Once its last page is gone, nothing else keeps the region.
    PageWord word = region.table.load(page);
    // If somebody is just rescuing the page, he tells the policy when he has the lock.
    if (word.state() == PageState::unmapped && word.frame() == frame && word.probation() && word.pins() == 0 &&
        region.table.change(page, word, PageWord{})) {
      frames_.record(frame).named = false;
      policy_.removed(frame, true);
      trace(TraceKind::evicted, region, page);
      unmapped_bytes_.fetch_sub(region.page_bytes, std::memory_order_relaxed);
      change_resident_bytes(region, -static_cast<std::int64_t>(region.page_bytes));
      count(region, Counter::evictions);
      if (word.prefetched()) {
        count(region, Counter::prefetch_wasted);
        region.streams->ended(false);
      }
      return frame;
    }
  }
}

bool Pager::take_frames(PagedRegion& region, bool two, FillFrames& frames) noexcept {
  if (two) {
    return frames_.try_take_two(*region.arena, frames.data, frames.token);
  }
  frames.token = no_frame;
  frames.data = frames_.try_take(*region.arena);
  return frames.data != no_frame;
}

bool Pager::try_frames(PagedRegion& region, Arrival arrival, FillFrames& frames, bool room_for_copy) noexcept {
  bool two = fills_by_copy(region, arrival);
  // For a copy, memory of several is given up at once: that takes one interrupt to the other processors.
  constexpr std::uint64_t most_at_once = 8;
  constexpr std::uint64_t part = 64;
  const std::uint64_t cost = FramePool::cost(region.page_bytes);
  const std::uint64_t at_once =
      two && settings_.move ? std::clamp<std::uint64_t>(frames_.budget_bytes() / part / cost, 1, most_at_once) : 1;
  bool gave_up_several = false;
  while (true) {
    if (take_frames(region, two, frames)) {
      if (gave_up_several) {
        pass_on_supply();
      }
      fills_with_frames.fetch_add(1, std::memory_order_relaxed);
      no_longer_full();
      if (shortage_bytes(false) > 0) {
        ring_evictors();
      }
      return true;
    }
    std::uint64_t reclaimed = 0;
    bool alike = true;
    for (FrameId victim = no_frame; alike && reclaimed < at_once && (victim = reclaim_unmapped()) != no_frame;
         ++reclaimed) {
      alike = &frames_.arena_of(victim) == region.arena;
      frames_.give_back(victim, true);
    }
    if (reclaimed > 0) {
      gave_up_several = gave_up_several || reclaimed > 1;
      continue;
    }
    if (two && !room_for_copy && !evicts_by_copy(region)) {
      two = false;  // Where the page may be moved too, one frame does.
    } else {
      return false;
    }
  }
}

// With nothing to write, a faulting thread unmaps victims itself sooner than an evictor could be woken to do it: one,
// or of pages that are dropped a few, for one interrupt to the other processors. It is rarely alone in its wait.
void Pager::evict_directly() noexcept {
  std::array<std::optional<RegionUse>, few_dropped_at_once> uses;
  std::array<Victim, few_dropped_at_once> dropping{};
  const std::uint64_t most_bytes = frames_.budget_bytes() / 64;
  std::uint64_t bytes = 0;
  std::size_t to_drop = 0;
  Eviction result = Eviction::drop;
  while (result == Eviction::drop && to_drop < dropping.size() && (to_drop == 0 || bytes < most_bytes)) {
    Victim& victim = dropping[to_drop];
    if (choose_victims({&victim, 1}) == 0) {
      break;
    }
    uses[to_drop].emplace(RegionUse::adopt(victim.region));
    bytes += victim.region->page_bytes;
    result = evict(victim);
    if (result == Eviction::drop) {
      ++to_drop;
    } else if (result == Eviction::write) {
      // A writable region was mapped just now. Writing is not for signal handlers.
      finish_write(*victim.region, victim.page, -EAGAIN);
    }
  }
  if (to_drop > 0) {
    drop(std::span(dropping).first(to_drop));
    announce_supply();
  }
}

// Once for a cache: whoever gets SIGBUS for want of memory has no other way to learn why.
void Pager::tell_exhausted() noexcept {
  if (told_exhausted_.test_and_set()) {
    return;
  }
  const int error = last_write_error.load(std::memory_order_relaxed);
  const char* cause = error == 0 ? "pinned, held by transfers of the kernel, or changed under manual flushing"
                                 : ::strerrordesc_np(-error);
  std::array<iovec, 3> pieces{};
  const char* const texts[] = {error == 0 ? "tiermap: memory is full of pages that cannot go: "
                                          : "tiermap: memory is full of changed pages that cannot be written: ",
                               cause == nullptr ? "unknown error" : cause,
                               "; who needs more of it gets SIGBUS. Free the cause, or give a larger budget\n"};
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    pieces[piece] = {const_cast<char*>(texts[piece]), std::strlen(texts[piece])};
  }
  write_unless_closed(STDERR_FILENO, pieces);
}

bool Pager::admits(const PagedRegion& region, std::uint64_t page, std::uint32_t thread) noexcept {
  if (!takes_turns(region)) {
    return true;
  }
  const PageWord word = region.table.load(page);
  if (word.mapped() || word.state() == PageState::failed) {  // Takes nobody's frame.
    return true;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(region.page_address(page));
  return fault_turns_.admits(thread, address, now_nanoseconds());
}

bool Pager::obtain_frames(PagedRegion& region, FillFrames& frames) noexcept {
  // With nothing to write, room for a copy is made in less time than a page takes that is moved, and later moved out.
  const bool evicts_itself = writable_regions.load(std::memory_order_relaxed) == 0;
  if (try_frames(region, Arrival::mapped, frames, evicts_itself)) {
    return true;
  }
  count(region, Counter::frame_waits);
  const std::uint64_t demanded = FramePool::cost(region.page_bytes) * (evicts_by_copy(region) ? 2 : 1);
  std::uint32_t exhausted_before = exhausted_passes.load(std::memory_order_acquire);
  std::uint64_t started = now_nanoseconds();
  demand_bytes.fetch_add(demanded, std::memory_order_release);
  waiting_for_frames.fetch_add(1, std::memory_order_release);
  bool obtained = false;
  for (int attempt = 1;; ++attempt) {
    const std::uint32_t epoch = supply.load(std::memory_order_acquire);
    if (writable_regions.load(std::memory_order_relaxed) == 0) {
      evict_directly();
    }
    constexpr int attempts_for_copy = 3;  // What was evicted may have gone to others.
    const bool room_for_copy = evicts_itself && attempt <= attempts_for_copy;
    const bool was_shrinking = shrinking.load();
    obtained = try_frames(region, Arrival::mapped, frames, room_for_copy);
    if (was_shrinking || shrinking.load()) {  // What the evictors find now says nothing of the old budget.
      exhausted_before = exhausted_passes.load(std::memory_order_acquire);
      started = now_nanoseconds();
    }
    if (obtained || exhausted(exhausted_before, started)) {
      break;
    }
    if (room_for_copy) {
      continue;
    }
    constexpr std::int64_t patience_nanoseconds = 20'000'000;
    wait_for_supply(epoch, patience_nanoseconds);
  }
  waiting_for_frames.fetch_sub(1, std::memory_order_release);
  demand_bytes.fetch_sub(demanded, std::memory_order_release);
  pass_on_supply();
  if (!obtained) {
    found_full_.store(true, std::memory_order_release);
    tell_exhausted();
  }
  return obtained;
}

// Small pages are dropped many at once in a moment, and each that is gone too early is a miss more.
std::uint64_t Pager::room_in_advance() const noexcept {
  const std::uint64_t budget = frames_.budget_bytes();
  const std::uint64_t small = std::min(small_bytes_.load(std::memory_order_relaxed), budget);
  const std::uint64_t percent = 100 - settings_.low_watermark_percent;
  return (budget - small) / 100 * percent + std::min(small / 100 * percent, settings_.most_spare_small_bytes);
}

std::uint64_t Pager::bytes_at_rest(bool keeping) const noexcept {
  const std::uint64_t budget = frames_.budget_bytes();
  const std::uint64_t least = room_in_advance();
  if (!keeping) {
    return least;
  }
  // To see whether a small page is touched costs as much as to read it anew, or more: those that are ready to go tell
  // enough.
  const bool few = budget < least_frames_to_copy * FramePool::cost(settings_.largest_copied_page_bytes);
  const std::uint64_t small = settings_.small_pages_too || few ? 0 : small_bytes_.load(std::memory_order_relaxed);
  const std::uint64_t large = budget - std::min(small, budget);
  return std::max(least, large / 100 * unmapped_share_percent_.load(std::memory_order_relaxed));
}

// For what is on its way, and the second frames of pages that are copied.
std::uint64_t Pager::spare_bytes() const noexcept {
  constexpr std::uint64_t part = 32;
  return frames_.budget_bytes() / part;
}

bool Pager::all_fits() const noexcept {
  return whole_bytes.load(std::memory_order_relaxed) <= frames_.budget_bytes() - spare_bytes();
}

bool Pager::has_room() const noexcept {
  return all_fits() || frames_.available_bytes() > bytes_at_rest(false) + spare_bytes();
}

std::uint64_t Pager::shortage_bytes(bool at_work) const noexcept {
  const std::uint64_t budget = frames_.budget_bytes();
  const std::uint64_t committed = frames_.committed_bytes();
  const std::uint64_t ready = frames_.available_bytes() + unmapped_bytes();
  const std::uint64_t demand = demand_bytes.load(std::memory_order_acquire);
  // What should be at hand when the evictors rest, and the level at which they start again. A policy that wants to see
  // which unmapped pages are touched has them keep its share.
  const std::uint64_t at_rest = all_fits() ? 0 : bytes_at_rest(second_chances_.pay());
  const std::uint64_t gap = room_in_advance() * (settings_.high_watermark_percent - settings_.low_watermark_percent) /
                            std::max(100 - settings_.low_watermark_percent, 1U);
  const std::uint64_t target = std::max(demand, at_work ? at_rest : at_rest - std::min(gap, at_rest));
  const std::uint64_t over_budget = committed > budget ? committed - budget : 0;
  return over_budget + (target > ready ? target - ready : 0);
}

}  // namespace tiermap
