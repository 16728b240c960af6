// Resolving faults and filling pages.
#include "fault/pager.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "fault/page_size_choice.hpp"
#include "platform/clock.hpp"
#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"

namespace tiermap {

Pager::Pager(FramePool& frames, EvictionPolicy& policy, CounterBlock& counters, const PagerSettings& settings)
    : frames_(frames),
      policy_(policy),
      counters_(counters),
      settings_(settings),
      unmapped_share_percent_(settings.move ? policy.unmapped_share_percent() : 0) {}

void Pager::change_gauge(PagedRegion& region, std::atomic<std::uint64_t> CounterBlock::* gauge,
                         std::int64_t bytes) noexcept {
  const auto delta = static_cast<std::uint64_t>(bytes);  // Wraps as subtraction should.
  (region.counters->*gauge).fetch_add(delta, std::memory_order_relaxed);
  (counters_.*gauge).fetch_add(delta, std::memory_order_relaxed);
}

void Pager::change_resident_bytes(PagedRegion& region, std::int64_t bytes) noexcept {
  change_gauge(region, &CounterBlock::resident_bytes, bytes);
  if (region.page_bytes <= settings_.largest_copied_page_bytes) {
    small_bytes_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
  }
}

void Pager::page_dirtied(PagedRegion& region) noexcept {
  change_gauge(region, &CounterBlock::dirty_bytes, static_cast<std::int64_t>(region.page_bytes));
}

void Pager::page_cleaned(PagedRegion& region) noexcept {
  no_longer_full();
  change_gauge(region, &CounterBlock::dirty_bytes, -static_cast<std::int64_t>(region.page_bytes));
}

// Publishes the word and lets every kind of waiter try again: threads asleep on it, and faults whose messages were
// dropped because somebody owned the page.
void Pager::settle(PagedRegion& region, std::uint64_t page, PageWord desired) noexcept {
  if (region.table.publish(page, desired)) {
    wake_all(region, page);
  }
}

void Pager::wake_all(PagedRegion& region, std::uint64_t page) noexcept {
  region.table.wake(page);
  if (!settings_.self_serving) {
    region.userfaultfd->wake(region.page_address(page), region.page_mapped(page));
  }
}

void Pager::seal(PagedRegion& region) noexcept {
  // The kernel now checks the range's protection before it asks us: the access is tried again, and raises SIGSEGV at
  // the right address, or EFAULT in a system call. Pages can no longer be moved (UFFDIO_MOVE wants writable ranges on
  // both sides), so from here on they are copied in and dropped.
  region.sealed.store(true, std::memory_order_release);
  if (const PageSizeChoice* const choice = region.choice; choice != nullptr) {
    for (PagedRegion* const same_bytes : {&choice->small(), &choice->large(), &choice->wide()}) {
      same_bytes->sealed.store(true, std::memory_order_release);
    }
  }
  ::mprotect(region.memory, round_up(region.length.load(), block_bytes), PROT_READ);
}

PagedRegion& Pager::serving(PagedRegion& region, const std::byte* address) noexcept {
  return region.choice == nullptr ? region : region.choice->serving(address, has_room());
}

Resolution Pager::resolve(PagedRegion& region, std::uint64_t page, bool write, PageWord& word, int& error) noexcept {
  if (write && !region.writable) {
    seal(region);
    return Resolution::done;
  }
  word = region.table.load(page);
  while (true) {
    switch (word.state()) {
      case PageState::absent:
        if (page >= region.going_from.load()) {
          return Resolution::done;
        }
        if (region.choice != nullptr && &region == &region.choice->wide()) {
          return Resolution::moved;  // It has gone, and there may be no room for so much at once.
        }
        if (region.under_update(page)) {
          if (leave_to_update(region, page, word)) {
            return Resolution::wait;
          }
          continue;
        }
        if (region.table.change(page, word, word.with_state(PageState::filling))) {
          region.table.mark_used(page);
          // Either we see that the page is to go, or whoever takes it away sees, after saying so, that it is used.
          if (page >= region.going_from.load()) {
            settle(region, page, word.with_state(PageState::absent));
            return Resolution::done;
          }
          if (region.choice != nullptr && region.choice->excludes(region, page)) {
            settle(region, page, word.with_state(PageState::absent));
            return Resolution::moved;
          }
          if (region.under_update(page)) {
            settle(region, page, word.with_state(PageState::absent));
            word = region.table.load(page);
            continue;
          }
          return Resolution::fill;
        }
        continue;
      case PageState::filling:
      case PageState::busy:
      case PageState::writing:
        return Resolution::wait;
      case PageState::cleaning:
        return write ? Resolution::wait : Resolution::done;
      case PageState::dirty:
        return Resolution::done;
      case PageState::clean:
        if (!write) {
          return Resolution::done;
        }
        if (region.table.change(page, word, word.with_state(PageState::busy))) {
          region.userfaultfd->unprotect(region.page_address(page), region.page_mapped(page));
          page_dirtied(region);
          count(region, Counter::protect_faults);
          region.write_habit.ended(true);
          trace_untold(TraceKind::first_write, region, page, true);
          settle(region, page, word.with_state(PageState::dirty).without(PageWord::prefetched_bit));
          return Resolution::done;
        }
        continue;
      case PageState::unmapped:
      case PageState::unmapped_dirty:
        if (region.table.change(page, word, word.with_state(PageState::busy))) {
          return rescue(region, page, write, word, error);
        }
        continue;
      case PageState::failed:
        error = -EIO;
        return Resolution::failed;
    }
  }
}

void Pager::begin_update(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept {
  region.update_from.store(first);
  region.update_end.store(end);
}

void Pager::end_update(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept {
  region.update_end.store(0);
  region.table.for_each_used(first, end, [&](std::uint64_t page) { take_from_update(region, page); });
}

// An absent page (`word`) whose range is updated becomes busy, so that there is something to wait for. False if it is
// to be looked at again.
bool Pager::leave_to_update(PagedRegion& region, std::uint64_t page, PageWord& word) noexcept {
  const PageWord left =
      word.with_state(PageState::busy).with_frame(no_frame).with(PageWord::for_update_bit | PageWord::held_bit);
  if (!region.table.change(page, word, left)) {
    return false;
  }
  region.table.mark_used(page);
  word = left;
  // Either we see that the update has ended, or whoever ends it sees our page.
  if (region.under_update(page)) {
    return true;
  }
  take_from_update(region, page);
  word = region.table.load(page);
  return false;
}

void Pager::take_from_update(PagedRegion& region, std::uint64_t page) noexcept {
  PageWord word = region.table.load(page);
  while (word.for_update()) {
    if (region.table.change(page, word, PageWord{}.with_pins(word.pins()))) {
      if (word.waiters()) {
        wake_all(region, page);
      }
      return;
    }
  }
}

void Pager::trace_untold(TraceKind kind, const PagedRegion& region, std::uint64_t page, bool write) noexcept {
  if (settings_.recorder != nullptr) {
    const std::lock_guard held(policy_lock_);
    trace(kind, region, page, write);
  }
}

// Others may evict the page and bring it back while we look: it has to be in place before and after, several times.
bool Pager::taken_away(const PagedRegion& region, std::uint64_t page, std::byte* address, PageWord word) noexcept {
  if (word.state() != PageState::clean && word.state() != PageState::dirty) {
    return false;
  }
  std::byte* block = region.block_address(address);
  constexpr int looks = 3;
  for (int look = 0; look < looks; ++look) {
    unsigned char resident = 1;
    const PageWord now = region.table.load(page);
    const bool in_place = now.state() == word.state() && now.frame() == word.frame();
    if (!in_place || ::mincore(block, block_bytes, &resident) != 0 || (resident & 1U) != 0) {
      return false;
    }
  }
  return true;
}

// The page is in its frame and ours (busy); `word` is what it was.
Resolution Pager::rescue(PagedRegion& region, std::uint64_t page, bool write, PageWord word, int& error) noexcept {
  const bool dirty = word.state() == PageState::unmapped_dirty;
  if (region.sealed.load(std::memory_order_acquire)) {
    // A frame cannot be moved into a sealed region: read the page anew.
    forget(region, word, true);
    frames_.give_back(word.frame(), true);
    settle(region, page, PageWord{});
    return Resolution::done;
  }
  PageState state = PageState::clean;
  const bool assumed = !write && !dirty && assumes_write(region);
  if (assumed) {
    hash_frame(region, page, word.frame());
  }
  error = place_by_move(region, page, word.frame(), write || dirty || assumed, !dirty, state);
  if (error == -ESTALE) {  // Sealed meanwhile; see above.
    forget(region, word, true);
    frames_.give_back(word.frame(), true);
    settle(region, page, PageWord{});
    return Resolution::done;
  }
  if (error != 0) {
    settle(region, page, word);
    return Resolution::failed;
  }
  if (!dirty) {
    frames_.record(word.frame()).assumed = assumed;
  }
  if (word.probation()) {
    unmapped_bytes_.fetch_sub(region.page_bytes, std::memory_order_relaxed);
    const std::lock_guard held(policy_lock_);
    FrameRecord& record = frames_.record(word.frame());
    record.named = false;
    policy_.rescued(word.frame());
    trace(TraceKind::rescue, region, page, write);
    if (record.judged) {
      second_chances_.rescued(record.unmapped_at, bytes_at_rest(true) / FramePool::cost(region.page_bytes));
    }
  }
  if (state == PageState::dirty && !dirty) {
    page_dirtied(region);
  }
  if (!word.probation()) {
    trace_untold(word.prefetched() ? TraceKind::first_use : TraceKind::rescue, region, page, write);
  }
  if (word.prefetched()) {
    count(region, Counter::prefetch_used);
    region.streams->ended(true);
  }
  count(region, Counter::rescues);
  settle(region, page, word.with_state(state).without(PageWord::probation_bit | PageWord::prefetched_bit));
  return Resolution::done;
}

int Pager::read_page(PagedRegion& region, std::uint64_t page, std::byte* buffer, bool in_signal_handler) noexcept {
  Store& store = *region.store;
  const std::uint64_t wanted = region.page_mapped(page);
  const std::uint64_t start = region.page_offset(page);
  std::uint64_t done = 0;
  std::uint64_t read_bytes = 0;
  bool refused = false;  // As by a file that takes no direct I/O after all: the store knows how to go on.
  while (done < wanted) {
    Extent extent;
    std::int64_t result = 0;
    if (!refused && store.locate_read(start + done, wanted - done, extent)) {
      if (extent.bytes == 0 || extent.bytes > wanted - done) {
        count(region, Counter::read_errors);
        return -EIO;
      }
      if (extent.hole) {
        std::memset(buffer + done, 0, extent.bytes);
        done += extent.bytes;
        continue;
      }
      do {
        result = ::pread(extent.file_descriptor, buffer + done, extent.bytes, static_cast<off_t>(extent.offset));
      } while (result < 0 && errno == EINTR);
      result = result < 0 ? -errno : result;
      refused = result == -EINVAL;
      if (refused) {
        continue;
      }
      if (result == 0 && extent.complete && done == 0) {  // The file was cut since: as with mmap.
        count(region, Counter::read_errors);
        return -EIO;
      }
      if (result == 0) {  // This piece of the store ends early (a part of several was cut short); the next may not.
        std::memset(buffer + done, 0, extent.bytes);
        done += extent.bytes;
        continue;
      }
    } else if (in_signal_handler && !region.reads_in_signal_handler) {
      return -EAGAIN;
    } else {
      try {
        result = store.read(buffer + done, wanted - done, start + done);
      } catch (...) {
        result = -EIO;
      }
      result = checked_result(result, wanted - done);
    }
    if (result == -ENODATA && done > 0) {  // Of a page that has bytes; behind these may be others.
      const std::uint64_t next = std::min(wanted, round_up(done + 1, block_bytes));
      std::memset(buffer + done, 0, next - done);
      done = next;
      continue;
    }
    if (result < 0) {
      count(region, Counter::read_errors);
      return static_cast<int>(result);
    }
    if (result == 0) {
      break;
    }
    done += static_cast<std::uint64_t>(result);
    read_bytes += static_cast<std::uint64_t>(result);
  }
  std::memset(buffer + done, 0, wanted - done);
  count(region, Counter::read_bytes, read_bytes);
  if (read_bytes == 0) {
    count(region, Counter::zero_fills);
  }
  return 0;
}

int Pager::finish_fill(PagedRegion& region, std::uint64_t page, const FillFrames& frames, bool write,
                       FillKind kind) noexcept {
  const bool copies = frames.token != no_frame;
  const FrameId frame = copies ? frames.token : frames.data;
  FrameRecord& record = frames_.record(frames.data);
  record.hashed = false;
  record.assumed = false;
  set_suspect(frame, false);
  PageState state = PageState::unmapped;
  if (kind == FillKind::fault || copies) {
    // Placing wakes who waits, and he may write before we are done: from here on sync() must wait for us.
    region.table.mark_placing(page);
    const int error = place(region, page, frames, write, state);
    if (error != 0) {
      // Nobody waits for a page that is read ahead: its error is for the first one who does.
      abandon_fill(region, page, frames, error == -ESTALE || kind == FillKind::prefetch ? 0 : error);
      return error;
    }
  }
  frames_.record(frame).region = &region;
  frames_.record(frame).page = page;
  frames_.record(frame).judged = kind == FillKind::fault && copies_small_pages(region);
  // Of a small page that is in place nobody will see whether it is used.
  const bool unseen = copies && !evicts_by_copy(region);
  const std::uint64_t flags = kind == FillKind::prefetch && !unseen ? PageWord::prefetched_bit : 0;
  change_resident_bytes(region, static_cast<std::int64_t>(region.page_bytes));
  if (state == PageState::dirty) {
    page_dirtied(region);
  }
  count(region, Counter::fills);
  if (kind == FillKind::prefetch) {
    count(region, Counter::prefetched_pages);
  }
  {
    const std::lock_guard held(policy_lock_);
    frames_.record(frame).named = false;
    policy_.filled(frame, {region.id, page}, static_cast<std::uint32_t>(region.page_bytes / block_bytes), kind);
    trace(kind == FillKind::fault ? TraceKind::fill : TraceKind::read_ahead, region, page, write);
  }
  fills_with_frames.fetch_sub(1, std::memory_order_release);
  settle(region, page, PageWord{}.with_state(state).with_frame(frame).with(flags));
  if (!settings_.self_serving) {
    // Not before the page is protected: the thread that waits would be the first to write in the window.
    region.userfaultfd->wake(region.page_address(page), region.page_mapped(page));
  }
  if (copies) {
    frames_.give_back(frames.data, true);
  }
  end_wait_for(region, page);
  return 0;
}

void Pager::end_wait_for(const PagedRegion& region, std::uint64_t page) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(region.page_address(page));
  if (fault_turns_.awaits(address)) {
    fault_turns_.served(address, now_nanoseconds());
  }
}

void Pager::abandon_fill(PagedRegion& region, std::uint64_t page, const FillFrames& frames, int error) noexcept {
  if (frames.data != no_frame) {
    return_frames(frames);
  }
  if (error != 0 && !settings_.self_serving &&
      region.userfaultfd->poison(region.page_address(page), region.page_mapped(page)) == -EINVAL) {
    ::kill(::getpid(), SIGBUS);  // Before Linux 6.6 there is no telling the one thread.
  }
  settle(region, page, PageWord{}.with_state(error == 0 ? PageState::absent : PageState::failed));
  // The faulting thread sleeps on a message that was taken: with nothing placed, only this lets it see the error.
  if (!settings_.self_serving) {
    region.userfaultfd->wake(region.page_address(page), region.page_mapped(page));
  }
  end_wait_for(region, page);
  if (error != 0) {
    // For a while every access to the page raises SIGBUS; then the evictors lift that, for another try. Only now: what
    // is lifted must be in state failed.
    remember_failure(region, page);
  }
}

void Pager::remember_failure(PagedRegion& region, std::uint64_t page) noexcept {
  const std::lock_guard held(failures_lock_);
  Failure* place = failures_.data();
  for (Failure& failure : failures_) {
    if (failure.region == nullptr) {
      place = &failure;
      break;
    }
    if (failure.tick < place->tick) {
      place = &failure;
    }
  }
  if (place->region != nullptr) {
    lift(*place);  // The oldest makes room: whoever touches its page makes the store try again.
  }
  *place = {&region, page, housekeeping_tick_};
}

void Pager::lift(PagedRegion& region, std::uint64_t page) noexcept {
  PageWord word = region.table.load(page);
  while (word.state() == PageState::failed) {
    if (region.table.change(page, word, word.with_state(PageState::busy))) {
      drop_pages(region.page_address(page), region.page_mapped(page));
      settle(region, page, word.with_state(PageState::absent));
      return;
    }
  }
}

// Called with failures_lock_ held.
void Pager::lift(Failure& failure) noexcept {
  lift(*failure.region, failure.page);
  failure.region = nullptr;
}

void Pager::lift_failures(bool all_of_region, const PagedRegion* region) noexcept {
  constexpr std::uint64_t ticks_to_wait = 2;
  const std::lock_guard held(failures_lock_);
  housekeeping_tick_ += all_of_region ? 0 : 1;
  for (Failure& failure : failures_) {
    if (failure.region != nullptr &&
        (all_of_region ? failure.region == region : housekeeping_tick_ - failure.tick >= ticks_to_wait)) {
      lift(failure);
    }
  }
}

void Pager::capacity_changed(std::uint64_t units) noexcept {
  const std::lock_guard held(policy_lock_);
  policy_.capacity_changed(units);
  unmapped_share_percent_.store(settings_.move ? policy_.unmapped_share_percent() : 0, std::memory_order_relaxed);
}

void Pager::advise(PagedRegion& region, std::uint64_t page, Hotness hotness) noexcept {
  const auto is_stable = [](PageWord word) {
    return word.state() == PageState::clean || word.state() == PageState::dirty;
  };
  if (!is_stable(region.table.load(page))) {
    return;
  }
  const std::lock_guard held(policy_lock_);
  // The policy knows the frame of a page that nobody owns, and whoever comes to own it needs the lock to make the
  // policy forget it: the frame is still this page's when the policy hears of it. Its record is the owner's to read.
  const PageWord word = region.table.load(page);
  if (is_stable(word)) {
    policy_.advised(word.frame(), hotness);
  }
}

}  // namespace tiermap
