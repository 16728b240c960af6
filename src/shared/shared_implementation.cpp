#include "shared/shared_implementation.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "config/resolve.hpp"
#include "config/size.hpp"
#include "shared/common_addresses.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

const char* phase_text(Phase phase) noexcept {
  switch (phase) {
    case Phase::read_only:
      return "read-only";
    case Phase::local:
      return "local";
    case Phase::shared:
      break;
  }
  return "shared";
}

/// What all ranks must say alike.
std::string opening_text(const std::string& name, const ElementLayout& elements, std::optional<std::uint64_t> count,
                         const SharedVectorOptions& options) {
  return (count.has_value() ? "makes vector " : "opens vector ") + quote_value(name) + " of " +
         (count.has_value() ? std::to_string(*count) + " " : "") + "elements of " + std::to_string(elements.bytes) +
         " bytes" + (elements.kind != '\0' ? std::string(" (") + elements.kind + ")" : "") + " in pages of " +
         format_size(options.page_size_bytes) + " and stripes of " + format_size(options.stripe_bytes) +
         (options.same_address ? " at the same address" : "") +
         (options.placement == HomePlacement::by_partition ? " placed by partition" : "");
}

std::uint64_t frame_bytes(const SharedVectorOptions& options) noexcept {
  return options.budget_bytes - options.budget_bytes / 4;
}

/// The engine knows of the part of the budget alone that is for pages.
void in_words_of_budget(const std::string& name, const SharedVectorOptions& options,
                        const std::function<void()>& work) {
  try {
    work();
  } catch (const OptionError& error) {
    throw OptionError("shared vector " + quote_value(name) + ", whose pages have three quarters of its budget of " +
                          format_size(options.budget_bytes) + ": " + error.what(),
                      error.code().value());
  }
}

void check(const std::string& name, std::uint64_t element_bytes, std::optional<std::uint64_t> count,
           const SharedVectorOptions& options) {
  const std::string vector = "shared vector " + quote_value(name);
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 46;
  if (count.has_value() && (*count == 0 || *count > most_bytes / element_bytes)) {
    throw OptionError(vector + " cannot have " + std::to_string(*count) + " elements: choose 1 to " +
                      std::to_string(most_bytes / element_bytes));
  }
  if (options.page_size_bytes == 0 || options.stripe_bytes == 0 || options.stripe_bytes > most_bytes ||
      options.stripe_bytes % options.page_size_bytes != 0) {
    throw OptionError(vector + " cannot have stripes of " + format_size(options.stripe_bytes) + " with pages of " +
                      format_size(options.page_size_bytes) + ": choose a multiple of the page size, up to " +
                      format_size(most_bytes));
  }
  // What no rank can have fails here, and not when all have made it.
  RegionOptions region;
  region.page_size_bytes = options.page_size_bytes;
  static_cast<void>(resolve(region));
  CacheOptions cache;
  cache.budget_bytes = frame_bytes(options);
  in_words_of_budget(name, options, [&] { static_cast<void>(resolve(cache)); });
  if (!count.has_value() && options.placement != HomePlacement::striped) {
    throw OptionError(vector + " is a data set of its server, and stays there: leave out its placement", ENOTSUP);
  }
}

}  // namespace

SharedImplementation::SharedImplementation(std::shared_ptr<JobImplementation> job, const std::string& name,
                                           const ElementLayout& elements, std::optional<std::uint64_t> count,
                                           const SharedVectorOptions& options)
    : job_(std::move(job)),
      name_(name),
      made_(count.has_value()),
      elements_(elements),
      element_bytes_(elements.bytes),
      stripe_bytes_(options.stripe_bytes),
      page_bytes_(options.page_size_bytes) {
  job_->require_here();
  check(name, elements.bytes, count, options);
  if (options.same_address) {
    job_->require_all_ranks("have vector " + quote_value(name) + " at the same address on all of them");
  }
  job_->client().collective(opening_text(name, elements, count, options));
  job_->claim(name);
  try {
    std::shared_ptr<const StripeTable> table;
    if (options.placement == HomePlacement::by_partition) {
      table = table_by_partition(job_->client(), name, *count, elements.bytes, options.stripe_bytes);
    }
    home_ = std::make_shared<HomeClient>(
        job_->client(), HomeClient::Form{name, count.value_or(0) * elements.bytes, options.stripe_bytes,
                                         count.has_value(), options.page_size_bytes, std::move(table)});
    if (whole_bytes() == 0) {
      throw StoreError(EINVAL, "shared vector " + quote_value(name) +
                                   " is a data set of 0 bytes, and has no elements: make it longer, and open it then");
    }
    if (whole_bytes() % elements.bytes != 0) {
      throw StoreError(EINVAL, "shared vector " + quote_value(name) + " is a data set of " +
                                   std::to_string(whole_bytes()) + " bytes, no whole number of elements of " +
                                   std::to_string(elements.bytes) + " bytes: open it as a vector of what it holds");
    }
    incarnation_ = home_->incarnation();
    store_ = std::make_shared<CoherentStore>(home_, elements.bytes, options.budget_bytes / 4, options.scratch_folder);
    VectorOptions frames;
    frames.budget_bytes = frame_bytes(options);
    frames.page_size_bytes = options.page_size_bytes;
    frames.advice = options.advice;
    frames.read_ahead_bytes = options.read_ahead_bytes;
    if (options.same_address) {
      addresses_ = reserve_addresses();
      frames.address = addresses_.data();
      frames.replacement = Replacement::reservation;
    }
    in_words_of_budget(name, options, [&] { vector_ = std::make_unique<VectorStorage>(store_, elements, frames); });
  } catch (...) {
    job_->give_back(name);
    throw;
  }
  job_->add(*this);
}

AddressRange SharedImplementation::reserve_addresses() {
  try {
    return reserve_on_all_ranks(job_->client(), whole_bytes());
  } catch (const PlatformError&) {  // On every rank.
    if (made_ && job_->place().rank == 0) {
      home_->destroy();
    }
    throw;
  }
}

SharedImplementation::~SharedImplementation() {
  if (job_->in_child()) {
    return;
  }
  try {
    close();
  } catch (...) {  // Said in the header: who wants to know calls close().
    job_->remove(*this);
  }
}

template <typename Work>
void SharedImplementation::in_words_of_home(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (phase() == Phase::read_only && error.code().value() == EROFS) {  // Whatever the home said before.
      refuse_what_was_written();
    }
    if (const std::string failure = home_->failure(); !failure.empty()) {
      throw StoreError(error.code().value(), failure);
    }
    throw;
  }
}

/// Nothing tells it from what is at home, and who kept it could neither set another phase nor close the vector.
void SharedImplementation::refuse_what_was_written() {
  vector_->region().discard({0, whole_bytes()});
  throw OptionError("what was written to shared vector " + quote_value(name_) +
                        " in its read-only phase is discarded: try again, and set another phase before you write to it",
                    EROFS);
}

void SharedImplementation::require_writable() const {
  if (phase() == Phase::read_only) {
    throw OptionError("shared vector " + quote_value(name_) + " is in its read-only phase: set another one first",
                      EROFS);
  }
}

// Pages are held while their twins go, so that nobody writes to one that has none: as many at once as the region holds
// whether they were used or not.
void SharedImplementation::drop(ByteRange range) {
  job_->require_here();
  if (vector_ == nullptr) {
    return;
  }
  constexpr std::uint64_t most_pages = 4096;
  const std::uint64_t page_bytes = vector_->region().page_size_bytes();
  const std::uint64_t end = range.offset + range.bytes;
  for (std::uint64_t at = range.offset / page_bytes * page_bytes; at < end; at += most_pages * page_bytes) {
    const std::uint64_t bytes = std::min(most_pages * page_bytes, whole_bytes() - at);
    const ByteRange piece{at, std::min(bytes, (end - at + page_bytes - 1) / page_bytes * page_bytes)};
    in_words_of_home([&] {
      vector_->region().update(piece, [&] {
        store_->twins().forget(piece.offset / home_block_bytes,
                               (piece.bytes + home_block_bytes - 1) / home_block_bytes);
      });
    });
  }
}

void SharedImplementation::acquire_news() {
  {
    const PlacingGate::Pass pass(home_->gate());
    note_news();
  }
  drop_behind();
}

void SharedImplementation::note_news() {
  const std::lock_guard lock(news_mutex_);
  for (const ByteRange& range : home_->news()) {
    home_->counters().dropped_blocks.fetch_add((range.bytes + home_block_bytes - 1) / home_block_bytes,
                                               std::memory_order_relaxed);
    behind_.push_back(range);
  }
}

/// Who acquires while another thread does waits until that one has dropped what both have to.
void SharedImplementation::drop_behind() {
  const std::lock_guard dropping(drop_mutex_);
  const auto next = [this](bool done) -> std::optional<ByteRange> {
    const std::lock_guard lock(news_mutex_);
    if (done) {
      behind_.pop_front();
    }
    return behind_.empty() ? std::nullopt : std::optional(behind_.front());
  };
  for (std::optional<ByteRange> range = next(false); range.has_value(); range = next(true)) {
    drop(*range);
  }
}

void SharedImplementation::write_home() {
  job_->require_here();
  in_words_of_home([&] { vector_->region().write_back({0, whole_bytes()}); });
}

void SharedImplementation::acquire() {
  job_->require_here();
  if (phase() == Phase::shared) {
    acquire_news();
  }
}

void SharedImplementation::release() {
  if (phase() == Phase::shared) {
    write_home();
  }
}

void SharedImplementation::set_phase(Phase next) {
  const Phase before = phase();
  write_home();
  job_->client().collective("sets vector " + quote_value(name_) + " to its " + phase_text(next) + " phase");
  if (next == Phase::read_only) {
    job_->client().share_node_cache();
  }
  if (before != Phase::read_only) {
    acquire_news();
  }
  store_->fetch_by_node(next == Phase::read_only);
  if ((before == Phase::read_only) != (next == Phase::read_only)) {
    // Pages of the read-only phase have no twins, by which what is written to them could be told.
    if (before == Phase::read_only) {
      store_->keep_twins(true);
      drop({0, whole_bytes()});
    } else {
      store_->keep_twins(false);
    }
  }
  phase_.store(next, std::memory_order_release);
}

void SharedImplementation::start_together(VectorRange range) {
  const ByteRange bytes = vector_->bytes_of(range);
  if (phase() == Phase::local) {
    throw OptionError("shared vector " + quote_value(name_) +
                      " is in its local phase, in which no rank reads what others do: set another one first");
  }
  job_->require_all_ranks("have all of them read vector " + quote_value(name_) + " together");
  release();
  home_->join_tree();
  job_->client().collective("reads elements " + std::to_string(range.first) + " to " +
                            std::to_string(range.first + range.count) + " of vector " + quote_value(name_) +
                            " together");
  acquire();
  job_->client().plant_tree();
  store_->start_tree(bytes);
}

void SharedImplementation::stop_together(VectorRange range) noexcept {
  if (store_ != nullptr && !job_->in_child()) {
    store_->stop_tree({range.first * element_bytes_, range.count * element_bytes_});
  }
}

void SharedImplementation::update(VectorRange range, const std::function<void(std::byte*)>& change) {
  job_->require_here();
  require_writable();
  const ByteRange bytes = vector_->bytes_of(range);
  const std::uint64_t page_bytes = vector_->region().page_size_bytes();
  if (range.count == 0) {
    return;
  }
  if (bytes.offset / page_bytes != (bytes.offset + bytes.bytes - 1) / page_bytes) {
    throw OptionError("elements " + std::to_string(range.first) + " to " +
                      std::to_string(range.first + range.count - 1) + " of shared vector " + quote_value(name_) +
                      " lie in more than one page of " + format_size(page_bytes) +
                      ": update those of one page, or use a lock");
  }
  if (bytes.bytes > HomeClient::most_exchanged_bytes) {
    throw OptionError("elements " + std::to_string(range.first) + " to " +
                      std::to_string(range.first + range.count - 1) + " of shared vector " + quote_value(name_) +
                      " have " + std::to_string(bytes.bytes) + " bytes, and one update takes up to " +
                      format_size(HomeClient::most_exchanged_bytes) + ": update fewer, or use a lock");
  }
  std::vector<std::byte> there(bytes.bytes);
  in_words_of_home([&] {
    vector_->region().update(bytes, [&] {
      HomeClient::Version version;
      {
        const PlacingGate::Pass pass(home_->gate());
        version = home_->fetch_to_exchange(there, bytes.offset);
      }
      for (;;) {
        std::vector<std::byte> wanted = there;
        change(wanted.data());
        const std::vector<ByteRange> changed = changed_units(there, wanted, element_bytes_);
        const PlacingGate::Pass pass(home_->gate());
        if (changed.empty() || home_->exchange(there, bytes.offset, changed, wanted, version)) {
          break;
        }
      }
      store_->twins().forget(bytes.offset / page_bytes * page_bytes / home_block_bytes, page_bytes / home_block_bytes);
    });
  });
}

void SharedImplementation::copy_out(VectorRange range, std::span<std::byte> to) {
  job_->require_here();
  const ByteRange bytes = vector_->bytes_of(range);
  in_words_of_home([&] { vector_->region().write_back(bytes); });
  const PlacingGate::Pass pass(home_->gate());
  if (const int result = home_->fetch(to, bytes.offset); result != 0) {
    throw StoreError(-result, home_->failure());
  }
}

/// Another vector that is made by this name, after this one was destroyed, begins with its first place.
std::string SharedImplementation::places_name() const {
  return "places in " + name_ + " " + std::to_string(incarnation_);
}

std::uint64_t SharedImplementation::reserve(std::uint64_t count) {
  const std::uint64_t size = vector_->size();
  const std::uint64_t first = job_->client().fetch_add(places_name(), count, size);
  if (first > size || count > size - first) {
    throw OptionError("shared vector " + quote_value(name_) + " has " + std::to_string(size) + " elements, and " +
                          std::to_string(first) + " places are taken: " + std::to_string(count) +
                          " more do not fit: make it larger",
                      ENOSPC);
  }
  return first;
}

std::uint64_t SharedImplementation::appended() {
  return std::min(job_->client().fetch_add(places_name(), 0), vector_->size());
}

void SharedImplementation::close() {
  job_->require_here();
  if (vector_ == nullptr) {
    return;
  }
  in_words_of_home([&] { vector_->close(); });
  job_->remove(*this);
  if (!made_) {
    job_->give_back(name_);
  }
  vector_.reset();
}

void SharedImplementation::destroy() {
  if (!made_) {
    throw OptionError("shared vector " + quote_value(name_) +
                          " is a data set of its server, and stays: close it, and drop it with `tiermap serve drop`",
                      ENOTSUP);
  }
  if (destroyed_) {
    return;
  }
  if (vector_ != nullptr) {
    vector_->region().discard({0, whole_bytes()});
    close();
  }
  job_->client().collective("destroys vector " + quote_value(name_));
  home_->leave_tree();
  if (job_->place().rank == 0 || job_->place().goes_on) {  // More than once is as good: the first one may be lost.
    home_->destroy();
  }
  job_->client().collective("has destroyed vector " + quote_value(name_));
  job_->give_back(name_);
  destroyed_ = true;
}

SharedStatistics SharedImplementation::statistics() const {
  const HomeCounters& counters = home_->counters();
  const PlacingGate::Pass pass(home_->gate());
  const auto [score_messages, score_bytes] = home_->scores_sent();
  return {counters.fetches,
          counters.fetched_bytes,
          counters.sends,
          counters.changed_bytes,
          counters.sent_bytes,
          counters.questions,
          counters.news_bytes,
          counters.dropped_blocks,
          counters.exchanges,
          counters.retries,
          counters.pulls,
          counters.pulled_bytes,
          counters.handed_bytes,
          counters.node_bytes,
          store_->twins().memory_bytes(),
          store_->twins().spilled_bytes(),
          score_messages,
          score_bytes,
          counters.near_bytes,
          counters.placed_bytes};
}

}  // namespace tiermap
