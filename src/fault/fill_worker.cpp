#include "fault/fill_worker.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fault/page_size_choice.hpp"
#include "platform/clock.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_run_pages = 64;

/// Of so many pages read ahead one waits unmapped; in a short request the first, and the one in the middle.
std::uint32_t marker_interval(std::uint32_t pages) noexcept {
  return std::clamp<std::uint32_t>(pages / 2, 1, 16);
}

/// Whether a page is there already, for whoever wants it prefetched: one that is just being read may never be.
bool in_memory(PageWord word) noexcept {
  return word.state() != PageState::absent && word.frame() != no_frame && word.state() != PageState::filling &&
         word.state() != PageState::failed;
}

/// Whether a larger page is there in which it lies.
bool in_larger_page(const PagedRegion& region, std::uint64_t page) noexcept {
  const auto lies_in = [&](const PagedRegion& larger) {
    return larger.page_bytes > region.page_bytes &&
           in_memory(PageSizeChoice::word_at(larger, region.page_address(page)));
  };
  return region.choice != nullptr && (lies_in(region.choice->wide()) || lies_in(region.choice->large()));
}

}  // namespace

FillWorker::FillWorker(Pager& pager, unsigned depth) : pager_(pager), ring_(depth), runs_(depth + 1) {
  free_runs_.reserve(runs_.size());
  for (Run& run : runs_) {
    run.frames.reserve(most_run_pages);
    run.vectors.reserve(most_run_pages);
    free_runs_.push_back(&run);
  }
}

FillWorker::~FillWorker() {
  while (ring_.in_flight() > 0) {
    reap(1);
  }
}

FillWorker::OwnedRun FillWorker::take_run(RegionUse region, std::uint64_t first, const FillRequest& request) noexcept {
  Run& run = *free_runs_.back();
  free_runs_.pop_back();
  run.region.emplace(std::move(region));
  run.first = first;
  run.kind = request.kind;
  run.write = request.write;
  run.started_nanoseconds = request.started_nanoseconds;
  run.completion = request.completion;
  run.bytes = 0;
  return OwnedRun(&run, {this});
}

void FillWorker::recycle(Run& run) noexcept {
  run.frames.clear();
  run.vectors.clear();
  run.region.reset();
  free_runs_.push_back(&run);
}

void FillWorker::start(const FillRequest& request) {
  if (request.kind == FillKind::fault) {
    start_fault(request);
  } else {
    start_prefetch(request);
  }
}

void FillWorker::start_fault(const FillRequest& request) {
  RegionUse use = RegionUse::adopt(request.region);
  PagedRegion& region = *use;
  const std::uint64_t taken = now_nanoseconds();
  if (request.started_nanoseconds != 0) {
    pager_.record(region, Stage::queue, taken - request.started_nanoseconds);
  }
  FillFrames frames;
  while (!pager_.try_frames(region, Arrival::mapped, frames)) {
    // Our own reads hold frames: before waiting for the evictors, they must become pages that can be evicted.
    if (ring_.in_flight() > 0) {
      reap(1);
    } else if (pager_.obtain_frames(region, frames)) {
      break;
    } else {
      // A thread that could fill the page itself finds out for itself.
      pager_.abandon_fill(region, request.first, {}, request.handed_over ? 0 : -ENOMEM);
      if (request.completion != nullptr) {
        request.completion->settle(1, 0);
      }
      return;
    }
  }
  pager_.record(region, Stage::frame, now_nanoseconds() - taken);
  OwnedRun run = take_run(std::move(use), request.first, request);
  run->started_nanoseconds = request.started_nanoseconds == 0 ? taken : request.started_nanoseconds;
  run->frames.push_back(frames);
  launch(std::move(run));
}

// A prefetch waits a little for the evictors, but never for what it has itself in flight, and never makes a fault wait.
bool FillWorker::frames_for_prefetch(PagedRegion& region, Arrival arrival, FillFrames& frames) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::uint32_t epoch = pager_.supply.load(std::memory_order_acquire);
    if (pager_.waiting_for_frames.load(std::memory_order_acquire) == 0 && pager_.try_frames(region, arrival, frames)) {
      return true;
    }
    if (ring_.in_flight() > 0) {
      reap(1);
      continue;
    }
    constexpr std::int64_t patience_nanoseconds = 1'000'000;
    pager_.wait_for_supply(epoch, patience_nanoseconds);
    pager_.pass_on_supply();
    if (region.closing.load(std::memory_order_acquire)) {
      break;
    }
  }
  return false;
}

// Claims a page for prefetching, or says why not. What is claimed already (`run`) is read before any wait: faults on
// those pages wait for us.
FillWorker::Claim FillWorker::claim(PagedRegion& region, std::uint64_t page, Arrival arrival, FillFrames& frames,
                                    OwnedRun& run) {
  struct Claiming {
    explicit Claiming(std::atomic<std::uint32_t>& count) noexcept : claiming(count) { claiming.fetch_add(1); }
    ~Claiming() { claiming.fetch_sub(1); }
    std::atomic<std::uint32_t>& claiming;
  } const under_way(region.claiming);
  if (page >= region.page_count() || region.closing.load() || region.under_update(page)) {
    return Claim::not_wanted;
  }
  const PageWord now = region.table.load(page);
  if (now.state() != PageState::absent) {
    return in_memory(now) ? Claim::resident : Claim::not_wanted;
  }
  if (in_larger_page(region, page)) {
    return Claim::resident;
  }
  // Looked at once more when it is claimed; before that no page need be given up for memory that it would not use.
  if (region.choice != nullptr && region.choice->excludes(region, page)) {
    return Claim::other_size;
  }
  const bool at_hand =
      pager_.waiting_for_frames.load(std::memory_order_acquire) == 0 && pager_.try_frames(region, arrival, frames);
  if (!at_hand) {
    if (run != nullptr) {
      launch(std::move(run));
    }
    if (!frames_for_prefetch(region, arrival, frames)) {
      return Claim::no_memory;
    }
  }
  PageWord expected = now;
  if (!region.table.change(page, expected, expected.with_state(PageState::filling))) {
    pager_.return_frames(frames);
    return in_memory(expected) ? Claim::resident : Claim::not_wanted;
  }
  region.table.mark_used(page);
  if (region.choice != nullptr && region.choice->excludes(region, page)) {
    pager_.abandon_fill(region, page, frames, 0);
    return Claim::other_size;
  }
  if (region.under_update(page)) {
    pager_.abandon_fill(region, page, frames, 0);
    return Claim::not_wanted;
  }
  return Claim::claimed;
}

void FillWorker::start_prefetch(const FillRequest& request) {
  const RegionUse use = RegionUse::adopt(request.region);
  PagedRegion& region = *use;
  OwnedRun run;
  // Of what a stream has read ahead, some pages wait to be touched, to tell how far the reader is.
  std::uint32_t next_marker = request.completion == nullptr ? 0 : request.count;
  for (std::uint32_t index = 0; index < request.count; ++index) {
    const std::uint64_t page =
        request.first + static_cast<std::uint64_t>(request.step * static_cast<std::int64_t>(index));
    FillFrames frames;
    const bool is_marker = index >= next_marker;
    const Claim claimed = claim(region, page, is_marker ? Arrival::unmapped : Arrival::mapped, frames, run);
    if (is_marker && claimed == Claim::claimed) {
      next_marker = index + marker_interval(request.count);
    }
    if (claimed == Claim::no_memory) {  // Nor for those behind it: memory is for what faults now.
      if (request.completion != nullptr) {
        request.completion->settle(request.count - index, 0);
      }
      break;
    }
    if (claimed != Claim::claimed) {
      if (claimed == Claim::other_size) {
        if (run != nullptr) {
          launch(std::move(run));
        }
        prefetch_in_smaller_pages(region, page, request.completion);
      }
      if (request.completion != nullptr) {
        request.completion->settle(1, claimed == Claim::resident ? 1 : 0);
      }
      continue;
    }
    const std::uint64_t most_bytes = most_run_bytes(pager_.frames().budget_bytes());
    const bool joins = run != nullptr && page == run->first + run->frames.size() &&
                       run->frames.size() < most_run_pages &&
                       (run->frames.size() + 1) * region.page_bytes <= most_bytes;
    if (!joins) {
      if (run != nullptr) {
        launch(std::move(run));
      }
      run = take_run(RegionUse(region), page, request);
    }
    run->frames.push_back(frames);
  }
  if (run != nullptr) {
    launch(std::move(run));
  }
}

// Some of the page is there in another size: what is missing is read in the next smaller one.
void FillWorker::prefetch_in_smaller_pages(PagedRegion& region, std::uint64_t page, PrefetchState* completion) {
  const PageSizeChoice& choice = *region.choice;
  if (&region == &choice.small() || choice.is_wide(region.page_address(page))) {
    return;
  }
  PagedRegion& smaller = &region == &choice.wide() ? choice.large() : choice.small();
  smaller.users.fetch_add(1, std::memory_order_acq_rel);
  const unsigned shift = region.page_shift - smaller.page_shift;
  const std::uint32_t count = std::uint32_t{1} << shift;
  if (completion != nullptr) {
    completion->expect(count);
  }
  start_prefetch({.region = &smaller,
                  .first = page << shift,
                  .count = count,
                  .kind = FillKind::prefetch,
                  .completion = completion});
}

// Hands the run to the kernel if one extent holds at least its first page whole; what is behind the extent is read at
// once.
void FillWorker::launch(OwnedRun run) {
  PagedRegion& region = **run->region;
  if (region.reads_may_block()) {
    // It may take as long as it likes: what others wait for comes first.
    while (ring_.in_flight() > 0) {
      reap(1);
    }
  }
  run->read_nanoseconds = now_nanoseconds();
  std::uint64_t wanted = 0;
  for (std::size_t index = 0; index < run->frames.size(); ++index) {
    wanted += region.page_mapped(run->first + index);
  }
  Extent extent;
  std::size_t pages = 0;
  if (ring_.asynchronous() && region.store->locate_read(region.page_offset(run->first), wanted, extent) &&
      !extent.hole) {
    while (pages < run->frames.size() && run->bytes + region.page_mapped(run->first + pages) <= extent.bytes) {
      const std::uint64_t bytes = region.page_mapped(run->first + pages);
      run->vectors.push_back({pager_.frames().address(run->frames[pages].data), bytes});
      run->bytes += bytes;
      ++pages;
    }
  }
  if (pages < run->frames.size()) {
    read_now(*run, pages);
    run->frames.resize(pages);
  }
  if (pages == 0) {
    return;
  }
  while (ring_.full()) {
    reap(1);
  }
  enter_traffic(region);
  run->file_descriptor = extent.file_descriptor;
  run->file_offset = extent.offset;
  const Run& under_way = *run.release();  // Until reap() has it.
  const auto token = static_cast<std::uint64_t>(&under_way - runs_.data());
  ring_.read(under_way.file_descriptor, under_way.vectors, under_way.file_offset, token);
}

// Of what the store likes to have in flight all may be our own reads, which end by our hand only.
void FillWorker::enter_traffic(PagedRegion& region) {
  while (!region.traffic->reads.try_enter()) {
    if (ring_.in_flight() == 0) {
      return region.traffic->reads.enter();
    }
    reap(1);
  }
}

void FillWorker::read_now(Run& run, std::size_t from) {
  PagedRegion& region = **run.region;
  for (std::size_t index = from; index < run.frames.size(); ++index) {
    enter_traffic(region);
    const int error =
        pager_.read_page(region, run.first + index, pager_.frames().address(run.frames[index].data), false);
    region.traffic->reads.leave();
    settle(run, index, error);
  }
}

void FillWorker::settle(Run& run, std::size_t index, int error) {
  PagedRegion& region = **run.region;
  const std::uint64_t page = run.first + index;
  const std::uint64_t read_done = now_nanoseconds();
  int result = error;
  if (error == 0) {
    result = pager_.finish_fill(region, page, run.frames[index], run.write, run.kind);
  } else {
    // Nobody faulted on a prefetched page: its error is for the first one who does.
    pager_.abandon_fill(region, page, run.frames[index], run.kind == FillKind::fault ? error : 0);
  }
  if (run.kind == FillKind::fault) {
    const std::uint64_t placed = now_nanoseconds();
    pager_.record(region, Stage::read, read_done - run.read_nanoseconds);
    pager_.record(region, Stage::place, placed - read_done);
    pager_.record(region, Stage::total, placed - run.started_nanoseconds);
  }
  if (run.completion != nullptr) {
    run.completion->settle(1, result == 0 ? 1 : 0);
  }
}

void FillWorker::finish(Run& run, std::int64_t result) {
  PagedRegion& region = **run.region;
  region.traffic->reads.leave();
  std::uint64_t left = result < 0 ? 0 : static_cast<std::uint64_t>(result);
  pager_.count(region, Counter::read_bytes, left);
  for (std::size_t index = 0; index < run.frames.size(); ++index) {
    const std::uint64_t bytes = region.page_mapped(run.first + index);
    int error = 0;
    if (left >= bytes) {
      left -= bytes;
    } else {
      // Short, or refused: the plain path knows where the store ends, falls back to buffered reads, and names the
      // error.
      left = 0;
      error = pager_.read_page(region, run.first + index, pager_.frames().address(run.frames[index].data), false);
    }
    settle(run, index, error);
  }
}

void FillWorker::reap(unsigned least) {
  for (const IoRing::Completion& completion : ring_.reap(least)) {
    const OwnedRun run(&runs_[completion.token], {this});
    finish(*run, completion.result);
  }
}

}  // namespace tiermap
