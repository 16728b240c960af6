// VectorStorage's public members, and how elements are shared out.
#include "tiermap/vector.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vector/vector_implementation.hpp"

namespace tiermap {

VectorRange partition(std::uint64_t elements, std::uint64_t rank, std::uint64_t parts) {
  if (rank >= parts) {
    throw OptionError("part " + std::to_string(rank) + " of " + std::to_string(parts) +
                      " is none: parts are counted from 0");
  }
  const std::uint64_t least = elements / parts;
  const std::uint64_t larger = elements % parts;  // So many parts have one more.
  return {rank * least + std::min(rank, larger), least + (rank < larger ? 1 : 0)};
}

VectorStorage::VectorStorage(How how, const std::string& url, const ElementLayout& elements, std::uint64_t count,
                             const VectorOptions& options)
    : implementation_(std::make_unique<VectorImplementation>(how, url, elements, count, options)) {}
VectorStorage::VectorStorage(std::shared_ptr<Store> store, const ElementLayout& elements, const VectorOptions& options)
    : implementation_(std::make_unique<VectorImplementation>(std::move(store), elements, options)) {}
VectorStorage::VectorStorage(VectorStorage&&) noexcept = default;
VectorStorage& VectorStorage::operator=(VectorStorage&&) noexcept = default;
VectorStorage::~VectorStorage() = default;

VectorImplementation& VectorStorage::implementation() const {
  if (implementation_ == nullptr) {
    throw OptionError("the vector was moved to another: use that one, or open it again", EBADF);
  }
  return *implementation_;
}

std::byte* VectorStorage::data() const noexcept {
  return implementation_ == nullptr ? nullptr : implementation_->data();
}

std::uint64_t VectorStorage::size() const noexcept {
  return implementation_ == nullptr ? 0 : implementation_->size();
}

std::uint64_t VectorStorage::capacity() const noexcept {
  return implementation_ == nullptr ? 0 : implementation_->capacity();
}

bool VectorStorage::writable() const noexcept {
  return implementation_ != nullptr && implementation_->writable();
}

const std::string& VectorStorage::url() const noexcept {
  static const std::string none;
  return implementation_ == nullptr ? none : implementation_->url();
}

void VectorStorage::require_open() const {
  implementation().require_open();
}

void VectorStorage::require_writable() const {
  if (!implementation().writable()) {
    throw OptionError("vector " + url() + " is open for reading alone: open it for writing, or only read()", EROFS);
  }
}

Region& VectorStorage::region() {
  return implementation().region();
}

std::uint64_t VectorStorage::element_bytes() const {
  return implementation().element_bytes();
}

std::vector<TierReport> VectorStorage::tier_reports() const {
  require_open();
  return tiermap::tier_reports(*implementation_->store());
}

void VectorStorage::score(ByteRange range, double score, std::uint64_t sharer) noexcept {
  if (implementation_ != nullptr && implementation_->store() != nullptr) {
    implementation_->store()->score(range.offset, range.bytes, score, sharer);
  }
}

double VectorStorage::read_microseconds(ByteRange range) const noexcept {
  const bool open = implementation_ != nullptr && implementation_->store() != nullptr;
  return open ? implementation_->store()->read_microseconds(range.offset, range.bytes) : 0;
}

std::uint32_t VectorStorage::open_transactions() const {
  return implementation().transactions()->sharers();
}

std::shared_ptr<OpenTransactions> VectorStorage::transactions() const {
  return implementation().transactions();
}

void VectorStorage::leave(VectorRange range) {
  implementation().leave(range);
}

std::uint64_t VectorStorage::extend(std::uint64_t count) {
  return implementation().extend(count);
}

void VectorStorage::resize(std::uint64_t count) {
  implementation().resize(count);
}

void VectorStorage::bound_memory(std::uint64_t bytes) {
  implementation().bound_memory(bytes);
}

void VectorStorage::sync() {
  implementation().sync();
}

void VectorStorage::close() {
  if (implementation_ != nullptr) {
    implementation_->close();
  }
}

void VectorStorage::require_removable() const {
  implementation().require_removable();
}

void VectorStorage::destroy() {
  implementation().destroy();
}

ByteRange VectorStorage::bytes_of(VectorRange range) const {
  return implementation().bytes_of(range);
}

void VectorStorage::require_index(std::uint64_t index) const {
  static_cast<void>(bytes_of({index, 1}));
}

void VectorStorage::require_extents(std::span<const std::uint64_t> extents) const {
  require_open();
  std::uint64_t product = 1;
  bool overflows = false;
  for (const std::uint64_t extent : extents) {
    overflows = __builtin_mul_overflow(product, extent, &product) || overflows;
  }
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) {
    product = 0;
    overflows = false;
  }
  if (overflows || product != size()) {
    throw OptionError("vector " + url() + " has " + std::to_string(size()) + " elements, and these extents take " +
                      (overflows ? "more than can be counted" : std::to_string(product)) +
                      ": choose extents whose product is its size");
  }
}

}  // namespace tiermap
