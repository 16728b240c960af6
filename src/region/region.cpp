// Region's public members: check the range, hand on.
#include "tiermap/region.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "config/size.hpp"
#include "platform/signals_blocked.hpp"
#include "region/region_implementation.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

RegionImplementation& mapped(const std::shared_ptr<RegionImplementation>& implementation) {
  if (implementation == nullptr) {
    throw OptionError("the region is not mapped: map it first, and do not use it after unmap()", EINVAL);
  }
  if (implementation->in_child()) {
    throw Error(ECHILD, "the region belongs to the process that forked this one: map the store again in the child");
  }
  return *implementation;
}

// Rounded out to whole pages, the last one as short as the region's end makes it.
ByteRange checked(const RegionImplementation& region, ByteRange range, std::uint64_t page_bytes) {
  const std::uint64_t size = region.size();
  if (range.offset > size || range.bytes > size - range.offset) {
    throw OptionError("range of " + std::to_string(range.bytes) + " bytes at " + std::to_string(range.offset) +
                          " leaves the region of " + std::to_string(size) + " bytes: choose one inside it",
                      ERANGE);
  }
  const std::uint64_t mask = page_bytes - 1;
  const std::uint64_t first = range.offset & ~mask;
  if (range.bytes == 0) {  // No page, though it may lie in the midst of one.
    return {first, 0};
  }
  const std::uint64_t end = (range.offset + range.bytes + mask) & ~mask;
  return {first, (end < size ? end : size) - first};
}
ByteRange checked(const RegionImplementation& region, ByteRange range) {
  return checked(region, range, region.page_size_bytes());
}

}  // namespace

std::uint64_t Prefetch::wait() const {
  return state_ == nullptr ? 0 : state_->wait();
}

bool Prefetch::wait_for(std::chrono::milliseconds time) const noexcept {
  // What is over already is no time, and not for ever.
  using std::chrono::milliseconds;
  using std::chrono::nanoseconds;
  constexpr auto longest = std::chrono::duration_cast<milliseconds>(nanoseconds::max());
  const nanoseconds patience = std::clamp(time, milliseconds::zero(), longest);
  return state_ == nullptr || state_->wait_for(patience.count());
}

bool Prefetch::done() const noexcept {
  return state_ == nullptr || state_->done();
}

Region::Region(std::shared_ptr<RegionImplementation> implementation) noexcept
    : implementation_(std::move(implementation)) {}
Region::Region(Region&&) noexcept = default;

Region& Region::operator=(Region&& other) noexcept {
  if (this != &other) {
    const Region old(std::move(*this));
    implementation_ = std::move(other.implementation_);
  }
  return *this;
}

Region::~Region() {
  if (implementation_ == nullptr) {
    return;
  }
  if (implementation_->in_child()) {
    // Nothing here is ours to free, and its threads did not come along: let it lie until the child ends.
    static_cast<void>(new std::shared_ptr<RegionImplementation>(std::move(implementation_)));
    return;
  }
  const SignalsBlocked quiet;
  implementation_->abandon();
}

std::byte* Region::data() const noexcept {
  return implementation_ == nullptr ? nullptr : implementation_->data();
}

std::uint64_t Region::size() const noexcept {
  return implementation_ == nullptr ? 0 : implementation_->size();
}

std::uint64_t Region::page_size_bytes() const noexcept {
  return implementation_ == nullptr ? 0 : implementation_->page_size_bytes();
}

Prefetch Region::prefetch(std::span<const ByteRange> ranges) {
  RegionImplementation& region = mapped(implementation_);
  std::vector<ByteRange> pages;
  pages.reserve(ranges.size());
  for (const ByteRange& range : ranges) {
    pages.push_back(checked(region, range, region.least_page_bytes()));
  }
  const SignalsBlocked quiet;
  return RegionImplementation::make_prefetch(region.prefetch(pages));
}

void Region::pin(ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.pin(pages);
}

void Region::unpin(ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.unpin(pages);
}

void Region::advise(Advice advice, ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.advise(advice, pages);
}

void Region::make_room(ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.make_room(pages);
}

std::uint64_t Region::pages_in_memory(ByteRange range) const {
  const RegionImplementation& region = mapped(implementation_);
  return region.pages_in_memory(checked(region, range));
}

void Region::sync(ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.sync(pages);
}

void Region::write_back(ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.write_back(pages);
}

void Region::update(ByteRange range, const std::function<void()>& change) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range, region.least_page_bytes());
  const SignalsBlocked quiet;
  region.update(pages, change);
}

bool Region::hand_over(const std::function<bool()>& replace) {
  RegionImplementation& region = mapped(implementation_);
  const SignalsBlocked quiet;
  const bool done = region.hand_over(replace);
  if (done) {
    implementation_.reset();
  }
  return done;
}

void Region::flush(ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.flush(pages);
}

void Region::discard(ByteRange range) {
  RegionImplementation& region = mapped(implementation_);
  const ByteRange pages = checked(region, range);
  const SignalsBlocked quiet;
  region.discard(pages);
}

void Region::resize(std::uint64_t length) {
  RegionImplementation& region = mapped(implementation_);
  if (length == 0) {
    throw OptionError("length 0 cannot be mapped: unmap() instead");
  }
  if (length > largest_mapping_bytes) {
    throw OptionError("length " + std::to_string(length) + " is over 64TiB: map a part");
  }
  const SignalsBlocked quiet;
  region.resize(length);
}

void Region::unmap() {
  if (implementation_ != nullptr) {
    RegionImplementation& region = mapped(implementation_);
    const SignalsBlocked quiet;
    region.unmap();
    implementation_.reset();
  }
}

Statistics Region::statistics() const {
  return mapped(implementation_).statistics();
}

}  // namespace tiermap
