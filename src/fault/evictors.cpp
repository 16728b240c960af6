#include "fault/evictors.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "platform/engine_thread.hpp"

namespace tiermap {
namespace {

constexpr std::size_t batch_pages = WriteBack::most_pages;
/// Pages are owned while their batch is written: a batch must not take so long that faults on them notice.
constexpr std::uint64_t batch_bytes = 8 << 20;
constexpr std::int64_t tick_nanoseconds = 100'000'000;

}  // namespace

std::uint64_t count_unwritten(Pager& pager, PagedRegion& region, std::uint64_t first, std::uint64_t end) {
  std::uint64_t unwritten = 0;
  region.table.for_each_used(first, end, [&](std::uint64_t page) {
    const PageWord word = region.table.load(page);
    unwritten += pager.wants_cleaning(word) || word.owned() ? 1U : 0U;
  });
  return unwritten;
}

int write_back_range(Pager& pager, PagedRegion& region, std::uint64_t first, std::uint64_t end, WriteBack& write_back,
                     bool suspects_too) {
  int first_error = 0;
  const WriteBack::Finished finished = [&](PagedRegion& written, std::uint64_t page, int error) {
    first_error = first_error == 0 ? error : first_error;
    pager.finish_cleaning(written, page, error);
  };
  region.table.for_each_used(first, end, [&](std::uint64_t page) {
    while (true) {
      const PageWord word = region.table.load(page);
      if (word.held()) {  // What the page had is written. Who holds it may wait for memory, that is for us.
        return;
      }
      const bool dirty = pager.wants_cleaning(word) && (suspects_too || word.state() != PageState::clean);
      if (dirty && pager.begin_cleaning(region, page, word)) {
        write_back.add(region, page, word.frame());
        if (write_back.pages() >= batch_pages || write_back.bytes() >= batch_bytes) {
          write_back.run(finished);
        }
        return;
      }
      // What was written before this call is in a page that has been put into place, though its fill may not have
      // ended.
      const bool unplaced = word.state() == PageState::filling && !word.placing();
      if ((!dirty && !word.owned()) || unplaced) {
        return;
      }
      if (word.owned()) {
        // Whoever owns it may be about to write it, or to fail at that. We must not wait while others may wait for us.
        write_back.run(finished);
        region.table.wait(page, word);
      }
    }
  });
  write_back.run(finished);
  return first_error;
}

// From the delegated constructor on the destructor ends those that run, should another one not start.
Evictors::Evictors(Pager& pager, std::uint32_t threads) : Evictors(pager) {
  for (std::uint32_t index = 0; index < threads; ++index) {
    threads_.push_back(start_engine_thread(
        "tiermap-evict",
        [this, write_back = std::make_unique<WriteBack>(pager, WriteBack::most_at_once)] { run(*write_back); }));
  }
}

Evictors::~Evictors() {
  stop_.store(true);
  pager_.ring_evictors();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Evictors::flush(PagedRegion& region, std::uint64_t first, std::uint64_t end) {
  std::list<Flush> wanted{{&region, first, end}};
  std::list<Flush> ended;
  {
    const std::lock_guard held(flush_mutex_);
    ended.swap(ended_flushes_);
    // One that has not begun will find what this one is for: a program that flushes in a loop must not fill memory with
    // wishes.
    const bool covered = std::any_of(flushes_.begin(), flushes_.end(), [&](const Flush& waiting) {
      return waiting.region == &region && waiting.first <= first && waiting.end >= end;
    });
    if (!covered) {
      region.users.fetch_add(1, std::memory_order_acq_rel);
      flushes_.splice(flushes_.end(), wanted);
    }
  }
  pager_.ring_evictors();
}

// Null if there is none; good until finish_flush().
const Evictors::Flush* Evictors::take_flush() noexcept {
  const std::lock_guard held(flush_mutex_);
  if (flushes_.empty()) {
    return nullptr;
  }
  running_flushes_.splice(running_flushes_.end(), flushes_, flushes_.begin());
  return &running_flushes_.back();
}

void Evictors::finish_flush(const Flush& flush) noexcept {
  {
    const std::lock_guard held(flush_mutex_);
    const auto found = std::find_if(running_flushes_.begin(), running_flushes_.end(),
                                    [&](const Flush& running) { return &running == &flush; });
    ended_flushes_.splice(ended_flushes_.end(), running_flushes_, found);
    RegionUse::adopt(flush.region);
  }
  flush_epoch_.fetch_add(1, std::memory_order_release);
  futex_wake_all(&flush_epoch_);
}

void Evictors::wait_for_flushes(const PagedRegion& region) {
  while (true) {
    const std::uint32_t epoch = flush_epoch_.load(std::memory_order_acquire);
    {
      const std::lock_guard held(flush_mutex_);
      const auto of_region = [&](const Flush& flush) { return flush.region == &region; };
      if (std::none_of(flushes_.begin(), flushes_.end(), of_region) &&
          std::none_of(running_flushes_.begin(), running_flushes_.end(), of_region)) {
        return;
      }
    }
    futex_wait(&flush_epoch_, epoch);
  }
}

// By the clock: the bell may ring thousands of times a second, and under load no evictor ever sleeps for long.
void Evictors::keep_house() {
  pager_.report_wild_write();
  const std::uint64_t now = now_nanoseconds();
  std::uint64_t due = next_tick_nanoseconds_.load(std::memory_order_relaxed);
  if (now >= due && next_tick_nanoseconds_.compare_exchange_strong(due, now + tick_nanoseconds)) {
    pager_.lift_failures();
  }
}

// Over budget, unmapped pages must go too: their frames are given back for good.
void Evictors::give_back_what_is_over_budget() {
  FramePool& frames = pager_.frames();
  while (frames.committed_bytes() > frames.budget_bytes()) {
    const FrameId frame = pager_.reclaim_unmapped();
    if (frame == no_frame) {
      return;
    }
    frames.give_back(frame, true);
  }
}

// Chooses victims of so many bytes, unmaps them, drops those that need no writing, and hands the others to
// `write_back`.
void Evictors::unmap_victims(Pass& pass, std::uint64_t bytes, WriteBack& write_back) {
  static_assert(batch_pages <= Pager::most_dropped_at_once);
  std::array<Pager::Victim, batch_pages> dropping{};
  std::size_t to_drop = 0;
  std::uint64_t chosen_bytes = 0;
  while (pass.chosen < batch_pages && chosen_bytes < std::min(bytes, batch_bytes)) {
    Pager::Victim victim{};
    if (pager_.choose_victims({&victim, 1}) == 0) {
      break;
    }
    pass.uses[pass.chosen++].emplace(RegionUse::adopt(victim.region));
    pass.chosen_cost += FramePool::cost(victim.region->page_bytes);
    const Pager::Eviction eviction = pager_.evict(victim);
    switch (eviction) {
      case Pager::Eviction::unmapped:
        pager_.announce_supply();
        break;
      case Pager::Eviction::drop:
        dropping[to_drop++] = victim;
        if (to_drop >= Pager::few_dropped_at_once && pager_.waiting_for_frames.load(std::memory_order_relaxed) > 0) {
          pager_.drop(std::span(dropping).first(std::exchange(to_drop, 0)));
          pager_.announce_supply();
        }
        break;
      case Pager::Eviction::write:
        write_back.add(*victim.region, victim.page, victim.frame);
        break;
      case Pager::Eviction::busy:
        pass.met_busy_pages = true;
        continue;
      case Pager::Eviction::held:
        pass.met_held_pages = true;
        continue;
      case Pager::Eviction::kept:
        continue;
    }
    chosen_bytes += victim.region->page_bytes;
    pass.gained += eviction == Pager::Eviction::write ? 0 : 1;
  }
  pager_.drop(std::span(dropping).first(to_drop));
}

// Returns how many pages were written.
std::size_t Evictors::write_victims(WriteBack& write_back) {
  const std::size_t pages = write_back.pages();
  std::size_t failed = 0;
  write_back.run([&](PagedRegion& region, std::uint64_t page, int error) {
    pager_.finish_write(region, page, error);
    failed += error == 0 ? 0 : 1;
  });
  return pages - failed;
}

// Whether no page is left that might go, after a pass that gained nothing: a pass is of few pages, and there may be
// millions that are pinned before those that are not.
bool Evictors::has_looked_at_all(const Pass& pass) noexcept {
  const std::uint64_t kept = kept_in_a_row_bytes_.fetch_add(pass.chosen_cost) + pass.chosen_cost;
  if (pass.chosen > 0 && kept < pager_.frames().committed_bytes()) {
    return false;
  }
  kept_in_a_row_bytes_.store(0);
  return true;
}

// One pass after another, in phases: choose; unmap; write what is dirty all at once; let go. Ends at the low watermark,
// or when a pass gains nothing; while a fault waits not before all pages have been looked at.
void Evictors::evict_until_rested(WriteBack& write_back) {
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t shortage = pager_.shortage_bytes(true);
    if (shortage == 0) {
      return;
    }
    keep_house();
    give_back_what_is_over_budget();
    Pass pass;
    unmap_victims(pass, shortage, write_back);
    const std::size_t to_write = write_back.pages();
    const std::size_t written = write_victims(write_back);
    pass.gained += written;
    if (pass.gained > 0 || pass.met_busy_pages || pager_.others_will_free()) {
      kept_in_a_row_bytes_.store(0);
      pager_.last_hope_nanoseconds.store(now_nanoseconds(), std::memory_order_release);
      pager_.no_longer_full();
    } else {
      if (pass.met_held_pages) {
        pager_.last_held_nanoseconds.store(now_nanoseconds(), std::memory_order_release);
      }
      // To try all pages of a store that fails, or that a device holds, could take for ever.
      if (written < to_write || pass.met_held_pages || has_looked_at_all(pass)) {
        pager_.exhausted_passes.fetch_add(1, std::memory_order_release);
      } else if (pager_.waiting_for_frames.load(std::memory_order_relaxed) > 0) {
        continue;
      }
    }
    pager_.announce_supply();
    if (pass.gained == 0) {
      return;
    }
  }
}

void Evictors::run(WriteBack& write_back) {
  std::uint32_t handled = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    const std::uint32_t work = pager_.evictor_work.load(std::memory_order_acquire);
    // One at a time: faults may be waiting for what is evicted, and flushes may come without end.
    const Flush* const flush = take_flush();
    if (flush != nullptr) {
      write_back_range(pager_, *flush->region, flush->first, flush->end, write_back, false);
      finish_flush(*flush);
    }
    // Only fills ring: pages that are rescued while all data fits must not set off the unmapping of others.
    if (work != handled && pager_.shortage_bytes(false) > 0) {
      evict_until_rested(write_back);
    }
    handled = work;
    keep_house();
    if (flush != nullptr) {
      continue;
    }
    pager_.evictors_asleep.fetch_add(1);
    futex_wait(&pager_.evictor_work, work, tick_nanoseconds);
    pager_.evictors_asleep.fetch_sub(1);
  }
}

}  // namespace tiermap
