#include "fault/self_serving_engine.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "fault/region_index.hpp"
#include "platform/clock.hpp"
#include "platform/signals_blocked.hpp"

namespace tiermap {
namespace {

// The handler has no argument of ours: what it needs is reached from here. It belongs to the process, as the signal
// does, and holds nothing of any one cache but the addresses of its regions.
struct SignalRouter {
  std::mutex mutex;  ///< Guards installing and removing.
  int engines = 0;
  struct sigaction before{};
  RegionIndex index;
  /// Of the process that this one was forked from: its regions are not here, where others may have their addresses, and
  /// a thread that stayed there may have a lock of it, or be about to look for a region.
  std::atomic<bool> of_parent{false};
  SignalRouter* parents = nullptr;  ///< Never destroyed, either.
};

/// Never destroyed: a fault may come after main() has returned. Null before the first engine.
constinit std::atomic<SignalRouter*> current_router{nullptr};

[[maybe_unused]] const int left_behind_by_forks = ::pthread_atfork(nullptr, nullptr, [] {
  if (SignalRouter* const parents = current_router.load(); parents != nullptr) {
    parents->of_parent.store(true);
  }
});

/// The handler that a parent has installed is the child's too, and hands on to what was before it.
SignalRouter& own_router() {
  while (true) {
    SignalRouter* known = current_router.load();
    if (known != nullptr && !known->of_parent.load()) {
      return *known;
    }
    auto made = std::make_unique<SignalRouter>();
    if (known != nullptr) {
      made->engines = known->engines;
      made->before = known->before;
      made->parents = known;
    }
    if (current_router.compare_exchange_strong(known, made.get())) {
      return *made.release();
    }
  }
}

bool was_write(const void* context) noexcept {
#if defined(__x86_64__)
  constexpr greg_t write_bit = 2;  // Of the page-fault error code.
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & write_bit) != 0;
#else
  static_cast<void>(context);
  return false;  // A write then faults once more, on the protection.
#endif
}

// The engine's own threads are, and whoever is at work for it: a filler may be waiting for such a one.
bool deaf_to_signals(const void* context) noexcept {
  return ::sigismember(&static_cast<const ucontext_t*>(context)->uc_sigmask, SIGURG) == 1;
}

// What the program would have got without us.
void pass_on(int signal_number, siginfo_t* information, void* context) noexcept {
  const struct sigaction& before = current_router.load()->before;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal_number, information, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal_number);
  } else {
    // The access is tried again when we return, and then kills as it would have.
    struct sigaction fatal{};
    fatal.sa_handler = SIG_DFL;
    ::sigaction(SIGBUS, &fatal, nullptr);
    if (information->si_code <= 0) {  // Sent by kill(): nothing will be tried again.
      ::raise(SIGBUS);
    }
  }
}

void handle_signal(int signal_number, siginfo_t* information, void* context) {
  const int errno_before = errno;
  bool served = false;
  if (SignalRouter& router = *current_router.load(); information->si_code > 0 && !router.of_parent.load()) {
    const CancellationHeld held;
    const RegionUse region = router.index.find(information->si_addr);
    if (region) {
      served = region->self_serving->serve(*region, static_cast<std::byte*>(information->si_addr),
                                           {was_write(context), !deaf_to_signals(context)});
    }
  }
  if (!served) {
    pass_on(signal_number, information, context);
  }
  errno = errno_before;
}

}  // namespace

SelfServingEngine::SelfServingEngine(Pager& pager, Fillers& fillers) : pager_(pager), fillers_(fillers) {
  SignalRouter& shared = own_router();
  const std::lock_guard held(shared.mutex);
  if (shared.engines++ == 0) {
    struct sigaction action{};
    action.sa_sigaction = handle_signal;
    // Asynchronous signals stay out while we hold locks. SIGBUS itself may nest: a store may read from a region.
    sigfillset(&action.sa_mask);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      sigdelset(&action.sa_mask, fault);
    }
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
    ::sigaction(SIGBUS, &action, &shared.before);
  }
}

SelfServingEngine::~SelfServingEngine() {
  SignalRouter& shared = own_router();
  const std::lock_guard held(shared.mutex);
  if (--shared.engines == 0) {
    struct sigaction now{};
    ::sigaction(SIGBUS, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == handle_signal) {  // Else the program has put its own on top.
      ::sigaction(SIGBUS, &shared.before, nullptr);
    }
  }
}

void SelfServingEngine::attach(PagedRegion& region) {
  region.self_serving = this;
  own_router().index.add(region);
}

void SelfServingEngine::detach(const PagedRegion& region) {
  own_router().index.remove(region);
}

bool SelfServingEngine::serve(PagedRegion& found, std::byte* address, Access access) noexcept {
  bool counted = false;
  while (true) {
    PagedRegion& region = pager_.serving(found, address);
    const Served served = serve_in(region, address, access, counted);
    if (served != Served::elsewhere) {
      return served == Served::yes;
    }
    ::sched_yield();
  }
}

SelfServingEngine::Served SelfServingEngine::serve_in(PagedRegion& region, std::byte* address, Access access,
                                                      bool& counted) noexcept {
  const std::uint64_t page = region.page_of(address);
  // Longer each time: many may wait, and who looks takes the processor from whose turn it is.
  constexpr long longest_pause_nanoseconds = 1'600'000;
  timespec pause{0, 50'000};
  while (pager_.takes_turns(region) && !pager_.admits(region, page, static_cast<std::uint32_t>(::gettid()))) {
    ::nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(2 * pause.tv_nsec, longest_pause_nanoseconds);
  }
  bool waited = false;
  bool filler_reads = false;
  while (true) {
    PageWord word;
    int error = 0;
    const Resolution resolution = pager_.resolve(region, page, access.write, word, error);
    const bool absent =
        resolution == Resolution::fill || resolution == Resolution::wait || word.state() == PageState::unmapped;
    if (absent && !counted) {
      pager_.count(region, access.write ? Counter::write_faults : Counter::read_faults);
      counted = true;
    }
    switch (resolution) {
      case Resolution::done:
        pager_.end_wait_for(region, page);
        if (word.state() == PageState::unmapped) {
          fillers_.follow(Fillers::plan_after_rescue(region, page, word.prefetched()));
        }
        // Who has waited for the page just tries again.
        return !waited && Pager::taken_away(region, page, address, word) ? Served::no : Served::yes;
      case Resolution::wait:
        if (!std::exchange(filler_reads, false)) {
          pager_.count(region, Counter::coalesced_faults);
        }
        Pager::wait(region, page, word);
        waited = true;
        continue;
      case Resolution::fill: {
        const Filled filled = fill(region, page, access);
        if (filled == Filled::by_filler) {  // To try the access before that would only be a second signal.
          waited = filler_reads = true;
          access.may_hand_over = false;
          continue;
        }
        return filled == Filled::here ? Served::yes : Served::no;
      }
      case Resolution::moved:
        return Served::elsewhere;
      case Resolution::failed:
        pager_.end_wait_for(region, page);
        return Served::no;
    }
  }
}

// Takes frames for a small page, or leaves it to a filler. Where there are pages to be written the evictors make
// frames, and faults outrun them: threads that wait for frames one by one, and wake each other, cost more than a filler
// that waits for all of them, and then reads many pages at once.
bool SelfServingEngine::left_to_filler(PagedRegion& region, std::uint64_t page, Access access, std::uint64_t started,
                                       FillFrames& frames) noexcept {
  return access.may_hand_over && region.store_is_direct && pager_.copies_small_pages(region) &&
         pager_.writable_regions.load(std::memory_order_relaxed) > 0 &&
         !pager_.try_frames(region, Arrival::mapped, frames, true) &&
         fillers_.hand_over(region, page, access.write, started);
}

// The page is ours to fill. Read here if the store can be read here, else by a filler: then the page is waited for, as
// if another thread had been the first to miss it.
SelfServingEngine::Filled SelfServingEngine::fill(PagedRegion& region, std::uint64_t page, Access access) noexcept {
  const std::uint64_t started = now_nanoseconds();
  const Fillers::Plan ahead = fillers_.plan_after_miss(region, page);
  fillers_.follow(ahead);
  if (region.reads_may_block()) {
    fillers_.fill(region, page, access.write, started);
    return Filled::by_filler;
  }
  FillFrames frames;
  if (left_to_filler(region, page, access, started, frames)) {
    return Filled::by_filler;
  }
  if (frames.data == no_frame && !pager_.obtain_frames(region, frames)) {
    pager_.abandon_fill(region, page, {}, 0);
    return Filled::failed;
  }
  const std::uint64_t framed = now_nanoseconds();
  region.traffic->reads.enter();
  int error = pager_.read_page(region, page, pager_.frames().address(frames.data), true);
  region.traffic->reads.leave();
  if (error == -EAGAIN) {  // This piece of the store needs a filler after all.
    pager_.return_frames(frames);
    fillers_.fill(region, page, access.write, started);
    return Filled::by_filler;
  }
  const std::uint64_t read = now_nanoseconds();
  if (error != 0) {
    pager_.abandon_fill(region, page, frames, error);
    return Filled::failed;
  }
  error = pager_.finish_fill(region, page, frames, access.write, FillKind::fault);
  const std::uint64_t placed = now_nanoseconds();
  pager_.record(region, Stage::frame, framed - started);
  pager_.record(region, Stage::read, read - framed);
  pager_.record(region, Stage::place, placed - read);
  pager_.record(region, Stage::total, placed - started);
  return error == 0 || error == -ESTALE ? Filled::here : Filled::failed;
}

}  // namespace tiermap
