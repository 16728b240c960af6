// Reading, writing, flushing and resizing; sparse_open.cpp creates and opens.
#include "store/sparse_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tiermap {
namespace {

bool aligned(const void* buffer, std::uint64_t bytes, std::uint64_t offset, std::uint64_t alignment) {
  return (reinterpret_cast<std::uintptr_t>(buffer) | bytes | offset) % alignment == 0;
}

}  // namespace

SparseStore::~SparseStore() {
  // Closing is no promise of durability, but a size that grew should not be forgotten by a program that ends well.
  if (writable_ && size_bytes() != saved_size_) {
    flush();
  }
  for (std::size_t index = 0; index < descriptors_.size() && index * segment_bytes_ < capacity_bytes(); ++index) {
    if (const int descriptor = descriptor_of(index); descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

/// -1 while the segment is absent.
int SparseStore::descriptor_of(std::uint64_t index) const noexcept {
  return descriptors_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) - 1;
}

SparseMetadata SparseStore::metadata() const noexcept {
  return {segment_bytes_, capacity_bytes(), size_bytes(), discarding_};
}

bool SparseStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  if (bytes == 0) {
    return false;
  }
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    extent = {-1, offset, bytes, true};
    return true;
  }
  const std::uint64_t within = offset % segment_bytes_;
  std::uint64_t take = std::min({bytes, segment_bytes_ - within, size - offset});
  const int descriptor = descriptor_of(offset / segment_bytes_);
  if (descriptor < 0) {
    extent = {-1, offset, take, true};
    return true;
  }
  // The block that holds the end is left to read(), which stops at the end: the segment goes on behind it.
  take -= take % alignment_;
  if (take == 0 || within % alignment_ != 0) {
    return false;
  }
  extent = {descriptor, within, take, false};
  return true;
}

bool SparseStore::locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept {
  const std::uint64_t capacity = capacity_bytes();
  if (!writable_ || offset >= capacity || offset % alignment_ != 0) {
    return false;
  }
  const std::uint64_t within = offset % segment_bytes_;
  const std::uint64_t rest = std::min({bytes, segment_bytes_ - within, capacity - offset});
  const std::uint64_t take = rest - rest % alignment_;
  const int descriptor = take == 0 ? -1 : segment_for_write(offset / segment_bytes_);
  if (descriptor < 0) {
    return false;
  }
  raise_size(offset + take);
  extent = {descriptor, within, take, false};
  return true;
}

std::int64_t SparseStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return 0;
  }
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size - offset));
  std::size_t done = 0;
  while (done < wanted) {
    char* const at = static_cast<char*>(buffer) + done;
    const std::uint64_t within = (offset + done) % segment_bytes_;
    const std::uint64_t index = (offset + done) / segment_bytes_;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(wanted - done, segment_bytes_ - within));
    const int descriptor = descriptor_of(index);
    std::int64_t got = 0;
    if (descriptor >= 0) {
      got = aligned(at, take, within, alignment_) ? read_fully(descriptor, at, take, within)
                                                  : read_unaligned(descriptor, at, take, within);
    }
    if (got < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : got;
    }
    if (got > 0 && static_cast<std::size_t>(got) < take) {
      done += static_cast<std::size_t>(
          got);  // Either an error follows, which the next turn brings out, or the segment ends.
      continue;
    }
    if (got == 0) {
      std::memset(at, 0, take);  // Absent, or cut short by a crash: it goes on as zeros.
    }
    done += take;
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t SparseStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  const std::uint64_t capacity = capacity_bytes();
  if (offset > capacity || bytes > capacity - offset) {
    return -EFBIG;
  }
  std::size_t done = 0;
  while (done < bytes) {
    const char* const at = static_cast<const char*>(buffer) + done;
    const std::uint64_t within = (offset + done) % segment_bytes_;
    const std::uint64_t index = (offset + done) / segment_bytes_;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, segment_bytes_ - within));
    const int descriptor = segment_for_write(index);
    std::int64_t put = descriptor;
    if (descriptor >= 0) {
      put = aligned(at, take, within, alignment_) ? write_fully(descriptor, at, take, within)
                                                  : write_unaligned(index, at, take, within);
    }
    if (put < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : put;
    }
    done += static_cast<std::size_t>(put);
    raise_size(offset + done);
    if (static_cast<std::size_t>(put) < take) {
      break;
    }
  }
  return static_cast<std::int64_t>(done);
}

/// By whole blocks through a buffer that direct I/O takes. Stops short where the segment does.
std::int64_t SparseStore::read_unaligned(int descriptor, char* buffer, std::size_t bytes,
                                         std::uint64_t within) const noexcept {
  alignas(write_block_bytes) char block[write_block_bytes];
  std::size_t done = 0;
  while (done < bytes) {
    const std::uint64_t skip = (within + done) % write_block_bytes;
    const std::int64_t got = read_fully(descriptor, block, write_block_bytes, within + done - skip);
    if (got < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : got;
    }
    const auto there = static_cast<std::uint64_t>(got);
    const std::size_t take =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, there - std::min(there, skip)));
    std::memcpy(buffer + done, block + skip, take);
    done += take;
    if (there < write_block_bytes) {
      break;
    }
  }
  return static_cast<std::int64_t>(done);
}

/// Part of a block goes through the page cache, which leaves the rest of the block to others; by a descriptor opened
/// for the occasion: it is rare, and keeping a second one for each segment would halve how many segments a process can
/// have open.
std::int64_t SparseStore::write_unaligned(std::uint64_t index, const char* buffer, std::size_t bytes,
                                          std::uint64_t within) const noexcept {
  const int opened = directory_.open_segment(index, true, false);
  if (opened < 0) {
    return opened;
  }
  const FileDescriptor buffered(opened);
  ::posix_fadvise(buffered.get(), 0, 0, POSIX_FADV_RANDOM);
  return write_fully(buffered.get(), buffer, bytes, within);
}

/// The segment's descriptor, or a negative errno value. Marked before it is handed out and never unmarked, since nobody
/// tells when a write through it is done: a flush in between must not be the last to look after it.
int SparseStore::segment_for_write(std::uint64_t index) noexcept {
  used_[static_cast<std::size_t>(index)].store(1, std::memory_order_release);
  if (const int descriptor = descriptor_of(index); descriptor >= 0) {
    return descriptor;
  }
  const std::lock_guard lock(mutex_);
  if (const int descriptor = descriptor_of(index); descriptor >= 0) {
    return descriptor;
  }
  if (const int result = directory_.make_segment(index, segment_bytes_); result != 0) {
    return result;
  }
  directory_changed_ = true;
  const int descriptor = directory_.open_segment(index, true, options_.direct);
  if (descriptor >= 0) {
    descriptors_[static_cast<std::size_t>(index)].store(descriptor + 1, std::memory_order_release);
  }
  return descriptor;
}

void SparseStore::raise_size(std::uint64_t end) noexcept {
  std::uint64_t size = size_bytes();
  while (size < end && !size_.compare_exchange_weak(size, end, std::memory_order_acq_rel)) {
  }
}

int SparseStore::flush() {
  if (!writable_) {
    return 0;
  }
  int result = flushes_.run([this] { return synchronise_segments(); });
  // After the data, so that a size never promises bytes that are not there. What could not be saved is tried again.
  if (const int saved = save_metadata(); result == 0) {
    result = saved;
  }
  return result;
}

int SparseStore::synchronise_segments() noexcept {
  int result = 0;
  for (std::uint64_t index = 0; index < descriptors_.size() && index * segment_bytes_ < capacity_bytes(); ++index) {
    const int descriptor = descriptor_of(index);
    if (descriptor >= 0 && used_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) != 0) {
      const int one = synchronise(descriptor, false);
      result = result == 0 ? one : result;
    }
  }
  return result;
}

int SparseStore::save_metadata() noexcept {
  const std::lock_guard lock(mutex_);
  int result = 0;
  if (directory_changed_) {
    result = synchronise(directory_.descriptor(), true);
    directory_changed_ = result != 0;
  }
  // By the size, and not by who says that he has raised it: he may not have come to that.
  return result == 0 && size_bytes() != saved_size_ ? store_metadata() : result;
}

/// Called with mutex_ held.
int SparseStore::store_metadata() noexcept {
  const SparseMetadata now = metadata();
  const int result = store_sparse_metadata(directory_.descriptor(), now);
  saved_size_ = result == 0 ? now.size_bytes : saved_size_;
  return result;
}

int SparseStore::resize(std::uint64_t bytes) {
  if (!writable_) {
    return -EROFS;
  }
  if (bytes > largest_sparse_bytes || (bytes + segment_bytes_ - 1) / segment_bytes_ > descriptors_.size()) {
    return -EFBIG;
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t size_before = size_bytes();
  const std::uint64_t capacity_before = capacity_bytes();
  if (bytes > capacity_before && !allow_open_files((bytes + segment_bytes_ - 1) / segment_bytes_)) {
    return -EMFILE;
  }
  // The metadata goes first: from then on a crash leads to the new size, and an open finishes the cut.
  discarding_ = discarding_ || bytes <= size_before;
  capacity_.store(std::max(bytes, capacity_before));
  size_.store(bytes, std::memory_order_release);
  int result = store_metadata();
  if (result != 0) {
    size_.store(size_before, std::memory_order_release);
    capacity_.store(capacity_before);
    discarding_ = false;
    return result;
  }
  if (discarding_) {
    result = discard_past(bytes);
    if (result == 0) {
      discarding_ = false;
      result = store_metadata();
    }
  }
  return result;
}

/// A segment that is absent is zeros already.
int SparseStore::punch(std::uint64_t offset, std::uint64_t bytes) {
  if (!writable_) {
    return -EROFS;
  }
  const std::uint64_t size = size_bytes();
  const std::uint64_t end = offset + std::min(bytes, size - std::min(size, offset));
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t within = at % segment_bytes_;
    const std::uint64_t take = std::min(end - at, segment_bytes_ - within);
    const std::uint64_t index = at / segment_bytes_;
    if (const int descriptor = descriptor_of(index); descriptor >= 0) {
      used_[static_cast<std::size_t>(index)].store(1, std::memory_order_release);
      if (const int result = punch_hole(descriptor, within, take); result != 0) {
        return result;
      }
    }
    at += take;
  }
  return 0;
}

/// Gives the room of what lies past `size` back and leaves zeros. Files are emptied, not removed: a descriptor that was
/// handed out stays good.
int SparseStore::discard_past(std::uint64_t size) noexcept {
  int result = 0;
  for (std::uint64_t index = size / segment_bytes_;
       index < descriptors_.size() && index * segment_bytes_ < capacity_bytes(); ++index) {
    const int descriptor = descriptor_of(index);
    const std::uint64_t start = index * segment_bytes_;
    const std::uint64_t keep = size > start ? size - start : 0;
    if (descriptor < 0) {
      continue;
    }
    const bool cut = ::ftruncate(descriptor, static_cast<off_t>(keep)) == 0 &&
                     ::ftruncate(descriptor, static_cast<off_t>(segment_bytes_)) == 0;
    const int one = cut ? synchronise(descriptor, true) : -errno;
    result = result == 0 ? one : result;
  }
  return result;
}

}  // namespace tiermap
