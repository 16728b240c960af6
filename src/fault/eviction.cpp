// Giving pages up.
#include <sys/mman.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include "cache/block_hash.hpp"
#include "fault/pager.hpp"
#include "platform/drop_pages.hpp"

namespace tiermap {

void Pager::refuse(FrameId frame) noexcept {
  const std::lock_guard held(policy_lock_);
  // Whoever owned the page meanwhile may have told the policy already.
  if (frames_.record(frame).named) {
    frames_.record(frame).named = false;
    policy_.refused(frame);
  }
}

std::size_t Pager::choose_victims(std::span<Victim> victims) noexcept {
  std::array<FrameId, 64> chosen;
  const std::lock_guard held(policy_lock_);
  const std::size_t count = policy_.choose_to_unmap(std::span(chosen).first(std::min(victims.size(), chosen.size())));
  for (std::size_t index = 0; index < count; ++index) {
    FrameRecord& record = frames_.record(chosen[index]);
    record.named = true;
    // A region leaves the policy, under this lock, before it is freed: the record's pointer is good here.
    record.region->users.fetch_add(1, std::memory_order_acq_rel);
    victims[index] = {record.region, record.page, chosen[index]};
  }
  return count;
}

// From here the page counts as unmapped with the policy. Both change under the policy lock: whoever asks the policy for
// a page to free finds it in the state that the policy says.
void Pager::become_unmapped(PagedRegion& region, std::uint64_t page, PageWord word) noexcept {
  bool waited_for = false;
  {
    const std::lock_guard held(policy_lock_);
    FrameRecord& record = frames_.record(word.frame());
    record.named = false;
    policy_.unmapped(word.frame());
    record.unmapped_at = second_chances_.turns();
    second_chances_.unmapped(record.judged);
    unmapped_bytes_.fetch_add(region.page_bytes, std::memory_order_relaxed);
    waited_for = region.table.publish(page, word.with_state(PageState::unmapped).with(PageWord::probation_bit));
  }
  if (waited_for) {
    wake_all(region, page);
  }
}

Pager::Eviction Pager::evict(const Victim& victim) noexcept {
  PagedRegion& region = *victim.region;
  PageWord word = region.table.load(victim.page);
  if (word.mapped() && settings_.access_source != nullptr && waiting_for_frames.load(std::memory_order_relaxed) == 0 &&
      settings_.access_source->touched(region.page_address(victim.page), region.page_mapped(victim.page))) {
    refuse(victim.frame);
    trace_untold(TraceKind::told, region, victim.page, false);
    return Eviction::busy;
  }
  while (true) {
    const PageState state = word.state();
    // By then the page may have gone, and come back into the same frame, and another evictor have unmapped it.
    const bool unmapped_already = state == PageState::unmapped && word.probation();
    const bool gone =
        word.frame() != victim.frame || state == PageState::absent || state == PageState::failed || unmapped_already;
    if (gone || word.owned()) {
      refuse(victim.frame);
      // What is being written to a store that fails is no sign that anything will go.
      const bool hopeless = state == PageState::writing && last_write_error.load(std::memory_order_relaxed) != 0;
      return hopeless ? Eviction::kept : Eviction::busy;
    }
    const bool dirty = state == PageState::dirty || state == PageState::unmapped_dirty;
    if (word.pins() > 0 || (dirty && region.manual_flush)) {
      refuse(victim.frame);
      return Eviction::kept;
    }
    const PageState next = dirty ? PageState::writing : PageState::busy;
    if (region.table.change(victim.page, word, word.with_state(next))) {
      break;
    }
  }
  if (word.state() == PageState::unmapped) {  // Prefetched and never touched, or unmapped by another evictor.
    become_unmapped(region, victim.page, word);
    return Eviction::unmapped;
  }
  if (word.state() == PageState::unmapped_dirty) {
    return Eviction::write;
  }
  if (evicts_by_copy(region)) {
    return evict_by_copy(region, victim.page, word);
  }
  // One that was written to and cleaned in place is suspect, and has been counted.
  if (word.state() == PageState::clean && region.writable && !suspect(victim.frame)) {
    region.write_habit.ended(false);
  }
  const bool droppable = word.state() == PageState::clean && frames_.record(victim.frame).copied &&
                         !suspect(victim.frame) && copies_small_pages(region);
  return droppable && !second_chances_.keeps_next() ? Eviction::drop : evict_mapped(region, victim.page, word);
}

Pager::Eviction Pager::evict_mapped(PagedRegion& region, std::uint64_t page, PageWord word) noexcept {
  const bool dirty = word.state() == PageState::dirty;
  PageState restored = word.state();
  if (const int error = unmap(region, page, word.frame(), dirty, restored); error != 0) {
    if (restored == PageState::dirty && !region.writable) {
      refuse_wild_write(region, page, word.frame());
      return Eviction::drop;
    }
    if (restored == PageState::dirty && !dirty) {
      page_dirtied(region);
    }
    refuse(word.frame());
    settle(region, page, word.with_state(restored));
    return error == -EBUSY ? Eviction::held : Eviction::busy;
  }
  if (dirty) {
    return Eviction::write;
  }
  if (suspect(word.frame()) && !proven_unchanged(region, page, word.frame())) {
    return write_or_keep(region, page, word.with_state(PageState::unmapped_dirty));
  }
  become_unmapped(region, page, word);
  return Eviction::unmapped;
}

// Of a suspect page that has been moved into its frame, where nothing can change it any more.
bool Pager::proven_unchanged(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept {
  set_suspect(frame, false);
  return !blocks_differ(frames_.address(frame), region.page_mapped(page), frames_.hashes(frame));
}

// The same of one that stays in its place, write-protected.
bool Pager::proven_unchanged_in_place(PagedRegion& region, std::uint64_t page, PageWord word) noexcept {
  const std::byte* const address = region.page_address(page);
  set_suspect(word.frame(), false);
  fill_holes(region, address, region.page_mapped(page));
  return !blocks_differ(address, region.page_mapped(page), frames_.hashes(word.frame()));
}

// A page that was to be evicted as clean has changed: it is to be written, or stays as `dirty` where nothing is to be
// written unasked.
Pager::Eviction Pager::write_or_keep(PagedRegion& region, std::uint64_t page, PageWord dirty) noexcept {
  if (!region.manual_flush) {
    become_writing(region, page);
    return Eviction::write;
  }
  if (dirty.mapped()) {
    region.userfaultfd->unprotect(region.page_address(page), region.page_mapped(page));
  }
  page_dirtied(region);
  refuse(dirty.frame());
  settle(region, page, dirty);
  return Eviction::kept;
}

// A page that we own, and took for clean, has to be written after all.
void Pager::become_writing(PagedRegion& region, std::uint64_t page) noexcept {
  page_dirtied(region);
  PageWord word = region.table.load(page);
  while (!region.table.change(page, word, word.with_state(PageState::writing))) {
  }
}

// Without moves the page's memory is the mapping itself: protected and written from there if dirty, then dropped.
Pager::Eviction Pager::evict_by_copy(PagedRegion& region, std::uint64_t page, PageWord word) noexcept {
  if (word.state() == PageState::dirty) {
    region.userfaultfd->protect(region.page_address(page), region.page_mapped(page));
    return Eviction::write;
  }
  if (word.state() == PageState::clean && suspect(word.frame()) && !proven_unchanged_in_place(region, page, word)) {
    return write_or_keep(region, page, word.with_state(PageState::dirty));
  }
  return Eviction::drop;
}

void Pager::drop(std::span<const Victim> victims) noexcept {
  std::array<iovec, most_dropped_at_once> ranges;
  for (std::size_t index = 0; index < victims.size(); ++index) {
    const Victim& victim = victims[index];
    ranges[index] = {victim.region->page_address(victim.page), victim.region->page_mapped(victim.page)};
  }
  drop_pages(std::span(ranges).first(victims.size()));
  for (const Victim& victim : victims) {
    forget_dropped(*victim.region, victim.page);
  }
}

// A mapped page that we own has lost its memory to the kernel: its frame goes back to the pool.
void Pager::forget_dropped(PagedRegion& region, std::uint64_t page) noexcept {
  const PageWord word = region.table.load(page);
  change_gauge(region, &CounterBlock::mapped_bytes, -static_cast<std::int64_t>(region.page_bytes));
  count(region, Counter::unmaps);
  forget(region, word, true);
  give_back_frame_of(region, page, word.frame(), false);
  settle(region, page, PageWord{});
}

// The policy and the gauges forget a page that we own.
void Pager::forget(PagedRegion& region, PageWord word, bool evicted) noexcept {
  {
    const std::lock_guard held(policy_lock_);
    frames_.record(word.frame()).named = false;
    policy_.removed(word.frame(), evicted);
    trace(evicted ? TraceKind::evicted : TraceKind::discarded, region, frames_.record(word.frame()).page);
  }
  if (word.probation()) {
    unmapped_bytes_.fetch_sub(region.page_bytes, std::memory_order_relaxed);
  }
  change_resident_bytes(region, -static_cast<std::int64_t>(region.page_bytes));
  if (evicted) {
    count(region, Counter::evictions);
    if (word.prefetched()) {
      count(region, Counter::prefetch_wasted);
    }
  }
}

const std::byte* Pager::write_source(const PagedRegion& region, std::uint64_t page, FrameId frame) noexcept {
  const bool in_place = !settings_.move || region.table.load(page).state() == PageState::cleaning;
  return in_place ? region.page_address(page) : frames_.address(frame);
}

void Pager::finish_write(PagedRegion& region, std::uint64_t page, int error) noexcept {
  const PageWord word = region.table.load(page);
  if (error != 0) {
    refuse(word.frame());
    if (!settings_.move) {
      region.userfaultfd->unprotect(region.page_address(page), region.page_mapped(page));
    }
    settle(region, page, word.with_state(settings_.move ? PageState::unmapped_dirty : PageState::dirty));
    return;
  }
  page_cleaned(region);
  if (settings_.move) {
    become_unmapped(region, page, word);
    return;
  }
  const Victim victim{&region, page, word.frame()};
  drop({&victim, 1});
}

bool Pager::wants_cleaning(PageWord word) noexcept {
  const PageState state = word.state();
  return state == PageState::dirty || state == PageState::unmapped_dirty ||
         (state == PageState::clean && suspect(word.frame()));
}

bool Pager::begin_cleaning(PagedRegion& region, std::uint64_t page, PageWord word) noexcept {
  if (word.state() == PageState::unmapped_dirty) {
    return region.table.change(page, word, word.with_state(PageState::writing));
  }
  const bool clean = word.state() == PageState::clean;
  if (!wants_cleaning(word) || !region.table.change(page, word, word.with_state(PageState::cleaning))) {
    return false;
  }
  if (clean) {
    page_dirtied(region);  // Until finish_cleaning() has it otherwise.
  } else {
    set_suspect(word.frame(), false);
    region.userfaultfd->protect(region.page_address(page), region.page_mapped(page));
  }
  return true;
}

void Pager::finish_cleaning(PagedRegion& region, std::uint64_t page, int error) noexcept {
  const PageWord word = region.table.load(page);
  page_cleaned_if(region, error);
  if (word.state() == PageState::writing) {
    // It was in no list of the policy's that we must mend: an unmapped page with unwritten bytes counts as mapped.
    return settle(region, page, word.with_state(error == 0 ? PageState::unmapped : PageState::unmapped_dirty));
  }
  if (error != 0) {
    region.userfaultfd->unprotect(region.page_address(page), region.page_mapped(page));
    return settle(region, page, word.with_state(PageState::dirty));
  }
  set_suspect(word.frame(), true);
  settle(region, page, word.with_state(PageState::clean));
}

void Pager::page_cleaned_if(PagedRegion& region, int error) noexcept {
  if (error == 0) {
    page_cleaned(region);
  }
}

// Makes sure that a suspect page that we own, and want to drop, is what was written; in `word` it may be unmapped then.
// If not, lets go of it, and returns false.
bool Pager::clear_suspicion(PagedRegion& region, std::uint64_t page, PageWord& word) noexcept {
  PageState state = PageState::clean;
  if (evicts_by_copy(region)) {
    if (!proven_unchanged_in_place(region, page, word)) {
      region.userfaultfd->unprotect(region.page_address(page), region.page_mapped(page));
      page_dirtied(region);
      settle(region, page, word.with_state(PageState::dirty));
      return false;
    }
    return true;
  }
  if (unmap(region, page, word.frame(), false, state) == 0) {
    if (proven_unchanged(region, page, word.frame())) {
      word = word.with_state(PageState::unmapped);
      return true;
    }
    state = PageState::unmapped_dirty;
  }
  if (state != PageState::clean) {
    page_dirtied(region);
  }
  settle(region, page, word.with_state(state));
  return false;
}

bool Pager::discard(PagedRegion& region, std::uint64_t page, bool only_idle) noexcept {
  PageWord word = region.table.load(page);
  while (true) {
    if (word.state() == PageState::failed) {  // Whoever wants it is to try again.
      lift(region, page);
    }
    if (word.state() == PageState::absent || word.state() == PageState::failed) {
      return false;
    }
    const bool idle = word.pins() == 0 && (word.state() == PageState::clean || word.state() == PageState::unmapped);
    if (only_idle && !idle) {
      return false;
    }
    if (word.owned()) {
      region.table.wait(page, word);
      word = region.table.load(page);
      continue;
    }
    if (region.table.change(page, word, word.with_state(PageState::busy))) {
      break;
    }
  }
  if (only_idle && word.mapped() && suspect(word.frame()) && !clear_suspicion(region, page, word)) {
    return false;
  }
  if (word.state() == PageState::dirty || word.state() == PageState::unmapped_dirty) {
    page_cleaned(region);
  }
  const bool was_mapped = word.mapped();
  if (was_mapped) {
    drop_pages(region.page_address(page), region.page_mapped(page));
    change_gauge(region, &CounterBlock::mapped_bytes, -static_cast<std::int64_t>(region.page_bytes));
  }
  forget(region, word, false);
  give_back_frame_of(region, page, word.frame(), !was_mapped);
  settle(region, page, PageWord{});
  announce_supply();
  return !was_mapped;
}

// The slot of a mapped page is empty, but for a last page shorter than its slot, whose rest may hold memory.
void Pager::give_back_frame_of(PagedRegion& region, std::uint64_t page, FrameId frame, bool populated) noexcept {
  if (!populated && region.page_mapped(page) != region.page_bytes) {
    frames_.release(frame);
  } else {
    frames_.give_back(frame, populated);
  }
}

// Takes one page out of the cache, but for its frame: state busy says that release_retired() has it still to give back.
// False if somebody owns the page.
bool Pager::retire(PagedRegion& region, std::uint64_t page) noexcept {
  PageWord word = region.table.load(page);
  while (word.state() != PageState::absent) {
    if (word.owned()) {
      return false;
    }
    const bool failed = word.state() == PageState::failed;
    if (!region.table.change(page, word, failed ? PageWord{} : word.with_state(PageState::busy))) {
      continue;
    }
    if (failed) {
      return true;
    }
    if (word.state() == PageState::dirty || word.state() == PageState::unmapped_dirty) {
      page_cleaned(region);
    }
    take_out(region, word);
    return true;
  }
  return true;
}

// Gives back the frames of pages that are retired, as the owner of another page may wait for one. The pages stay busy:
// who touches them waits until the range is unmapped.
void Pager::empty_retired(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept {
  region.table.for_each_used(first, end, [&](std::uint64_t page) {
    PageWord word = region.table.load(page);
    if (word.state() != PageState::busy || word.frame() == no_frame) {
      return;
    }
    const FrameId frame = word.frame();
    const bool populated = frames_.record(frame).populated;
    if (!populated) {
      drop_pages(region.page_address(page), region.page_mapped(page));
    }
    while (!region.table.change(page, word, word.with_frame(no_frame))) {
    }
    give_back_frame_of(region, page, frame, populated);
  });
  announce_supply();
}

// The policy and the gauges forget a page that is ours (busy) and was `word`; its frame stays with it.
void Pager::take_out(PagedRegion& region, PageWord word) noexcept {
  if (word.mapped()) {
    change_gauge(region, &CounterBlock::mapped_bytes, -static_cast<std::int64_t>(region.page_bytes));
  }
  frames_.record(word.frame()).populated = !word.mapped();
  forget(region, word, false);
}

bool Pager::hold(PagedRegion& region, std::uint64_t page, PageWord word) noexcept {
  const bool has_frame = word.state() == PageState::clean || word.state() == PageState::unmapped;
  const PageWord held = word.with_state(PageState::busy).with_frame(has_frame ? word.frame() : no_frame);
  PageWord expected = word;
  if (!region.table.change(page, expected, held)) {
    return false;
  }
  region.table.mark_used(page);
  if (word.state() == PageState::clean && suspect(word.frame()) && !clear_suspicion(region, page, word)) {
    return false;
  }
  if (has_frame) {
    take_out(region, word);
  }
  keep(region, page);
  return true;
}

// A call of the program's may last: whoever writes back, as an evictor for flush(), must not wait for it.
void Pager::keep(PagedRegion& region, std::uint64_t page) noexcept {
  if (region.table.mark_held(page)) {
    region.table.wake(page);
  }
}

bool Pager::hold_cleaned(PagedRegion& region, std::uint64_t page) noexcept {
  page_cleaned(region);
  PageWord word = region.table.load(page);
  // Pins and waiters may come while we own the page, and stay.
  while (!region.table.change(page, word, word.with_state(PageState::busy))) {
  }
  PageWord held = word.with_state(word.state() == PageState::writing ? PageState::unmapped : PageState::clean);
  // A device may have changed it since it was written.
  if (held.mapped() && !clear_suspicion(region, page, held)) {
    return false;
  }
  take_out(region, held);
  keep(region, page);
  return true;
}

void Pager::free_held(PagedRegion& region, std::uint64_t page) noexcept {
  const PageWord word = region.table.load(page);
  if (word.frame() != no_frame) {
    give_back_frame_of(region, page, word.frame(), frames_.record(word.frame()).populated);
    announce_supply();
  }
}

void Pager::let_go(PagedRegion& region, std::uint64_t page) noexcept {
  settle(region, page, PageWord{});
}

void Pager::retire_pages(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept {
  lift_failures(true, &region);
  std::uint64_t first_kept = first;
  region.table.for_each_used(first, end, [&](std::uint64_t page) {
    while (!retire(region, page)) {
      empty_retired(region, std::exchange(first_kept, page), page);
      const PageWord word = region.table.load(page);
      if (word.owned()) {
        region.table.wait(page, word);
      }
    }
  });
}

void Pager::release_retired(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept {
  region.table.for_each_used(first, end, [&](std::uint64_t page) {
    const PageWord word = region.table.load(page);
    if (word.state() == PageState::busy) {  // Retired, and not what somebody who had no business there did since.
      if (word.frame() != no_frame) {
        give_back_frame_of(region, page, word.frame(), frames_.record(word.frame()).populated);
      }
      settle(region, page, PageWord{});
    }
  });
  announce_supply();
}

}  // namespace tiermap
