// What can be done to a page: filled, placed where the program reaches it, protected, unmapped, given up. Every engine
// (messages, self-serving, prefetch, evictors, sync) is made of these operations; which thread calls them is its
// business.
//
// Concurrency: the page words (cache/page_word.hpp) say who owns a page; the policy lock guards the eviction policy and
// the frame records that lead from a frame to its region; FramePool has a lock of its own. Members marked "handler" may
// be called in a signal handler.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "cache/eviction_policy.hpp"
#include "cache/frame_pool.hpp"
#include "fault/fault_turns.hpp"
#include "fault/paged_region.hpp"
#include "fault/second_chances.hpp"
#include "observe/counters.hpp"
#include "observe/trace_recorder.hpp"
#include "tiermap/access_source.hpp"

namespace tiermap {

struct PagerSettings {
  bool self_serving = false;
  bool move = true;  ///< Place by UFFDIO_MOVE, else by UFFDIO_COPY.
  /// With `move`, what a fault brings is copied all the same in pages up to this: see SecondChances. 0: never.
  std::uint64_t largest_copied_page_bytes = 0;
  std::uint32_t high_watermark_percent = 95;
  std::uint32_t low_watermark_percent = 90;
  /// Of small pages the evictors never make more room than this in advance, whatever the watermarks say.
  std::uint64_t most_spare_small_bytes = std::numeric_limits<std::uint64_t>::max();
  bool small_pages_too = false;           ///< Of small pages as well the policy's share is kept unmapped.
  AccessSource* access_source = nullptr;  ///< May be null.
  TraceRecorder* recorder = nullptr;      ///< May be null.
};

/// What a fault needs.
enum class Resolution : std::uint8_t {
  done,    ///< The access can be tried again.
  wait,    ///< Another thread owns the page; wait for its word to change from the one given.
  fill,    ///< The caller owns the page in state filling, and must finish_fill() or abandon_fill() it.
  failed,  ///< The access is an error (-errno in `error`).
  moved,   ///< The address is served in pages of another size now: ask serving() again.
};

/// Where a page is once it is filled.
enum class Arrival : std::uint8_t {
  mapped,    ///< In place: a fault waits for it, or it is a small page for which a fault of its own would cost more.
  unmapped,  ///< In its frame, until it is touched: the fault tells that it was wanted.
};

/// The frames of a page being filled.
struct FillFrames {
  FrameId data = no_frame;   ///< Read into this one.
  FrameId token = no_frame;  ///< Copying only: what the page's copy will be charged to.
};

class Pager {
 public:
  Pager(FramePool& frames, EvictionPolicy& policy, CounterBlock& counters, const PagerSettings& settings);

  // --- A fault, or a wish for a page.

  /// Of a region whose page size follows the access, the one that serves an address; of others, the region itself
  /// (handler).
  PagedRegion& serving(PagedRegion& region, const std::byte* address) noexcept;

  /// Does what needs no I/O (handler). `word` is what the page's word was when the answer is `wait`.
  Resolution resolve(PagedRegion& region, std::uint64_t page, bool write, PageWord& word, int& error) noexcept;

  /// Whether the region's pages are copied into place, and dropped when they go, though they could be moved. With room
  /// for a few pages only, those that one instruction needs together must be rescued, not read again.
  bool copies_small_pages(const PagedRegion& region) const noexcept {
    return region.page_bytes <= settings_.largest_copied_page_bytes &&
           frames_.budget_bytes() >= least_frames_to_copy * FramePool::cost(region.page_bytes);
  }
  /// Takes frames without waiting (handler): free ones, or those of unmapped clean pages. With `room_for_copy` none
  /// sooner than one, where a page is better copied but one frame would do to move it.
  bool try_frames(PagedRegion& region, Arrival arrival, FillFrames& frames, bool room_for_copy = false) noexcept;
  /// Whether memory is so little that threads have turns: only then need admits() be asked (handler).
  bool takes_turns(const PagedRegion& region) const noexcept {
    constexpr std::uint64_t plenty_frames = 256;
    return frames_.budget_bytes() < plenty_frames * FramePool::cost(region.page_bytes);
  }
  /// Whether a thread's fault may be served now, before it is resolved (handler). If not, ask again in a moment: with
  /// little memory, others have their turn.
  bool admits(const PagedRegion& region, std::uint64_t page, std::uint32_t thread) noexcept;
  /// A page that was asked for is there, or will not come: whose turn it is can go on (handler).
  void end_wait_for(const PagedRegion& region, std::uint64_t page) noexcept;
  /// Takes frames for a fault, waiting for the evictors if need be (handler). False if memory is full of what cannot
  /// go.
  bool obtain_frames(PagedRegion& region, FillFrames& frames) noexcept;
  void return_frames(const FillFrames& frames) noexcept;

  /// Reads a page into memory with plain system calls; absent bytes become zeros. Returns 0 or a negative errno value;
  /// -EAGAIN if `in_signal_handler` and the store cannot be read there (handler).
  int read_page(PagedRegion& region, std::uint64_t page, std::byte* buffer, bool in_signal_handler) noexcept;

  /// Ends a fill with the page's bytes in frames.data (handler). A prefetched page that is not copied stays unmapped
  /// until it is touched. Returns 0 or a negative errno value; -ESTALE means that the region was sealed meanwhile, and
  /// the access is to be tried again.
  int finish_fill(PagedRegion& region, std::uint64_t page, const FillFrames& frames, bool write,
                  FillKind kind) noexcept;
  /// Ends a fill that failed (handler). `error` 0 means given up, with no one to tell.
  void abandon_fill(PagedRegion& region, std::uint64_t page, const FillFrames& frames, int error) noexcept;

  /// Waits for an owned page to change (handler).
  static void wait(PagedRegion& region, std::uint64_t page, PageWord word) noexcept { region.table.wait(page, word); }

  // --- Eviction, for the evictor threads and for a fault that finds no free frame.

  struct Victim {
    PagedRegion* region;  ///< Its `users` is counted up.
    std::uint64_t page;
    FrameId frame;
  };
  enum class Eviction : std::uint8_t {
    unmapped,  ///< Clean, in its frame, and free for the taking.
    drop,      ///< The caller owns the page (busy), whose memory is the mapping's own, and must drop() it.
    write,     ///< The caller owns the page in state writing, and must finish_write() it.
    busy,      ///< Somebody else is at it, or it was touched just now.
    held,      ///< The kernel has pinned it for a transfer, such as direct I/O, and does not give it up before its end.
    kept,      ///< Pinned, not to be written, or in the middle of a write that will hardly succeed.
  };
  /// Asks the policy (handler).
  std::size_t choose_victims(std::span<Victim> victims) noexcept;
  /// Unmaps a victim if it may go (handler).
  Eviction evict(const Victim& victim) noexcept;
  static constexpr std::size_t most_dropped_at_once = 32;
  /// While faults wait for frames, pages are dropped so many at a time.
  static constexpr std::size_t few_dropped_at_once = 8;
  /// Gives up pages whose eviction said so, at most so many, with one interrupt to the other processors (handler).
  void drop(std::span<const Victim> victims) noexcept;
  /// The address a page being written is to be written from.
  const std::byte* write_source(const PagedRegion& region, std::uint64_t page, FrameId frame) noexcept;
  /// Puts zeros where the program has taken memory away of pages that are in place, one behind the other, and owned:
  /// for who is to read them there.
  static void fill_holes(PagedRegion& region, const std::byte* address, std::uint64_t bytes) noexcept;
  /// The write of a page in state writing ended.
  void finish_write(PagedRegion& region, std::uint64_t page, int error) noexcept;

  // --- Write-back in place, for sync and flush.

  /// Whether there may be something to write: the page is dirty, or clean but suspect.
  bool wants_cleaning(PageWord word) noexcept;
  /// From dirty (or suspect) to cleaning, or from unmapped_dirty to writing: the caller owns it and must end it. False
  /// if it changed.
  bool begin_cleaning(PagedRegion& region, std::uint64_t page, PageWord word) noexcept;
  /// Write-protection stops the processor, not a device. Where the program has direct I/O of its own under way into a
  /// page that was writable when the I/O began, the device may still change what is called clean from then on. So a
  /// page of a writable region that was cleaned in place, or moved in and protected after that, is suspect: syncs, and
  /// its eviction, compare it with its hashes again. The suspicion ends when UFFDIO_MOVE, which refuses pages that a
  /// device holds, has taken the page, and it is still what it was. A page that was copied in was never writable: it is
  /// not.
  void finish_cleaning(PagedRegion& region, std::uint64_t page, int error) noexcept;

  // --- Dropping.

  /// Frees a page, dirty or not; pins stay, and hold whatever is read there next. `only_idle` leaves alone what is
  /// dirty, pinned or in somebody's hands. One whose read failed is tried again by whoever touches it next. Whether its
  /// memory is in a free frame now, and not the system's.
  bool discard(PagedRegion& region, std::uint64_t page, bool only_idle) noexcept;
  /// Takes every page of [first, end) out of the cache; the caller unmaps the range before release_retired() gives the
  /// frames back.
  void retire_pages(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept;
  void release_retired(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept;

  /// Takes a page that nobody owns, and that is not dirty, for a change of the region's length (it was `word`); false
  /// if it changed meanwhile, or was suspect and is dirty now. Or keeps one whose cleaning succeeded. The page's
  /// address range is made absent by the caller; then free_held() frees what it had, and let_go() lets others use it
  /// again.
  bool hold(PagedRegion& region, std::uint64_t page, PageWord word) noexcept;
  bool hold_cleaned(PagedRegion& region, std::uint64_t page) noexcept;
  void free_held(PagedRegion& region, std::uint64_t page) noexcept;
  void let_go(PagedRegion& region, std::uint64_t page) noexcept;

  /// From here on nobody brings an absent page of [first, end), which are more than can be held one by one: who wants
  /// one waits for end_update(). The caller holds those that are in memory. One range of a region at a time.
  static void begin_update(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept;
  void end_update(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept;

  /// Makes writes to a read-only region raise SIGSEGV in the kernel's own way (handler).
  static void seal(PagedRegion& region) noexcept;

  void advise(PagedRegion& region, std::uint64_t page, Hotness hotness) noexcept;

  /// Sends the program the SIGSEGV for a write to a read-only region that was found out too late to be stopped, if
  /// there was one. Called by the evictors: no lock of ours is held, and no page owned, where a handler of the
  /// program's may run.
  void report_wild_write() noexcept;

  /// Lets pages whose read failed be tried again: those of some time ago, or all of one region's. Called by the
  /// evictors at each of their ticks.
  void lift_failures(bool all_of_region = false, const PagedRegion* region = nullptr) noexcept;

  // --- Supply of frames.

  bool evicts_by_copy(const PagedRegion& region) const noexcept {
    return !settings_.move || region.sealed.load(std::memory_order_acquire);
  }
  /// Bytes the evictors should make available beyond what is; 0 if none. Evictors at work go on to the low watermark,
  /// at rest they start at the high one.
  std::uint64_t shortage_bytes(bool at_work) const noexcept;
  /// What is at hand when the evictors rest: more if pages are kept unmapped.
  std::uint64_t bytes_at_rest(bool keeping) const noexcept;
  /// What the watermarks leave free for faults to come.
  std::uint64_t room_in_advance() const noexcept;
  /// Of the budget, not to be reckoned with for pages that are to stay.
  std::uint64_t spare_bytes() const noexcept;
  /// Whether all regions have room at once: then nothing has to be at hand for what is not in memory yet.
  bool all_fits() const noexcept;
  /// Whether pages can come for a while without others having to go: more is free than the evictors rest at.
  bool has_room() const noexcept;
  /// Bytes of unmapped clean pages: gone at once when wanted.
  std::uint64_t unmapped_bytes() const noexcept { return unmapped_bytes_.load(std::memory_order_relaxed); }
  /// Gives up the oldest unmapped clean page; its frame is the caller's (handler). no_frame if there is none.
  FrameId reclaim_unmapped() noexcept;

  FramePool& frames() noexcept { return frames_; }
  const PagerSettings& settings() const noexcept { return settings_; }
  void count(PagedRegion& region, Counter counter, std::uint64_t amount = 1) noexcept {
    region.counters->add(counter, amount);
    counters_.add(counter, amount);
  }
  void record(PagedRegion& region, Stage stage, std::uint64_t nanoseconds) noexcept {
    region.counters->record(stage, nanoseconds);
    counters_.record(stage, nanoseconds);
  }
  CounterBlock& counters() noexcept { return counters_; }
  void capacity_changed(std::uint64_t units) noexcept;

  // --- The evictors' bell. Evictors sleep on `evictor_work`; those who wait for frames sleep on `supply`.
  std::atomic<std::uint32_t> evictor_work{0};
  std::atomic<std::uint32_t> evictors_asleep{0};
  std::atomic<std::uint32_t> supply{0};
  std::atomic<std::uint32_t> supply_sleepers{0};
  std::atomic<std::uint32_t> waiting_for_frames{0};  ///< Faults (not prefetches) that found no frame.
  std::atomic<std::uint64_t> demand_bytes{0};
  /// Whether somebody tries to make the budget smaller: the old one may be back in a moment, and faults wait for that.
  std::atomic<bool> shrinking{false};
  std::atomic<std::uint32_t> exhausted_passes{
      0};  ///< By which the evictors had looked at all, and nothing could ever go.
  std::atomic<std::uint64_t> last_hope_nanoseconds{
      0};  ///< When a pass last freed something, or saw pages in others' hands.
  /// When a pass last found nothing to go but pages that the kernel holds.
  std::atomic<std::uint64_t> last_held_nanoseconds{0};
  std::atomic<std::uint32_t> writes_under_way{0};  ///< Batches being written: their pages will be evictable soon.
  /// The same, by threads whose last batch failed: nothing to wait for, but where a write has succeeded since.
  std::atomic<std::uint32_t> doubtful_writes_under_way{0};
  std::atomic<std::uint32_t> fills_with_frames{0};  ///< Pages being filled: their frames will be evictable soon.
  std::atomic<std::uint32_t> writable_regions{0};
  std::atomic<std::uint64_t> whole_bytes{0};       ///< What the frames of all pages of all regions would come to.
  std::atomic<std::uint32_t> blocking_regions{0};  ///< Whose store may wait for whatever it likes, in a filler.
  /// Negative errno value of the last write to a store, if that failed; 0 if it did not.
  std::atomic<int> last_write_error{0};
  /// Whether pages are in the hands of others who may let them go soon.
  bool others_will_free() const noexcept {
    return fills_with_frames.load(std::memory_order_acquire) > 0 ||
           writes_under_way.load(std::memory_order_acquire) > 0 ||
           (doubtful_writes_under_way.load(std::memory_order_acquire) > 0 &&
            last_write_error.load(std::memory_order_relaxed) == 0);
  }
  /// Whether memory is full of what cannot go: the evictors have looked several times since `exhausted_before`, and for
  /// a while nothing went, and nothing was in the hands of others who might let it go. Transfers may hold pages for
  /// long and end, or want more pages than there are and never end: they are waited for longer.
  bool exhausted(std::uint32_t exhausted_before, std::uint64_t started_nanoseconds) const noexcept;
  /// To be called when a page may have become evictable, or a frame free: a full memory must be found full anew.
  void no_longer_full() noexcept {
    if (found_full_.load(std::memory_order_relaxed)) {
      found_full_.store(false, std::memory_order_release);
    }
  }
  /// Whether the memory at `address`, which was missing for the thread that faulted there, is missing still although
  /// the page was found in place (`word`): the program itself has taken it away, by madvise() or munmap().
  static bool taken_away(const PagedRegion& region, std::uint64_t page, std::byte* address, PageWord word) noexcept;
  void ring_evictors() noexcept;
  /// Wakes one of those who wait for frames; he sees to the next, by pass_on_supply().
  void announce_supply() noexcept;
  /// Whoever has been woken, and has taken what he needs or wants nothing, wakes the next one if there is something
  /// left.
  void pass_on_supply() noexcept;
  /// Rings, and sleeps until `supply` is no longer `epoch` or patience ends.
  void wait_for_supply(std::uint32_t epoch, std::int64_t patience_nanoseconds) noexcept;

 private:
  /// Whether a page that is filled now is to be copied into place.
  bool fills_by_copy(const PagedRegion& region, Arrival arrival) const noexcept {
    return evicts_by_copy(region) || (arrival == Arrival::mapped && copies_small_pages(region));
  }
  static constexpr std::uint64_t least_frames_to_copy = 64;
  /// Whether a page that is read is to arrive writable, and be taken for changed: see WriteHabit.
  bool assumes_write(const PagedRegion& region) const noexcept {
    return region.writable && !region.manual_flush && region.write_habit.expects_writes() &&
           copies_small_pages(region) && !evicts_by_copy(region);
  }
  /// Records what the policy is told. Called with the policy lock held, so that the order is the policy's.
  void trace(TraceKind kind, const PagedRegion& region, std::uint64_t page, bool write = false) noexcept {
    if (settings_.recorder != nullptr) {
      settings_.recorder->record({kind, write, region.id, page});
    }
  }
  /// Records an access of which the policy is not told.
  void trace_untold(TraceKind kind, const PagedRegion& region, std::uint64_t page, bool write) noexcept;
  void tell_exhausted() noexcept;
  bool take_frames(PagedRegion& region, bool two, FillFrames& frames) noexcept;
  int place(PagedRegion& region, std::uint64_t page, FillFrames frames, bool write, PageState& state) noexcept;
  int place_by_move(PagedRegion& region, std::uint64_t page, FrameId frame, bool write, bool as_stored,
                    PageState& state) noexcept;
  int place_by_copy(PagedRegion& region, std::uint64_t page, FillFrames frames, bool write, PageState& state) noexcept;
  void unlock(PagedRegion& region) noexcept;
  int move_in(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept;
  PageState protect_and_prove(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept;
  void refuse_wild_write(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept;
  int unmap(PagedRegion& region, std::uint64_t page, FrameId frame, bool was_dirty, PageState& restored) noexcept;
  Resolution rescue(PagedRegion& region, std::uint64_t page, bool write, PageWord word, int& error) noexcept;
  Eviction evict_mapped(PagedRegion& region, std::uint64_t page, PageWord word) noexcept;
  Eviction evict_by_copy(PagedRegion& region, std::uint64_t page, PageWord word) noexcept;
  void forget_dropped(PagedRegion& region, std::uint64_t page) noexcept;
  void become_unmapped(PagedRegion& region, std::uint64_t page, PageWord word) noexcept;
  void settle(PagedRegion& region, std::uint64_t page, PageWord desired) noexcept;
  void wake_all(PagedRegion& region, std::uint64_t page) noexcept;
  bool leave_to_update(PagedRegion& region, std::uint64_t page, PageWord& word) noexcept;
  void take_from_update(PagedRegion& region, std::uint64_t page) noexcept;
  void forget(PagedRegion& region, PageWord word, bool evicted) noexcept;
  void refuse(FrameId frame) noexcept;
  bool suspect(FrameId frame) noexcept { return std::atomic_ref(frames_.record(frame).suspect).load(); }
  void set_suspect(FrameId frame, bool value) noexcept { std::atomic_ref(frames_.record(frame).suspect).store(value); }
  bool proven_unchanged(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept;
  bool proven_unchanged_in_place(PagedRegion& region, std::uint64_t page, PageWord word) noexcept;
  Eviction write_or_keep(PagedRegion& region, std::uint64_t page, PageWord dirty) noexcept;
  void become_writing(PagedRegion& region, std::uint64_t page) noexcept;
  bool clear_suspicion(PagedRegion& region, std::uint64_t page, PageWord& word) noexcept;
  void evict_directly() noexcept;
  void hash_frame(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept;
  bool retire(PagedRegion& region, std::uint64_t page) noexcept;
  void empty_retired(PagedRegion& region, std::uint64_t first, std::uint64_t end) noexcept;
  void take_out(PagedRegion& region, PageWord word) noexcept;
  void keep(PagedRegion& region, std::uint64_t page) noexcept;
  void give_back_frame_of(PagedRegion& region, std::uint64_t page, FrameId frame, bool populated) noexcept;
  void remember_failure(PagedRegion& region, std::uint64_t page) noexcept;
  void page_cleaned_if(PagedRegion& region, int error) noexcept;
  void change_resident_bytes(PagedRegion& region, std::int64_t bytes) noexcept;
  void change_gauge(PagedRegion& region, std::atomic<std::uint64_t> CounterBlock::* gauge, std::int64_t bytes) noexcept;
  void page_dirtied(PagedRegion& region) noexcept;
  void page_cleaned(PagedRegion& region) noexcept;

  FramePool& frames_;
  EvictionPolicy& policy_;
  CounterBlock& counters_;
  PagerSettings settings_;
  FutexLock policy_lock_;
  FaultTurns fault_turns_;
  SecondChances second_chances_;         ///< Told of what happens under the policy lock.
  std::atomic<bool> found_full_{false};  ///< Somebody was refused a frame, and nothing has changed since.
  std::atomic_flag told_exhausted_;
  std::atomic<std::byte*> wild_write_{nullptr};  ///< To be reported; the first of several is.
  std::atomic<std::uint64_t> unmapped_bytes_{0};
  std::atomic<std::uint64_t> small_bytes_{0};  ///< Of pages in memory that are small enough to be copied.
  std::atomic<std::uint32_t> unmapped_share_percent_;

  /// A page in state failed. When all places are taken, the oldest is lifted at once.
  struct Failure {
    PagedRegion* region = nullptr;
    std::uint64_t page = 0;
    std::uint64_t tick = 0;
  };
  FutexLock failures_lock_;
  std::array<Failure, 256> failures_{};
  std::uint64_t housekeeping_tick_ = 0;
  void lift(PagedRegion& region, std::uint64_t page) noexcept;
  void lift(Failure& failure) noexcept;
};

}  // namespace tiermap
