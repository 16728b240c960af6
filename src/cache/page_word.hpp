// The state of a page: one 64-bit word, changed only by compare-and-swap. This file owns the state machine.
//
//   bits 0-3    state (below)
//   bit  4      waiters: some thread sleeps on this word, or a fault message waits for it
//   bit  5      prefetched: filled before anyone asked, and not known to have been used
//   bit  6      probation: the eviction policy counts the page as unmapped
//   bit  7      placing: the page is being filled, and the program may reach it already
//   bits 8-23   pins
//   bit  24     for_update: busy for nobody but an update() of a long range, which lets go of it at its end
//   bit  25     held: busy until some call of the program's ends, and nothing of it is unwritten
//   bits 26-31  unused
//   bits 32-63  frame (meaningless when absent, failed or filling without one)
//
//                                fault, prefetch                        read fault
//        +----------> absent ---------------------> filling ------------------------------> clean
//        |              ^  ^                           |  \                                |  ^  ^
//        |   time passed|  |read error (self-serving)  |   \ write fault          write    |  |  | written back
//        |              |  +---------------------------+    +----------> dirty <-----------+  |  | in place
//        |           failed <---- read error (notify)  |                 |  ^  |              |  |
//        |                                             | prefetch        |  |  +-- flush --> cleaning
//        | frame given up                              v                 |  |  fault, rescue |
//        +---------------------------------------- unmapped <--- evictor takes a clean page --+
//                                                    ^   |               |
//                                          written   |   +-- rescue --> (busy) --> clean or dirty
//                                                    |                   |
//                                                 writing <--------------+ evictor takes a dirty page
//                                                    |  ^
//                                        write error v  | tried again
//                                               unmapped_dirty -- rescue --> (busy) --> dirty
//
// Between two stable states one thread owns the page in state `busy` (or filling, writing, cleaning): whoever put it
// there and nobody else moves it on. Everyone else waits for the word to change. Owners never wait for another page's
// owner while they own one, but for sync(), which waits only for pages it does not own.
//
// What each state promises:
//   clean     mapped, write-protected: frame contents equal the store's (as last written or read).
//   cleaning  mapped, write-protected, being written to the store from where it is mapped.
//   dirty     mapped, writable: the store may be behind.
//   unmapped  in its arena slot, equal to the store.
//   writing, unmapped_dirty  in its arena slot, newer than the store.
//   failed    the last read failed; the range raises SIGBUS until the evictors clear it: a later access tries again.
//
// Lock order: page owner (a word in a transitional state) > policy lock > frame pool lock. A thread that holds a lock
// never waits for a page. FaultTurns has a lock of its own, taken before the page is owned and with no other held.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "cache/eviction_policy.hpp"
#include "platform/futex.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

enum class PageState : std::uint8_t {
  absent,
  filling,
  clean,
  dirty,
  cleaning,
  busy,
  unmapped,
  unmapped_dirty,
  writing,
  failed
};

/// A value of the word. Immutable in style: each `with_` gives a changed copy.
class PageWord {
 public:
  static constexpr std::uint64_t waiters_bit = 1U << 4;
  static constexpr std::uint64_t prefetched_bit = 1U << 5;
  static constexpr std::uint64_t probation_bit = 1U << 6;
  static constexpr std::uint64_t placing_bit = 1U << 7;
  static constexpr std::uint64_t for_update_bit = 1U << 24;
  static constexpr std::uint64_t held_bit = 1U << 25;

  constexpr PageWord() = default;
  constexpr explicit PageWord(std::uint64_t bits) : bits_(bits) {}

  constexpr std::uint64_t bits() const noexcept { return bits_; }
  constexpr PageState state() const noexcept { return static_cast<PageState>(bits_ & 0xF); }
  constexpr bool waiters() const noexcept { return (bits_ & waiters_bit) != 0; }
  constexpr bool prefetched() const noexcept { return (bits_ & prefetched_bit) != 0; }
  constexpr bool probation() const noexcept { return (bits_ & probation_bit) != 0; }
  constexpr bool placing() const noexcept { return (bits_ & placing_bit) != 0; }
  constexpr bool for_update() const noexcept { return (bits_ & for_update_bit) != 0; }
  constexpr bool held() const noexcept { return (bits_ & held_bit) != 0; }
  constexpr std::uint32_t pins() const noexcept { return static_cast<std::uint32_t>(bits_ >> 8) & 0xFFFF; }
  constexpr FrameId frame() const noexcept { return static_cast<FrameId>(bits_ >> 32); }

  constexpr PageWord with_state(PageState state) const noexcept {
    return PageWord((bits_ & ~std::uint64_t{0xF}) | static_cast<std::uint64_t>(state));
  }
  constexpr PageWord with_frame(FrameId frame) const noexcept {
    return PageWord((bits_ & 0xFFFFFFFFU) | (std::uint64_t{frame} << 32));
  }
  constexpr PageWord with(std::uint64_t flags) const noexcept { return PageWord(bits_ | flags); }
  constexpr PageWord without(std::uint64_t flags) const noexcept { return PageWord(bits_ & ~flags); }
  constexpr PageWord with_pins(std::uint32_t pins) const noexcept {
    return PageWord((bits_ & ~(std::uint64_t{0xFFFF} << 8)) | (std::uint64_t{pins} << 8));
  }

  /// Some thread owns the page and will change the word soon.
  constexpr bool owned() const noexcept {
    const PageState now = state();
    return now == PageState::filling || now == PageState::busy || now == PageState::cleaning ||
           now == PageState::writing;
  }
  constexpr bool mapped() const noexcept {
    const PageState now = state();
    return now == PageState::clean || now == PageState::dirty || now == PageState::cleaning;
  }

 private:
  std::uint64_t bits_ = 0;
};

inline constexpr std::uint32_t most_pins = 0xFFFF;

/// The words of a region's pages. All members are safe in signal handlers.
class PageTable {
 public:
  PageTable() = default;
  explicit PageTable(std::uint64_t pages) : words_(pages), used_chunks_((pages + chunk_pages - 1) / chunk_pages) {}

  std::uint64_t capacity() const noexcept { return words_.size(); }

  /// Remembers that a page near this one has left `absent`, so that walks over a sparse region stay short.
  void mark_used(std::uint64_t page) noexcept {
    std::atomic<std::uint8_t>& used = used_chunks_[page / chunk_pages];
    if (used.load(std::memory_order_relaxed) == 0) {
      used.store(1);  // In one order with what comes next: see Pager::resolve().
    }
  }

  /// Whether a page near this one has ever left `absent`.
  bool used_nearby(std::uint64_t page) const noexcept {
    return used_chunks_[page / chunk_pages].load(std::memory_order_relaxed) != 0;
  }

  /// Calls `visit(page)` for every page of [first, end) that may not be absent.
  template <typename Visit>
  void for_each_used(std::uint64_t first, std::uint64_t end, Visit&& visit) {
    for_each_used_nearby(first, end, [&](std::uint64_t page) {
      if (load(page).state() != PageState::absent) {
        visit(page);
      }
    });
  }
  /// Calls `visit(page)` for every page of [first, end) that has ever left `absent`, and for its neighbours.
  template <typename Visit>
  void for_each_used_nearby(std::uint64_t first, std::uint64_t end, Visit&& visit) {
    for (std::uint64_t page = first; page < end;) {
      const std::uint64_t chunk_end = std::min(end, (page / chunk_pages + 1) * chunk_pages);
      if (used_nearby(page)) {
        for (; page < chunk_end; ++page) {
          visit(page);
        }
      }
      page = chunk_end;
    }
  }

  PageWord load(std::uint64_t page) const noexcept { return PageWord(words_[page].load(std::memory_order_acquire)); }
  /// In one order with all change()s: of two that change a word each, and then load the other's, one sees the other.
  PageWord load_in_order(std::uint64_t page) const noexcept { return PageWord(words_[page].load()); }

  /// From exactly `expected` to `desired`; on failure `expected` is what was found.
  bool change(std::uint64_t page, PageWord& expected, PageWord desired) noexcept {
    std::uint64_t bits = expected.bits();
    const bool changed = words_[page].compare_exchange_strong(bits, desired.bits(), std::memory_order_seq_cst,
                                                              std::memory_order_acquire);
    expected = PageWord(bits);
    return changed;
  }

  /// The owner of a page in state filling is about to put it where the program reaches it.
  void mark_placing(std::uint64_t page) noexcept {
    words_[page].fetch_or(PageWord::placing_bit, std::memory_order_acq_rel);
  }

  /// The owner of a page in state busy is about to keep it until a call of the program's ends. Returns whether someone
  /// waits for it.
  [[nodiscard]] bool mark_held(std::uint64_t page) noexcept {
    return PageWord(words_[page].fetch_or(PageWord::held_bit, std::memory_order_acq_rel)).waiters();
  }

  /// Ends ownership: the state, frame and flags of `desired` with the pins as they are. Returns whether someone waits
  /// for it.
  [[nodiscard]] bool publish(std::uint64_t page, PageWord desired) noexcept {
    PageWord now = load(page);
    while (!change(page, now, desired.with_pins(now.pins()).without(PageWord::waiters_bit))) {
    }
    return now.waiters();
  }

  /// Marks that someone waits for the word to change from `expected`; false if it has changed.
  bool announce_waiter(std::uint64_t page, PageWord expected) noexcept {
    return expected.waiters() || change(page, expected, expected.with(PageWord::waiters_bit));
  }

  /// Sleeps until the page may have changed from `expected`, which must be owned. Spurious returns happen.
  void wait(std::uint64_t page, PageWord expected) noexcept {
    if (announce_waiter(page, expected)) {
      futex_wait(low_half(page), static_cast<std::uint32_t>(expected.with(PageWord::waiters_bit).bits()));
    }
  }

  void wake(std::uint64_t page) noexcept { futex_wake_all(low_half(page)); }

 private:
  // Little-endian machines only: the state is in the half that the futex watches.
  static_assert(std::endian::native == std::endian::little);
  const void* low_half(std::uint64_t page) const noexcept { return &words_[page]; }

  static constexpr std::uint64_t chunk_pages = 4096;

  LazyArray<std::atomic<std::uint64_t>> words_;
  LazyArray<std::atomic<std::uint8_t>> used_chunks_;
};

}  // namespace tiermap
