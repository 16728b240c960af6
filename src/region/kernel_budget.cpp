#include "region/kernel_budget.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "config/size.hpp"
#include "platform/engine_thread.hpp"
#include "platform/file_cache.hpp"
#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

using std::chrono::microseconds;

// The page cache keeps folios of up to 2 MiB whole: one that straddles two sweeps goes with the second.
constexpr std::uint64_t largest_folio = huge_page_bytes;
// A program that touches what the page cache has maps some 4 GiB a second: so long is the way to the watermark at
// least.
constexpr std::uint64_t bytes_a_microsecond = 4096;
constexpr microseconds shortest_pause{1000};
constexpr microseconds longest_idle_pause{8000};
constexpr microseconds longest_pause{50000};

}  // namespace

FileDropper::FileDropper(CounterBlock& counters)
    : counters_(counters), thread_(start_engine_thread("tm-drop", [this] { work(); })) {}

FileDropper::~FileDropper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FileDropper::drop(std::shared_ptr<Store> store, int file_descriptor, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::size_t most_queued = 4096;
  {
    const std::lock_guard lock(mutex_);
    if (!queue_.empty() && queue_.back().file_descriptor == file_descriptor && queue_.back().store == store &&
        queue_.back().offset + queue_.back().bytes == offset) {
      queue_.back().bytes += bytes;
    } else if (queue_.size() < most_queued) {
      queue_.push_back({std::move(store), file_descriptor, offset, bytes});
    }
  }
  changed_.notify_all();
}

void FileDropper::forget(const Store& store) {
  std::unique_lock lock(mutex_);
  std::erase_if(queue_, [&](const Piece& piece) { return piece.store.get() == &store; });
  wait_for_piece(lock, store);
}

/// For what is under way with a store, if anything is: the next piece may be of it too, and the one after it.
void FileDropper::wait_for_piece(std::unique_lock<std::mutex>& lock, const Store& store) {
  const std::uint64_t before = pieces_done_;
  changed_.wait(lock, [&] { return busy_with_ != &store || pieces_done_ != before; });
}

int FileDropper::take_error(const std::shared_ptr<Store>& store) {
  std::unique_lock lock(mutex_);
  wait_for_piece(lock, *store);  // It may have failed already.
  const auto found = std::ranges::find_if(failures_, [&](const Failure& failure) { return is_of(failure, store); });
  if (found == failures_.end()) {
    return 0;
  }
  const int error = found->error;
  failures_.erase(found);
  return error;
}

// Called with mutex_ held. The kernel tells an error once to each open file, and this was it: nobody else will hear.
void FileDropper::remember(const std::shared_ptr<Store>& store, int error) {
  counters_.add(Counter::write_errors);
  std::erase_if(failures_, [](const Failure& failure) { return failure.store.expired(); });
  if (std::ranges::none_of(failures_, [&](const Failure& failure) { return is_of(failure, store); })) {
    failures_.push_back({store, error});
  }
}

void FileDropper::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) {
      return;
    }
    Piece piece = std::move(queue_.front());
    queue_.pop_front();
    busy_with_ = piece.store.get();
    lock.unlock();
    const int error = write_file_cache(piece.file_descriptor, piece.offset, piece.bytes, true);
    const std::uint64_t back = std::min(piece.offset, largest_folio);
    drop_file_cache(piece.file_descriptor, piece.offset - back, piece.bytes + back);
    lock.lock();
    busy_with_ = nullptr;
    ++pieces_done_;
    if (error != 0) {
      remember(piece.store, error);
    }
    piece.store.reset();  // Before forget() returns: whoever unmaps a store may open it again at once.
    changed_.notify_all();
  }
}

KernelBudget::KernelBudget(std::uint64_t budget_bytes, std::uint32_t high_watermark_percent,
                           std::uint32_t low_watermark_percent, CounterBlock& counters, bool may_scan)
    : budget_(budget_bytes),
      high_percent_(high_watermark_percent),
      low_percent_(low_watermark_percent),
      counters_(counters),
      present_(may_scan),
      dropper_(counters) {
  if (budget_bytes < least_budget_bytes) {
    throw OptionError("budget " + format_size(budget_bytes) + " is under the " + format_size(least_budget_bytes) +
                      " that fault mode kernel needs: give more");
  }
  counters_.budget_bytes = budget_bytes;
  thread_ = start_engine_thread("tm-budget", [this] { watch(); });
}

KernelBudget::~KernelBudget() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void KernelBudget::attach(KernelMapping& mapping, CounterBlock& counters) {
  const std::lock_guard lock(mutex_);
  regions_.push_back({&mapping, &counters});
  calibrate();
  changed_.notify_all();
}

void KernelBudget::detach(KernelMapping& mapping) {
  {
    const std::lock_guard lock(mutex_);
    const auto watched =
        std::find_if(regions_.begin(), regions_.end(), [&](const Watched& one) { return one.mapping == &mapping; });
    if (watched == regions_.end()) {
      return;
    }
    regions_.erase(watched);
    hand_region_ = 0;
    hand_offset_ = 0;
    next_count_nanoseconds_ = 0;
  }
  dropper_.forget(*mapping.store());
}

/// What is mapped, from numbers that cost nothing to ask for.
std::uint64_t KernelBudget::estimate() const noexcept {
  const std::uint64_t all = process_file_bytes();
  return all - std::min(all, other_file_bytes_) + written_bytes_;
}

/// Counts page by page, and sets right what estimate() goes by.
std::uint64_t KernelBudget::calibrate() {
  const std::uint64_t began = now_nanoseconds();
  std::uint64_t of_files = 0;
  written_bytes_ = 0;
  for (const Watched& region : regions_) {
    const KernelMapping& mapping = *region.mapping;
    const std::uint64_t file_end = mapping.file_bytes();
    std::uint64_t present = present_.count(mapping.data(), file_end);
    std::uint64_t from_file = present;
    if (!mapping.shared()) {
      from_file = present_.count(mapping.data(), file_end, false);
      const std::uint64_t end = (mapping.length() + 4095) / 4096 * 4096;
      present += present_.count(mapping.data() + file_end, end - file_end);
      written_bytes_ += present - std::min(present, from_file);
    }
    of_files += from_file;
    region.counters->resident_bytes = present;
    region.counters->mapped_bytes = present;
  }
  const std::uint64_t all = process_file_bytes();
  other_file_bytes_ = all - std::min(all, of_files);
  const std::uint64_t resident = of_files + written_bytes_;
  counters_.resident_bytes = resident;
  counters_.mapped_bytes = resident;
  const std::uint64_t now = now_nanoseconds();
  // At most a twentieth of the time goes into counting.
  next_count_nanoseconds_ = now + std::max<std::uint64_t>(200'000'000, 20 * (now - began));
  return resident;
}

std::uint64_t KernelBudget::count_resident_bytes() {
  const std::lock_guard lock(mutex_);
  return calibrate();
}

void KernelBudget::watch() {
  // Where the processors are busy, what the program maps until this thread runs again is over the budget. Without
  // CAP_SYS_NICE this is refused, and the budget kept less well.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), -15);
  std::unique_lock lock(mutex_);
  std::uint64_t last = 0;
  microseconds idle_pause = shortest_pause;
  while (!stop_) {
    if (regions_.empty()) {
      changed_.wait(lock, [this] { return stop_ || !regions_.empty(); });
      continue;
    }
    std::uint64_t used = estimate();
    idle_pause = used == last ? std::min(idle_pause * 2, longest_idle_pause) : shortest_pause;
    if (used != last && now_nanoseconds() >= next_count_nanoseconds_) {
      used = calibrate();
    }
    const std::uint64_t high = percent_of(budget_bytes(), high_percent_);
    if (used > high) {
      used -= std::min(used, evict(used - room_bytes()));
    }
    last = used;
    counters_.resident_bytes = used;
    counters_.mapped_bytes = used;
    const microseconds to_watermark(used >= high ? 0 : (high - used) / bytes_a_microsecond);
    changed_.wait_for(lock, std::clamp(to_watermark, idle_pause, std::max(idle_pause, longest_pause)));
  }
}

/// Goes on where it last stopped, one turn at most. Returns how many bytes it took out of the address ranges.
std::uint64_t KernelBudget::evict(std::uint64_t wanted) {
  std::uint64_t evicted = 0;
  std::size_t finished = 0;
  while (evicted < wanted && finished <= regions_.size()) {
    hand_region_ %= regions_.size();
    const Watched& region = regions_[hand_region_];
    const auto swept = region.mapping->sweep(hand_offset_, wanted - evicted, present_);
    drop_file(*region.mapping, hand_offset_, swept.next);
    evicted += swept.bytes;
    const std::uint64_t pages = (swept.bytes + region.mapping->page_bytes() - 1) / region.mapping->page_bytes();
    region.counters->add(Counter::evictions, pages);
    counters_.add(Counter::evictions, pages);
    hand_offset_ = swept.next;
    if (swept.next >= region.mapping->file_bytes()) {
      ++hand_region_;
      ++finished;
      hand_offset_ = 0;
    }
  }
  return evicted;
}

void KernelBudget::drop_file(const KernelMapping& mapping, std::uint64_t from, std::uint64_t to) {
  if (from < to) {
    dropper_.drop(mapping.store(), mapping.file_descriptor(), mapping.file_offset(from), to - from);
  }
}

void KernelBudget::set_budget_bytes(std::uint64_t bytes) {
  if (bytes < least_budget_bytes) {
    throw OptionError("budget " + format_size(bytes) + " is under the least of " + format_size(least_budget_bytes) +
                      ": give more");
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t old = budget_.exchange(bytes);
  std::uint64_t resident = regions_.empty() ? 0 : calibrate();
  // More than once, since the program goes on touching pages.
  for (int turn = 0; resident > bytes && turn < 8; ++turn) {
    evict(resident - room_bytes());
    resident = calibrate();
  }
  if (resident > bytes) {
    budget_ = old;
    throw Error(
        ENOMEM,
        "budget " + format_size(bytes) + " is under the " + format_size(resident) +
            " that the kernel does not give up (pinned pages, pages written in private regions, or pages touched "
            "again meanwhile): unpin, unmap, or try again");
  }
  counters_.budget_bytes = bytes;
  changed_.notify_all();
}

void KernelBudget::give_up(KernelMapping& mapping, ByteRange range) {
  const ByteRange part = mapping.file_part(range);
  mapping.release(part);
  drop_file(mapping, part.offset, part.offset + part.bytes);
}

}  // namespace tiermap
