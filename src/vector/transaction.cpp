#include "tiermap/transaction.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "tiermap/error.hpp"
#include "vector/pattern_accesses.hpp"
#include "vector/transaction_prefetcher.hpp"

namespace tiermap {
namespace {

/// Of one that is empty, and stays so, there is no region.
std::uint64_t page_bytes_of(VectorStorage& vector) {
  vector.require_open();
  return vector.region() ? vector.region().page_size_bytes() : 1;
}

}  // namespace

std::uint64_t accesses_of(VectorStorage& vector, const Strided& pattern) {
  static_cast<void>(vector.bytes_of(pattern.range));
  if (pattern.stride == 0) {
    throw OptionError("stride 0 goes nowhere: choose 1 or more");
  }
  return pattern.range.count / pattern.stride + (pattern.range.count % pattern.stride != 0 ? 1 : 0);
}

std::uint64_t accesses_of(VectorStorage& vector, const Random& pattern) {
  static_cast<void>(vector.bytes_of(pattern.range));
  if (pattern.range.count == 0 && pattern.accesses != 0) {
    throw OptionError(std::to_string(pattern.accesses) +
                      " random elements cannot be had of a range of none: choose one "
                      "that is not empty");
  }
  return pattern.accesses;
}

std::uint64_t end_of(const Strided& pattern) noexcept {
  const std::uint64_t count = pattern.range.count;
  return pattern.range.first + (count == 0 ? 0 : count - (count - 1) % pattern.stride);
}

Transaction::Transaction(VectorStorage& vector, Intent intent, std::uint64_t length, const TransactionOptions& options)
    : intent_(intent),
      length_(length),
      element_bytes_(vector.element_bytes()),
      page_bytes_(page_bytes_of(vector)),
      prefetcher_(std::make_unique<TransactionPrefetcher>(vector, *this, options, page_bytes_)) {
  if (intent != Intent::read) {
    vector.require_writable();
  }
}

Transaction::~Transaction() {
  prefetcher_->start_writing();
}

void Transaction::turn() {
  next_turn_ = position_ < length_ ? prefetcher_->turn() : length_;
}

void Transaction::touches_until(std::uint64_t element) noexcept {
  prefetcher_->set_end(element);
}

void Transaction::commit() {
  prefetcher_->write_back();
}

TransactionStatistics Transaction::statistics() const noexcept {
  return prefetcher_->statistics();
}

StridedPages::StridedPages(VectorStorage& vector, Intent intent, Strided pattern, const TransactionOptions& options)
    : Transaction(vector, intent, accesses_of(vector, pattern), options),
      first_(pattern.range.first),
      stride_(std::min(pattern.stride, std::max<std::uint64_t>(pattern.range.count, 1))) {
  touches_until(end_of(pattern));
}

void StridedPages::pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const {
  for (std::uint64_t run = 0; run < count && position < length(); ++run) {
    const std::uint64_t element = first_ + position * stride_;
    const std::uint64_t page = page_of(element);
    const std::uint64_t accesses = (end_of_page(page) - element + stride_ - 1) / stride_;
    runs.push_back({page, accesses});
    position += accesses;
  }
}

RandomPages::RandomPages(VectorStorage& vector, Intent intent, Random pattern, const TransactionOptions& options)
    : Transaction(vector, intent, accesses_of(vector, pattern), options), pattern_(pattern) {
  touches_until(pattern.range.first + pattern.range.count);
}

void RandomPages::pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const {
  for (std::uint64_t run = 0; run < count && position < length(); ++run, ++position) {
    runs.push_back({page_of(element(position)), 1});
  }
}

}  // namespace tiermap
