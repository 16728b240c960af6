#include "vector/growing_store.hpp"

#include <algorithm>
#include <utility>

#include "platform/page_sizes.hpp"
#include "store/file_store.hpp"

namespace tiermap {

GrowingStore::GrowingStore(std::shared_ptr<Store> base, std::string name)
    : base_(std::move(base)), name_(std::move(name)), limit_(base_->size_bytes()) {}

std::uint64_t GrowingStore::extend(std::uint64_t bytes, std::uint64_t most) noexcept {
  std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  do {
    if (limit > most || bytes > most - limit) {
      return no_room;
    }
  } while (!limit_.compare_exchange_weak(limit, limit + bytes, std::memory_order_acq_rel));
  return limit;
}

int GrowingStore::lengthen() {
  const std::lock_guard lock(length_mutex_);
  return make_longer(limit_bytes());
}

int GrowingStore::lengthen_to(std::uint64_t bytes) {
  const std::lock_guard lock(length_mutex_);
  return make_longer(bytes);
}

// Called with length_mutex_ held, as whoever makes the limit lower makes the store shorter with it.
int GrowingStore::make_longer(std::uint64_t bytes) {
  return base_->size_bytes() < bytes ? base_->resize(bytes) : 0;
}

int GrowingStore::cut(std::uint64_t bytes) {
  const std::lock_guard lock(length_mutex_);
  const int result = base_->resize(bytes);
  if (result == 0) {
    set_limit(bytes);
  }
  return result;
}

int GrowingStore::shorten() {
  const std::lock_guard lock(length_mutex_);
  return base_->resize(limit_bytes());
}

bool GrowingStore::map_by_kernel() {
  const bool empty = base_->size_bytes() == 0;
  // Of an empty one nobody says which file it is.
  if (dynamic_cast<FileStore*>(base_.get()) == nullptr || (empty && base_->resize(kernel_page_bytes) != 0)) {
    return false;
  }
  Extent extent;
  const bool located = base_->locate_read(0, kernel_page_bytes, extent) && !extent.hole;
  if (empty && base_->resize(0) != 0) {
    return false;
  }
  mapped_descriptor_ = located ? extent.file_descriptor : -1;
  return located;
}

int GrowingStore::resize(std::uint64_t bytes) {
  return mapped_descriptor_ >= 0 ? 0 : Store::resize(bytes);
}

std::int64_t GrowingStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  return base_->read(buffer, bytes, offset);
}

std::int64_t GrowingStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t limit = limit_bytes();
  if (offset >= limit) {
    return static_cast<std::int64_t>(bytes);
  }
  const std::size_t within = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, limit - offset));
  if (offset + within > base_->size_bytes()) {
    if (const int result = lengthen(); result != 0) {
      return result;
    }
  }
  const std::int64_t written = base_->write(buffer, within, offset);
  return written == static_cast<std::int64_t>(within) ? static_cast<std::int64_t>(bytes) : written;
}

int GrowingStore::flush() {
  const int result = lengthen();
  return result != 0 ? result : base_->flush();
}

bool GrowingStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  if (mapped_descriptor_ >= 0) {
    extent = {mapped_descriptor_, offset, bytes, false};
    return true;
  }
  return base_->locate_read(offset, bytes, extent);
}

// What reaches beyond the end of the store, or of the vector, has to come to write().
bool GrowingStore::locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept {
  return offset + bytes <= std::min(base_->size_bytes(), limit_bytes()) && base_->locate_write(offset, bytes, extent);
}

}  // namespace tiermap
