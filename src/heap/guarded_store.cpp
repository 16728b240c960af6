#include "heap/guarded_store.hpp"

#include <unistd.h>

#include <cerrno>

#include "heap/store_bytes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// flush() of a store that failed once does so ever after, since what was to be written then is lost. These bytes were
/// written since, and the kernel is asked about them.
int make_durable_there(Store& store, std::uint64_t offset, std::uint64_t bytes) noexcept {
  Extent extent;
  if (!store.locate_read(offset, bytes, extent) || extent.hole || extent.file_descriptor < 0) {
    return store.flush();
  }
  return ::fdatasync(extent.file_descriptor) == 0 ? 0 : -errno;
}

}  // namespace

void GuardedStore::require_first(std::uint64_t offset, std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    first_.assign(bytes.begin(), bytes.end());
    first_offset_ = offset;
    guarded_.store(true, std::memory_order_release);
  }
  pass();
}

/// 0 if changes may be made.
int GuardedStore::pass() noexcept {
  if (!guarded_.load(std::memory_order_acquire)) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  if (!guarded_.load(std::memory_order_relaxed)) {
    return 0;
  }
  const int result = put_first();
  if (result == 0) {
    guarded_.store(false, std::memory_order_release);
  }
  return result;
}

int GuardedStore::put_first() noexcept {
  try {
    write_bytes(*base_, first_offset_, first_);
    return make_durable_there(*base_, first_offset_, first_.size());
  } catch (const Error& error) {
    return -error.code().value();
  } catch (...) {
    return -EIO;
  }
}

std::int64_t GuardedStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  const int result = pass();
  return result == 0 ? base_->write(buffer, bytes, offset) : result;
}

int GuardedStore::resize(std::uint64_t bytes) {
  const int result = pass();
  return result == 0 ? base_->resize(bytes) : result;
}

int GuardedStore::punch(std::uint64_t offset, std::uint64_t bytes) {
  const int result = pass();
  return result == 0 ? base_->punch(offset, bytes) : result;
}

}  // namespace tiermap
