#include "store/overlay_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_reach = 1ULL << 40;

std::string scratch_directory(const std::string& wanted) {
  if (!wanted.empty()) {
    return wanted;
  }
  const char* const variable = std::getenv("TMPDIR");
  if (variable != nullptr && *variable != '\0') {
    return variable;
  }
  return ::access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

DirectFile make_scratch(const std::string& directory, const std::string& name) {
  FileDescriptor buffered = open_nameless_file(directory);
  if (!buffered.valid()) {
    throw StoreError(errno, directory + " takes no scratch file for what is written to " + name + ": " +
                                error_text(errno) + ": set TMPDIR to a directory that can be written");
  }
  FileDescriptor direct =
      open_direct(AT_FDCWD, "/proc/self/fd/" + std::to_string(buffered.get()), buffered.get(), true);
  return DirectFile(std::move(buffered), std::move(direct));
}

std::size_t bitmap_words(std::uint64_t bytes) {
  const std::uint64_t reach = std::max(least_reach, bytes * 2);
  return static_cast<std::size_t>(reach / (OverlayStore::block_bytes * 64));
}

}  // namespace

OverlayStore::OverlayStore(std::shared_ptr<Store> base, std::uint64_t bytes, const std::string& directory)
    : base_(std::move(base)), size_(bytes), base_limit_(largest_file_bytes) {
  if (bytes > largest_file_bytes / 4) {
    throw StoreError(EFBIG, name() + ": " + std::to_string(bytes) + " bytes are too many: choose at most 2EiB");
  }
  scratch_ = make_scratch(scratch_directory(directory), base_->name());
  alignment_ = std::max(base_->direct_alignment(), scratch_.read_alignment());
  written_ = LazyArray<std::atomic<std::uint64_t>>(bitmap_words(bytes));
}

bool OverlayStore::is_written(std::uint64_t block) const noexcept {
  return (written_[static_cast<std::size_t>(block / 64)].load(std::memory_order_acquire) >> (block % 64) & 1) != 0;
}

/// Where the blocks stop being in the same place as the one at `offset`, at most `end`.
std::uint64_t OverlayStore::run_end(std::uint64_t offset, std::uint64_t end) const noexcept {
  const bool written = is_written(offset / block_bytes);
  std::uint64_t next = (offset / block_bytes + 1) * block_bytes;
  while (next < end && is_written(next / block_bytes) == written) {
    next += block_bytes;
  }
  return std::min(next, end);
}

/// Blocks [first, end).
void OverlayStore::set_written(std::uint64_t first, std::uint64_t end, bool written) noexcept {
  std::uint64_t before = written_end_.load(std::memory_order_relaxed);
  while (written && before < end && !written_end_.compare_exchange_weak(before, end, std::memory_order_relaxed)) {
  }
  for (std::uint64_t block = first; block < end; ++block) {
    std::atomic<std::uint64_t>& word = written_[static_cast<std::size_t>(block / 64)];
    const std::uint64_t bit = 1ULL << (block % 64);
    if (written) {
      word.fetch_or(bit, std::memory_order_release);
    } else {
      word.fetch_and(~bit, std::memory_order_release);
    }
  }
}

/// Fills the whole buffer, with zeros where the base ends, or fails.
std::int64_t OverlayStore::read_base(char* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t limit = base_limit_.load(std::memory_order_acquire);
  const auto wanted = static_cast<std::size_t>(offset < limit ? std::min<std::uint64_t>(bytes, limit - offset) : 0);
  std::size_t done = 0;
  while (done < wanted) {
    const std::int64_t got = base_->read(buffer + done, wanted - done, offset + done);
    if (got == -EINTR) {
      continue;
    }
    if (got < 0 || got > static_cast<std::int64_t>(wanted - done)) {
      return got < 0 ? got : -EIO;
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  std::memset(buffer + done, 0, bytes - done);
  return static_cast<std::int64_t>(bytes);
}

std::int64_t OverlayStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return 0;
  }
  const std::uint64_t end = offset + std::min<std::uint64_t>(bytes, size - offset);
  std::uint64_t at = offset;
  while (at < end) {
    char* const to = static_cast<char*>(buffer) + (at - offset);
    const std::uint64_t stop = run_end(at, end);
    const auto take = static_cast<std::size_t>(stop - at);
    const std::int64_t got = is_written(at / block_bytes) ? scratch_.read(to, take, at) : read_base(to, take, at);
    if (got < 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : got;
    }
    if (static_cast<std::size_t>(got) < take) {
      return static_cast<std::int64_t>(at - offset) + got;
    }
    at = stop;
  }
  return static_cast<std::int64_t>(end - offset);
}

std::int64_t OverlayStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return bytes == 0 ? 0 : -ENOSPC;
  }
  const std::uint64_t end = offset + std::min<std::uint64_t>(bytes, size - offset);
  std::uint64_t at = offset;
  while (at < end) {
    const char* const from = static_cast<const char*>(buffer) + (at - offset);
    const std::uint64_t whole = (end - at) / block_bytes * block_bytes;
    std::int64_t put = 0;
    if (at % block_bytes == 0 && whole > 0) {
      put = write_blocks(from, static_cast<std::size_t>(whole), at);
    } else {
      const std::uint64_t stop = std::min(end, (at / block_bytes + 1) * block_bytes);
      put = write_part(from, static_cast<std::size_t>(stop - at), at);
    }
    if (put < 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : put;
    }
    at += static_cast<std::uint64_t>(put);
  }
  return static_cast<std::int64_t>(end - offset);
}

/// Whole blocks need nothing from the base, and no lock: nobody else writes to any part of them now.
std::int64_t OverlayStore::write_blocks(const char* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::int64_t put = scratch_.write(buffer, bytes, offset);
  if (put < 0) {
    return put;
  }
  const std::uint64_t blocks = static_cast<std::uint64_t>(put) / block_bytes;
  set_written(offset / block_bytes, offset / block_bytes + blocks, true);
  // Part of a block, from a disk that filled up, does not count.
  return blocks == 0 ? -ENOSPC : static_cast<std::int64_t>(blocks * block_bytes);
}

std::int64_t OverlayStore::write_part(const char* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t block = offset / block_bytes;
  const std::lock_guard lock(block_locks_[block % block_locks_.size()]);
  if (is_written(block)) {
    return scratch_.write(buffer, bytes, offset);
  }
  alignas(block_bytes) char whole[block_bytes];
  if (const std::int64_t got = read_base(whole, block_bytes, block * block_bytes); got < 0) {
    return got;
  }
  std::memcpy(whole + offset % block_bytes, buffer, bytes);
  const std::int64_t put = scratch_.write(whole, block_bytes, block * block_bytes);
  if (put < static_cast<std::int64_t>(block_bytes)) {
    return put < 0 ? put : -ENOSPC;
  }
  set_written(block, block + 1, true);
  return static_cast<std::int64_t>(bytes);
}

bool OverlayStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  const std::uint64_t size = size_bytes();
  if (bytes == 0) {
    return false;
  }
  if (offset >= size) {
    extent = {-1, offset, bytes, true};
    return true;
  }
  const std::uint64_t stop = run_end(offset, offset + std::min(bytes, size - offset));
  if (is_written(offset / block_bytes)) {
    extent = {scratch_.descriptor(), offset, stop - offset, false};
    return align(offset, extent);
  }
  const std::uint64_t limit = base_limit_.load(std::memory_order_acquire);
  if (offset >= limit) {
    extent = {-1, offset, stop - offset, true};
    return true;
  }
  if (stop > limit) {
    return false;  // read() knows how to stop in the middle.
  }
  return base_->locate_read(offset, stop - offset, extent) && (extent.hole || align(offset, extent));
}

/// Base and scratch may want different alignments; callers know of the larger one only.
bool OverlayStore::align(std::uint64_t offset, Extent& extent) const noexcept {
  extent.bytes -= extent.bytes % alignment_;
  return extent.bytes != 0 && offset % alignment_ == 0 && extent.offset % alignment_ == 0;
}

/// Cutting the file gives its room back and makes the rest of the last block read as zeros. It never becomes longer,
/// which there may be no room for.
int OverlayStore::cut_scratch(std::uint64_t bytes, std::uint64_t whole_blocks) noexcept {
  struct stat status = {};
  if (::fstat(scratch_.buffered(), &status) != 0) {
    return -errno;
  }
  const auto end = static_cast<off_t>(bytes);
  const bool cut = end >= status.st_size ||
                   (::ftruncate(scratch_.buffered(), end) == 0 &&
                    ::ftruncate(scratch_.buffered(), std::min(static_cast<off_t>(whole_blocks), status.st_size)) == 0);
  return cut ? 0 : -errno;
}

int OverlayStore::resize(std::uint64_t bytes) {
  const std::lock_guard lock(resize_mutex_);
  const std::uint64_t before = size_bytes();
  if (bytes > written_.size() * 64 * block_bytes) {
    return -EFBIG;
  }
  if (bytes <= before) {
    const std::uint64_t blocks = (bytes + block_bytes - 1) / block_bytes;
    if (const int error = cut_scratch(bytes, blocks * block_bytes); error != 0) {
      return error;
    }
    base_limit_.store(std::min(base_limit_.load(), bytes), std::memory_order_release);
    size_.store(bytes, std::memory_order_release);
    set_written(blocks, written_end_.load(std::memory_order_acquire), false);
    return 0;
  }
  size_.store(bytes, std::memory_order_release);
  return 0;
}

}  // namespace tiermap
