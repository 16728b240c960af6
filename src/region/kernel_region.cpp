#include "region/kernel_region.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "config/size.hpp"
#include "platform/file_cache.hpp"
#include "platform/page_sizes.hpp"
#include "platform/populate.hpp"
#include "region/kernel_engine.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

#ifdef MADV_COLD
constexpr int advice_cold = MADV_COLD;
#else
constexpr int advice_cold = 20;
#endif

}  // namespace

KernelRegion::KernelRegion(std::shared_ptr<KernelEngine> engine, const std::shared_ptr<Store>& store,
                           const RegionOptions& options, const ResolvedRegionOptions& resolved)
    : engine_(std::move(engine)), page_bytes_(resolved.page_size_bytes) {
  mapping_ = std::make_unique<KernelMapping>(store, options, resolved);
  published_ = engine_->publication_.add_region(store->name(), mapping_->length(), page_bytes_);
  if (published_ == nullptr) {
    own_counters_ = std::make_unique<CounterBlock>();
  }
  engine_->budget_.attach(*mapping_, counters());
}

KernelRegion::~KernelRegion() {
  abandon();
}

std::shared_ptr<PrefetchState> KernelRegion::prefetch(std::span<const ByteRange> ranges) {
  const std::uint64_t room = engine_->budget_.room_bytes();
  const std::uint64_t pinned = engine_->pinned_bytes_;
  return engine_->prefetch_.add(*mapping_, counters(), engine_->publication_.cache_counters(), ranges,
                                room - std::min(room, pinned));
}

void KernelRegion::pin(ByteRange range) {
  if (range.bytes == 0) {
    return;
  }
  {
    const std::lock_guard lock(engine_->pins_mutex_);
    const std::uint64_t room = engine_->budget_.room_bytes();
    const std::uint64_t before = mapping_->pinned_bytes();
    if (!mapping_->pin(range, room - std::min(room, engine_->pinned_bytes_.load()))) {
      throw Error(ENOMEM, "cannot pin " + std::to_string(range.bytes) + " bytes beside the " +
                              format_size(engine_->pinned_bytes_) + " pinned already, of a budget of " +
                              format_size(engine_->budget_bytes()) + ": raise the budget or pin less");
    }
    engine_->pinned_bytes_ += mapping_->pinned_bytes() - before;
  }
  if (const int result = populate_pages(mapping_->data() + range.offset, round_up(range.bytes, kernel_page_bytes));
      result < 0) {
    unpin(range);
    throw Error(-result, mapping_->store()->name() + " cannot be read at " + std::to_string(range.offset) +
                             " bytes from the region's start: nothing was pinned");
  }
  // Against the kernel's own eviction, where RLIMIT_MEMLOCK allows it; ours passes over pinned pages anyway.
  ::mlock(mapping_->data() + range.offset, round_up(range.bytes, kernel_page_bytes));
}

void KernelRegion::unpin(ByteRange range) {
  if (range.bytes == 0) {
    return;
  }
  const std::lock_guard lock(engine_->pins_mutex_);
  const std::uint64_t before = mapping_->pinned_bytes();
  if (!mapping_->unpin(range)) {
    throw OptionError("range of " + std::to_string(range.bytes) + " bytes at " + std::to_string(range.offset) +
                      " is not all pinned: unpin what was pinned");
  }
  engine_->pinned_bytes_ -= before - mapping_->pinned_bytes();
  ::munlock(mapping_->data() + range.offset, round_up(range.bytes, kernel_page_bytes));
  mapping_->lock_pinned(range);
}

void KernelRegion::advise(Advice advice, ByteRange range) {
  const ByteRange part = mapping_->file_part(range);
  switch (advice) {
    case Advice::normal:
    case Advice::sequential:
    case Advice::random:
      if (range.offset == 0 && range.bytes == mapping_->length()) {
        mapping_->set_pattern(advice);
      } else {
        mapping_->set_pattern(advice, range);
      }
      break;
    case Advice::will_need:
      prefetch({&range, 1});
      break;
    case Advice::dont_need:
      engine_->budget_.give_up(*mapping_, range);
      break;
    case Advice::cold:
      ::madvise(mapping_->data() + part.offset, part.bytes, advice_cold);
      break;
    case Advice::hot:  // The kernel has no word for it.
      break;
  }
}

/// Returns 0 or a negative errno value.
int KernelRegion::write_back(ByteRange range, bool wait) noexcept {
  const ByteRange part = mapping_->file_part(range);
  if (!mapping_->to_store() || part.bytes == 0) {
    return 0;
  }
  return write_file_cache(mapping_->file_descriptor(), mapping_->file_offset(part.offset), part.bytes, wait);
}

void KernelRegion::sync(ByteRange range) {
  const ByteRange part = mapping_->file_part(range);
  if (!mapping_->to_store()) {
    return;
  }
  int result = 0;
  if (part.bytes > 0 && ::msync(mapping_->data() + part.offset, part.bytes, MS_SYNC) != 0) {
    result = -errno;
  }
  if (result == 0) {
    result = mapping_->store()->flush();
  }
  const int earlier = engine_->budget_.take_write_error(mapping_->store());
  result = result == 0 ? earlier : result;
  if (result < 0) {
    counters().add(Counter::write_errors);
    throw Error(-result, mapping_->store()->name() +
                             " could not be written: see the kernel's log, and mind that in "
                             "fault mode kernel what failed is not tried again");
  }
}

// The kernel's page cache is the store's: what is dirty is seen by everybody, and so is what others change.
void KernelRegion::write_back(ByteRange range) {
  sync(range);
}

void KernelRegion::update(ByteRange /*range*/, const std::function<void()>& change) {
  change();
}

bool KernelRegion::hand_over(const std::function<bool()>& /*replace*/) {
  throw Error(ENOTSUP, "a region of fault mode kernel is not handed over: unmap it, or use fault mode notify");
}

void KernelRegion::flush(ByteRange range) {
  write_back(range, false);
}

void KernelRegion::discard(ByteRange range) {
  if (range.bytes == 0) {
    return;
  }
  if (mapping_->shared()) {
    discard_shared(range);
  } else {
    discard_private(range);
  }
}

void KernelRegion::discard_private(ByteRange range) {
  std::byte* memory = mapping_->data() + range.offset;
  ::munlock(memory, round_up(range.bytes, kernel_page_bytes));
  if (::madvise(memory, round_up(range.bytes, kernel_page_bytes), MADV_DONTNEED) != 0) {
    throw Error(errno, "the range of " + std::to_string(range.bytes) + " bytes at " + std::to_string(range.offset) +
                           " cannot be dropped now: try again");
  }
  mapping_->lock_pinned(range);
}

void KernelRegion::discard_shared(ByteRange range) {
  const ByteRange part = mapping_->file_part(range);
  mapping_->release(part);
  const std::uint64_t offset = mapping_->file_offset(part.offset);
  if (mapping_->to_store() && file_cache_state(mapping_->file_descriptor(), offset, part.bytes) != CacheState::clean) {
    throw Error(ENOTSUP,
                "discard cannot drop what was written to " + mapping_->store()->name() +
                    " in fault mode kernel, where it is the file's at once: sync() first, or map it private_copy");
  }
  drop_file_cache(mapping_->file_descriptor(), offset, part.bytes);
}

void KernelRegion::resize(std::uint64_t length) {
  const std::lock_guard lock(write_mutex_);
  const std::uint64_t old_length = mapping_->length();
  const std::uint64_t pinned = mapping_->pinned_bytes();
  if (length < old_length) {
    if (const int result = write_back({length, old_length - length}, true); result < 0) {
      throw Error(-result, mapping_->store()->name() + " could not be written: the region keeps its length");
    }
  }
  engine_->prefetch_.cancel(*mapping_);
  // Not while pages are counted or taken out.
  engine_->budget_.detach(*mapping_);
  try {
    mapping_->resize(length);
  } catch (...) {
    engine_->budget_.attach(*mapping_, counters());
    throw;
  }
  engine_->budget_.attach(*mapping_, counters());
  if (published_ != nullptr) {
    published_->length_bytes = length;
  }
  engine_->pinned_bytes_ -= pinned - mapping_->pinned_bytes();
}

void KernelRegion::unmap() {
  const std::lock_guard lock(write_mutex_);
  if (mapping_ == nullptr) {
    return;
  }
  const int result = write_back({0, mapping_->length()}, true);
  const int earlier = mapping_->to_store() ? engine_->budget_.take_write_error(mapping_->store()) : 0;
  if (const int error = result == 0 ? earlier : result; error < 0) {
    throw Error(-error, mapping_->store()->name() +
                            " could not be written: it stays mapped, and what the kernel has dropped is lost");
  }
  take_down();
}

void KernelRegion::abandon() noexcept {
  const std::lock_guard lock(write_mutex_);
  if (mapping_ != nullptr) {
    write_back({0, mapping_->length()}, false);
    take_down();
  }
}

void KernelRegion::take_down() noexcept {
  engine_->prefetch_.cancel(*mapping_);
  engine_->budget_.detach(*mapping_);
  engine_->pinned_bytes_ -= mapping_->pinned_bytes();
  engine_->publication_.remove_region(published_);
  if (published_ != nullptr) {
    published_ = nullptr;
    own_counters_ = nullptr;
  }
  mapping_.reset();
}

Statistics KernelRegion::statistics() const {
  engine_->budget_.count_resident_bytes();
  Statistics statistics = const_cast<KernelRegion*>(this)->counters().snapshot();
  statistics.budget_bytes = engine_->budget_bytes();
  return statistics;
}

}  // namespace tiermap
