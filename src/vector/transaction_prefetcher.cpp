#include "vector/transaction_prefetcher.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "platform/clock.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_window_bytes = 256 << 20;
/// With so much of the budget in use the evictors will soon be at work.
constexpr std::uint64_t full_percent = 75;
/// A vector of so much of the budget stays in memory.
constexpr std::uint64_t most_that_fits_percent = 90;
/// Beyond the window, what is needed within so many more of them is scored.
constexpr std::uint64_t windows_scored = 4;
/// Of one page so many accesses are looked at in a turn, or as many as it has elements.
constexpr std::uint64_t least_looks = 4096;
/// A window passes in so many turns.
constexpr std::uint64_t turns_a_window = 8;

std::uint64_t turn_pages(std::uint64_t window) noexcept {
  return std::max<std::uint64_t>(window / turns_a_window, 1);
}

}  // namespace

TransactionPrefetcher::TransactionPrefetcher(VectorStorage& vector, const Transaction& transaction,
                                             const TransactionOptions& options, std::uint64_t page_bytes)
    : vector_(vector),
      open_(vector.transactions()),
      transaction_(transaction),
      options_(options),
      page_bytes_(page_bytes),
      end_(vector.size()),
      tiered_(options.prefetch && vector.size() > 0 && vector.read_microseconds({0, page_bytes}) > 0) {
  open_->begin(*this, shares());
}

TransactionPrefetcher::~TransactionPrefetcher() {
  open_->end(*this, shares());
}

std::uint64_t TransactionPrefetcher::needed_until() const noexcept {
  return transaction_.position() < transaction_.length() ? end_ : 0;
}

std::uint64_t TransactionPrefetcher::turn() {
  if (!vector_.region()) {  // Records without a byte.
    return transaction_.length();
  }
  const Statistics now = vector_.region().statistics();
  const std::uint64_t window = window_pages(now);
  needs_room_ = is_full(now, window) && now[Counter::fills] != fills_;
  leave_behind();
  if (!options_.prefetch) {
    return transaction_.length();
  }
  if (is_all_there(now)) {
    return nap();
  }
  make_room(window, now);
  look_ahead(window);
  score_later(window);
  const std::uint64_t next = transaction_.position() + accesses_in(turn_pages(window));
  await_groups(next);
  keep_fetched();
  return next;
}

// After a window in which nothing had to be fetched, or a nap in which no fault fetched anything.
bool TransactionPrefetcher::is_all_there(const Statistics& now) {
  const std::uint64_t fills = std::exchange(fills_, now[Counter::fills]);
  const bool looked = !ahead_.empty() || announced_ > 0;
  if (!looked || fills != fills_) {
    quiet_turns_ = 0;
    nap_ = 0;
    return false;
  }
  ++quiet_turns_;
  return nap_ != 0 || quiet_turns_ >= turns_a_window;
}

// Where everything is in memory, to look ahead costs more than the accesses. Twice as many go by each time, but never
// more than an eighth of those there have been: what has left memory meanwhile comes by faults for so long.
std::uint64_t TransactionPrefetcher::nap() {
  const std::uint64_t position = transaction_.position();
  nap_ = std::max<std::uint64_t>(nap_ == 0 ? position / 64 : std::min(2 * nap_, position / 8), 1);
  ahead_.clear();
  expected_.clear();
  groups_.clear();
  behind_.clear();
  left_ = announced_ = std::min(position + nap_, transaction_.length());
  return left_;
}

// Half of the budget: the other half is what is being left, and what other transactions do.
std::uint64_t TransactionPrefetcher::window_pages(const Statistics& now) {
  std::uint64_t bytes = options_.window_bytes;
  if (bytes == 0) {
    bytes = std::min(now.budget_bytes / 2 / std::max<std::uint64_t>(open_->sharers(), 1), most_window_bytes);
  }
  bytes = std::min(bytes, now.budget_bytes / 4 * 3);  // Fetched for nothing would be what has no room beside it.
  return std::max<std::uint64_t>(bytes / page_bytes_, 1);
}

void TransactionPrefetcher::leave_behind() {
  if (transaction_.position() <= left_) {  // Within a nap.
    return;
  }
  std::uint64_t accesses = transaction_.position() - left_;
  left_ = transaction_.position();
  while (accesses > 0 && !ahead_.empty()) {
    PageAccesses& run = ahead_.front();
    if (run.accesses > accesses) {
      run.accesses -= accesses;
      break;
    }
    accesses -= run.accesses;
    const auto expected = expected_.find(run.page);
    if (--expected->second == 0) {
      expected_.erase(expected);
      finished_.push_back(run.page);
      behind_.push_back(run.page);
    }
    ahead_.pop_front();
  }
  announced_ = std::max(announced_, left_);  // Who makes more accesses at a time than were looked at has passed some.
  if (finished_.empty()) {
    return;
  }
  pages_left_ += finished_.size();
  collect(finished_);
  score(0);
  Region& region = vector_.region();
  for (const ByteRange& range : ranges_) {
    if (transaction_.intent() != Intent::read && needs_room_) {
      region.flush(range);
    }
    region.advise(Advice::cold, range);
  }
}

bool TransactionPrefetcher::is_full(const Statistics& now, std::uint64_t window) const noexcept {
  return now.resident_bytes + 2 * turn_pages(window) * page_bytes_ > now.budget_bytes / 100 * full_percent;
}

// What was left goes before what was fetched and not touched yet, whatever the eviction policy makes of it; the last
// ones left first, so that the next pass over the vector finds the others. What was written has some turns to get to
// the store.
void TransactionPrefetcher::make_room(std::uint64_t window, const Statistics& now) {
  const std::uint64_t group = turn_pages(window);
  const std::size_t stay = transaction_.intent() == Intent::read ? 0 : 4 * group;
  const bool fits = vector_.size() * vector_.element_bytes() <= now.budget_bytes / 100 * most_that_fits_percent;
  if (is_full(now, window) && !fits && behind_.size() > stay) {
    const auto end = behind_.end() - static_cast<std::ptrdiff_t>(stay);
    const auto first = end - static_cast<std::ptrdiff_t>(std::min<std::size_t>(2 * group, behind_.size() - stay));
    std::copy_if(first, end, std::back_inserter(finished_),
                 [&](std::uint64_t page) { return !expected_.contains(page); });
    behind_.erase(first, end);
  }
  while (behind_.size() > 4 * window) {
    behind_.pop_front();
  }
  collect(finished_);
  for (const ByteRange& range : ranges_) {
    vector_.region().make_room(range);  // The next pages will want the memory at once.
  }
}

// Where a few pages are touched again and again the window would never be full, and of one page there would be no end.
void TransactionPrefetcher::look_ahead(std::uint64_t window) {
  const std::uint64_t most_runs = 4 * window + 64;
  const std::uint64_t group = turn_pages(window);
  const std::uint64_t most_looks = std::max(page_bytes_ / vector_.element_bytes(), least_looks);
  std::uint64_t looks_at_page = 0;
  while (announced_ < transaction_.length() && expected_.size() < window && ahead_.size() < most_runs &&
         looks_at_page < most_looks) {
    const std::uint64_t before = announced_;
    const std::size_t runs_before = ahead_.size();
    runs_.clear();
    transaction_.pages(announced_, std::min(window - expected_.size(), most_runs - ahead_.size()), runs_);
    for (const PageAccesses& run : runs_) {
      announce(run);
      if (wanted_.size() >= group) {
        fetch_group();
      }
    }
    if (announced_ == before) {
      break;  // Of a class that has nothing to say: faults serve.
    }
    looks_at_page = ahead_.size() == runs_before ? looks_at_page + runs_.size() : 0;
  }
  fetch_group();
}

void TransactionPrefetcher::announce(PageAccesses run) {
  run.accesses = std::min(run.accesses, transaction_.length() - announced_);
  if (run.accesses == 0) {
    return;
  }
  if (!ahead_.empty() && ahead_.back().page == run.page) {
    ahead_.back().accesses += run.accesses;
  } else {
    ahead_.push_back(run);
    if (++expected_[run.page] == 1) {
      wanted_at_ = wanted_.empty() ? announced_ : wanted_at_;
      wanted_.push_back(run.page);
    }
  }
  announced_ += run.accesses;
}

void TransactionPrefetcher::fetch_group() {
  if (wanted_.empty()) {
    return;
  }
  Group group;
  group.pages = wanted_.size();
  group.needed_at = wanted_at_;
  collect(wanted_);
  score(1);
  group.ranges = ranges_;
  group.fetched = vector_.region().prefetch(ranges_);
  groups_.push_back(std::move(group));
}

// What does not fit into the window yet (MegaMmap, section III.D): by how much of the time until it is needed it would
// take to read a window of it from where it lies now. So what lies in a slow tier is brought nearer in time.
void TransactionPrefetcher::score_later(std::uint64_t window) {
  const bool due = scored_at_nanoseconds_ == 0 || pages_left_ - scored_at_page_ >= window;
  if (!tiered_ || !due || announced_ >= transaction_.length()) {
    return;
  }
  const double page_microseconds = microseconds_a_page();
  double until = static_cast<double>(window) * page_microseconds;
  runs_.clear();
  transaction_.pages(announced_, windows_scored * window, runs_);
  for (const PageAccesses& run : runs_) {
    const ByteRange range{run.page * page_bytes_, page_bytes_};
    const double reading = vector_.read_microseconds(range);
    until += std::max(page_microseconds, reading);
    vector_.score(range, std::min(reading * static_cast<double>(window) / until, 1.0), sharer());
  }
}

/// The program's pace since it was asked for the last time; 0 at first.
double TransactionPrefetcher::microseconds_a_page() noexcept {
  const std::uint64_t now = now_nanoseconds();
  const std::uint64_t pages = pages_left_ - std::exchange(scored_at_page_, pages_left_);
  const std::uint64_t since = std::exchange(scored_at_nanoseconds_, now);
  return since == 0 || pages == 0 ? 0 : static_cast<double>(now - since) / 1000 / static_cast<double>(pages);
}

/// Of all pages that were collected.
void TransactionPrefetcher::score(double value) noexcept {
  for (std::size_t at = 0; tiered_ && at < ranges_.size(); ++at) {
    vector_.score(ranges_[at], value, sharer());
  }
}

// A policy that holds on to what an earlier pass has left would give up what was just fetched; and what was there
// already may have been called cold when it was left the last time.
void TransactionPrefetcher::keep_fetched() {
  for (Group& group : groups_) {
    if (!group.kept && group.fetched.done()) {
      group.kept = true;
      for (const ByteRange& range : group.ranges) {
        vector_.region().advise(Advice::hot, range);
      }
    }
  }
}

// Groups that are needed before the next turn. The program would wait for their pages one by one; and would it overtake
// them, what is still to be fetched then would be fetched for nothing.
void TransactionPrefetcher::await_groups(std::uint64_t before) {
  while (!groups_.empty() && groups_.front().needed_at < before) {
    const Group& group = groups_.front();
    statistics_.pages += group.pages;
    const bool in_time = group.fetched.done();
    const std::uint64_t fetched = std::min(group.fetched.wait(), group.pages);
    statistics_.in_time += in_time ? std::min(fetched, still_there(group)) : 0;
    groups_.pop_front();
  }
}

/// Where the memory is short, not all that was fetched.
std::uint64_t TransactionPrefetcher::still_there(const Group& group) const {
  std::uint64_t pages = 0;
  for (const ByteRange& range : group.ranges) {
    pages += vector_.region().pages_in_memory(range);
  }
  return pages;
}

std::uint64_t TransactionPrefetcher::accesses_in(std::uint64_t runs) const noexcept {
  std::uint64_t accesses = 0;
  for (std::size_t at = 0; at < std::min<std::size_t>(runs, ahead_.size()); ++at) {
    accesses += ahead_[at].accesses;
  }
  return ahead_.empty() ? transaction_.length() - transaction_.position() : accesses;
}

/// Pages as byte ranges within the region, those side by side together; empties `pages`.
void TransactionPrefetcher::collect(std::vector<std::uint64_t>& pages) {
  const std::uint64_t size = vector_.region().size();
  ranges_.clear();
  for (const std::uint64_t page : pages) {
    const std::uint64_t offset = page * page_bytes_;
    if (offset >= size) {
      continue;  // Of a class that counts wrongly: what it says is a hint only.
    }
    const std::uint64_t bytes = std::min(page_bytes_, size - offset);
    if (!ranges_.empty() && ranges_.back().offset + ranges_.back().bytes == offset) {
      ranges_.back().bytes += bytes;
    } else {
      ranges_.push_back({offset, bytes});
    }
  }
  pages.clear();
}

// All that is dirty: only the program knows what it has touched, since what it is in the midst of is not counted yet.
ByteRange TransactionPrefetcher::to_write() const {
  const bool writes = transaction_.intent() != Intent::read;
  return {0, writes ? vector_.size() * vector_.element_bytes() : 0};
}

void TransactionPrefetcher::write_back() {
  if (const ByteRange range = to_write(); range.bytes != 0) {
    vector_.region().write_back(range);
  }
}

// Where there is room it may be written again before it has to leave memory.
void TransactionPrefetcher::start_writing() noexcept {
  try {
    if (const ByteRange range = to_write(); range.bytes != 0 && needs_room_) {
      vector_.region().flush(range);
    }
  } catch (const std::exception&) {  // It stays dirty, and is written when its page leaves, or at close().
  }
}

}  // namespace tiermap
