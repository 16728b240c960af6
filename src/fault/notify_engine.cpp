#include "fault/notify_engine.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "platform/engine_thread.hpp"
#include "platform/futex.hpp"
#include "platform/own_descriptor.hpp"
#include "platform/write_unless_closed.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Reads a manager keeps in flight itself before it hands faults to the fillers.
constexpr unsigned most_own_reads = 32;
/// From so many on a manager calls another one.
constexpr unsigned reads_for_one = 10;
/// With so many under way the next is done soon: worth polling for so many times as long.
constexpr unsigned reads_worth_polling = 2;
constexpr std::uint64_t patience_with_reads = 3;
/// Faults of more threads than that are served although others have their turn.
constexpr std::size_t most_deferred = 1024;
constexpr int retry_milliseconds = 1;

}  // namespace

NotifyEngine::Manager::Manager(Pager& pager, const Settings& settings, std::size_t most_descriptors)
    : worker(pager, most_own_reads), messages(settings.max_fault_events) {
  descriptors.reserve(most_descriptors);
  deferred.reserve(2 * most_deferred);  // Each is put back before it is taken away.
}

NotifyEngine::NotifyEngine(Pager& pager, Fillers& fillers, RegionIndex& index,
                           std::span<const Userfaultfd> userfaultfds, const Settings& settings, int stop_event)
    : pager_(pager),
      fillers_(fillers),
      index_(index),
      userfaultfds_(userfaultfds),
      settings_(settings),
      stop_event_(stop_event) {}

// From the delegated constructor on the destructor ends those that run, should another one not start.
namespace {

// Nobody is asked for pages any more: all that were not in memory read as zeros, and what is stored to them is lost. A
// program that goes on would not know.
[[noreturn]] void end_without_descriptor() noexcept {
  constexpr int exit_code = 134;  // As shells have it, should a handler return.
  constexpr std::string_view text =
      "tiermap: the program has closed a descriptor of Tiermap's, and pages read as zeros from now on: it is ended; "
      "close only what was opened\n";
  tell_unless_closed(text);
  ::raise(SIGABRT);
  ::syscall(SYS_exit_group, exit_code);
  __builtin_unreachable();
}

}  // namespace

NotifyEngine::NotifyEngine(Pager& pager, Fillers& fillers, RegionIndex& index,
                           std::span<const Userfaultfd> userfaultfds, const Settings& settings)
    : NotifyEngine(pager, fillers, index, userfaultfds, settings,
                   above_standard_streams(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (stop_event_ < 0) {
    throw PlatformError(errno, "cannot make an event descriptor: raise ulimit -n");
  }
  for (std::uint32_t number = 0; number < settings.managers; ++number) {
    auto manager = std::make_unique<Manager>(pager, settings, userfaultfds.size() + 2);
    manager->helps = number > 0;
    threads_.push_back(start_engine_thread("tiermap-manage", [this, manager = std::move(manager)] { run(*manager); }));
  }
}

NotifyEngine::~NotifyEngine() {
  stop_.store(true);
  calls_.fetch_add(1);
  futex_wake_all(&calls_);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_event_, &one, sizeof one));
  for (std::thread& thread : threads_) {
    thread.join();
  }
  ::close(stop_event_);
}

void NotifyEngine::run(Manager& manager) {
  FillWorker& worker = manager.worker;
  while (!stop_.load(std::memory_order_acquire)) {
    // A sleeping thread on an idle virtual processor takes some 30 us to wake: the next fault is often sooner than
    // that.
    const std::uint64_t patience = worker.in_flight() >= reads_worth_polling ? patience_with_reads : 1;
    const std::uint64_t give_up = now_nanoseconds() + patience * settings_.spin_microseconds * 1000;
    bool worked = false;
    do {
      worked = read_all(manager);
      retry_deferred(manager);
      if (worker.in_flight() > 0) {
        const unsigned before = worker.in_flight();
        worker.reap(0);
        worked = worked || worker.in_flight() != before;
      }
    } while (!worked && now_nanoseconds() < give_up && !stop_.load(std::memory_order_relaxed));
    if (!worked) {
      sleep(manager);
    }
  }
}

bool NotifyEngine::read_all(Manager& manager) {
  std::vector<uffd_msg>& messages = manager.messages;
  bool any = false;
  for (const Userfaultfd& userfaultfd : userfaultfds_) {
    const std::int64_t count = userfaultfd.read_messages(messages);
    if (count == -EBADF) {
      end_without_descriptor();
    }
    const std::uint64_t now = now_nanoseconds();
    for (std::int64_t message = 0; message < count; ++message) {
      handle(messages[static_cast<std::size_t>(message)], manager, now);
      any = true;
    }
  }
  manager.worker.submit();
  if (any && manager.worker.in_flight() >= reads_for_one) {
    call_helper();
  }
  return any;
}

// Each once: those that still have to wait are put back at the end.
void NotifyEngine::retry_deferred(Manager& manager) {
  const std::size_t count = manager.deferred.size();
  const std::uint64_t now = now_nanoseconds();
  for (std::size_t index = 0; index < count; ++index) {
    const uffd_msg message = manager.deferred[index];
    handle(message, manager, now);
  }
  manager.deferred.erase(manager.deferred.begin(), manager.deferred.begin() + static_cast<std::ptrdiff_t>(count));
  manager.worker.submit();
}

void NotifyEngine::handle(const uffd_msg& message, Manager& manager, std::uint64_t now) {
  if (message.event != UFFD_EVENT_PAGEFAULT) {
    return;
  }
  auto* address = reinterpret_cast<std::byte*>(message.arg.pagefault.address);
  const RegionUse found = index_.find(address);
  if (!found) {
    return;  // Unmapped since: unregistering has woken the thread.
  }
  // Twice where pages of another size have come just now; more often only while the choice between sizes ends. Who ends
  // it may wait for what we have in flight.
  bool counted = false;
  while (!handle_in(pager_.serving(*found, address), address, message, manager, now, counted)) {
    manager.worker.submit();
    manager.worker.reap(0);
  }
}

bool NotifyEngine::handle_in(PagedRegion& region, std::byte* address, const uffd_msg& message, Manager& manager,
                             std::uint64_t now, bool& counted) {
  const bool protected_page = (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0;
  const bool write = protected_page || (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0;
  const std::uint64_t page = region.page_of(address);
  if (!protected_page && manager.deferred.size() < 2 * most_deferred &&
      !pager_.admits(region, page, message.arg.pagefault.feat.ptid)) {
    manager.deferred.push_back(message);
    return true;
  }
  if (!protected_page && !std::exchange(counted, true)) {
    pager_.count(region, write ? Counter::write_faults : Counter::read_faults);
  }
  while (true) {
    PageWord word;
    int error = 0;
    switch (pager_.resolve(region, page, write, word, error)) {
      case Resolution::done:
        if (!protected_page && Pager::taken_away(region, page, address, word)) {
          // The access is to fail. Where the kernel cannot be told so it is tried for ever.
          region.userfaultfd->poison(region.block_address(address), block_bytes);
        }
        region.userfaultfd->wake(region.page_address(page), region.page_mapped(page));
        pager_.end_wait_for(region, page);
        if (word.state() == PageState::unmapped) {
          fillers_.follow(Fillers::plan_after_rescue(region, page, word.prefetched()));
        }
        return true;
      case Resolution::wait:
        // The message is spent: whoever owns the page wakes the thread when the word changes, and it faults again.
        if (region.table.announce_waiter(page, word)) {
          pager_.count(region, Counter::coalesced_faults);
          return true;
        }
        continue;
      case Resolution::fill:
        fill(region, page, write, manager.worker, now);
        return true;
      case Resolution::failed:
        // The page is poisoned, or could not be placed; the access decides.
        region.userfaultfd->wake(region.page_address(page), region.page_mapped(page));
        pager_.end_wait_for(region, page);
        return true;
      case Resolution::moved:
        return false;
    }
  }
}

void NotifyEngine::fill(PagedRegion& region, std::uint64_t page, bool write, FillWorker& worker, std::uint64_t now) {
  const Fillers::Plan ahead = fillers_.plan_after_miss(region, page);
  if (!region.reads_may_block() && !worker.full()) {
    region.users.fetch_add(1, std::memory_order_acq_rel);
    worker.start(
        {.region = &region, .first = page, .kind = FillKind::fault, .write = write, .started_nanoseconds = now});
  } else {
    fillers_.fill(region, page, write, now);
  }
  fillers_.follow(ahead);
}

void NotifyEngine::sleep(Manager& manager) {
  const FillWorker& worker = manager.worker;
  if (manager.helps && worker.in_flight() == 0 && manager.deferred.empty()) {
    wait_for_call();
    return;
  }
  std::vector<pollfd>& descriptors = manager.descriptors;
  descriptors.clear();
  descriptors.push_back({stop_event_, POLLIN, 0});
  for (const Userfaultfd& userfaultfd : userfaultfds_) {
    descriptors.push_back({userfaultfd.file_descriptor(), POLLIN, 0});
  }
  if (worker.in_flight() > 0) {
    descriptors.push_back({worker.file_descriptor(), POLLIN, 0});
  }
  ::poll(descriptors.data(), descriptors.size(), manager.deferred.empty() ? -1 : retry_milliseconds);
}

// Who is missed, as it is about to sleep, is called with the next messages.
void NotifyEngine::call_helper() noexcept {
  if (idle_helpers_.load(std::memory_order_relaxed) > 0) {
    calls_.fetch_add(1);
    futex_wake_one(&calls_);
  }
}

void NotifyEngine::wait_for_call() noexcept {
  const std::uint32_t calls = calls_.load();
  idle_helpers_.fetch_add(1, std::memory_order_relaxed);
  if (!stop_.load()) {  // It is set before the last call.
    futex_wait(&calls_, calls);
  }
  idle_helpers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tiermap
