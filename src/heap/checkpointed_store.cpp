// Reading and writing; checkpointed_commit.cpp commits and recovers.
#include "heap/checkpointed_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "heap/data_ranges.hpp"
#include "store/file_transfer.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = CheckpointedStore::block_bytes;
constexpr std::uint64_t least_reach_bytes = 1ULL << 40;
constexpr std::uint32_t most_blocks_at_once = 256;

std::uint64_t blocks_of(std::uint64_t bytes) noexcept {
  return (bytes + block_bytes - 1) / block_bytes;
}

std::uint64_t reach_for(std::uint64_t bytes, const std::string& name) {
  if (bytes > largest_file_bytes / 4) {
    throw StoreError(EFBIG, name + ": " + std::to_string(bytes) + " bytes are too many: choose at most 2EiB");
  }
  return blocks_of(std::max(least_reach_bytes, bytes * 2));
}

}  // namespace

CheckpointedStore::CheckpointedStore(std::shared_ptr<Store> base, std::shared_ptr<Store> journal,
                                     std::uint64_t identity, bool writable, std::uint64_t needed_bytes)
    : base_(std::move(base)),
      writable_(writable),
      journal_(std::move(journal), identity, base_->size_bytes(), writable),
      alignment_(std::max(base_->direct_alignment(), journal_.direct_alignment())),
      size_(recorded_size(needed_bytes)),
      changes_(reach_for(std::max(base_->size_bytes(), journal_.record().size_bytes), base_->name()),
               journal_.record().generation + 1) {
  if (writable && !base_->writable()) {
    throw StoreError(EROFS, base_->name() + " cannot be written: open the heap read-only");
  }
  recover();
}

CheckpointedStore::~CheckpointedStore() {
  if (writable_) {
    close_journal();  // What cannot be noted is done again by the next opening.
  }
}

/// Fills the whole buffer, with zeros where the base ends.
std::int64_t CheckpointedStore::read_base(char* buffer, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    const std::int64_t got = base_->read(buffer + done, bytes - done, offset + done);
    if (got == -EINTR) {
      continue;
    }
    if (got < 0 || got > static_cast<std::int64_t>(bytes - done)) {
      return got < 0 ? got : -EIO;
    }
    if (got == 0) {
      std::memset(buffer + done, 0, bytes - done);
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(bytes);
}

/// Reads from `begin` as far towards `end` as its block and those behind it are in one place; `stop` is how far.
int CheckpointedStore::read_piece(char* buffer, std::uint64_t begin, std::uint64_t end, std::uint64_t& stop) {
  const ChangedBlocks::Reading reading(changes_);
  const std::uint64_t first = begin / block_bytes;
  const BlockPlace place = changes_.place(first);
  std::uint64_t count = changes_.run_length(place, first, blocks_of(end));
  const std::uint64_t skip = begin % block_bytes;
  if (!place.is_slot()) {
    stop = std::min(end, (first + count) * block_bytes);
    if (place.is_zeros()) {
      std::memset(buffer, 0, stop - begin);
      return 0;
    }
    const std::int64_t got = read_base(buffer, stop - begin, begin);
    return got < 0 ? static_cast<int>(got) : 0;
  }
  // Blocks that a commit moves to the base meanwhile are still in these slots too.
  if (skip == 0 && end - begin >= block_bytes) {
    count = std::min(count, (end - begin) / block_bytes);
    stop = begin + count * block_bytes;
    return journal_.read(buffer, {place.slot(), static_cast<std::uint32_t>(count)});
  }
  alignas(block_bytes) char whole[block_bytes];
  stop = std::min(end, (first + 1) * block_bytes);
  const int result = journal_.read(whole, {place.slot(), 1});
  std::memcpy(buffer, whole + skip, stop - begin);
  return result;
}

std::int64_t CheckpointedStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return 0;
  }
  const std::uint64_t end = offset + std::min<std::uint64_t>(bytes, size - offset);
  std::uint64_t at = offset;
  while (at < end) {
    std::uint64_t stop = at;
    if (const int result = read_piece(static_cast<char*>(buffer) + (at - offset), at, end, stop); result < 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : result;
    }
    at = stop;
  }
  return static_cast<std::int64_t>(end - offset);
}

std::int64_t CheckpointedStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
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

/// Some of the blocks, at least one.
std::int64_t CheckpointedStore::write_blocks(const char* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t wanted = std::min<std::uint64_t>(bytes / block_bytes, most_blocks_at_once);
  const SlotRun slots = changes_.take_slots(static_cast<std::uint32_t>(wanted));
  if (slots.count == 0) {
    return -ENOSPC;
  }
  std::int64_t put = 0;
  try {
    put = journal_.write(buffer, slots);
  } catch (...) {
    put = -EIO;
  }
  const auto done = static_cast<std::uint32_t>(std::max<std::int64_t>(put, 0));
  changes_.give_back({slots.first + done, slots.count - done});
  if (put <= 0) {
    return put;
  }
  std::array<std::uint64_t, most_blocks_at_once> checksums;
  for (std::uint32_t index = 0; index < done; ++index) {
    checksums[index] = journal_checksum(std::as_bytes(std::span(buffer + index * block_bytes, block_bytes)));
  }
  changes_.publish(offset / block_bytes, {slots.first, done}, checksums);
  return static_cast<std::int64_t>(done * block_bytes);
}

std::int64_t CheckpointedStore::write_part(const char* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t block = offset / block_bytes;
  const std::lock_guard lock(block_locks_[block % block_locks_.size()]);
  alignas(block_bytes) char whole[block_bytes];
  std::uint64_t stop = 0;
  if (const int got = read_piece(whole, block * block_bytes, (block + 1) * block_bytes, stop); got < 0) {
    return got;
  }
  std::memcpy(whole + offset % block_bytes, buffer, bytes);
  const std::int64_t put = write_blocks(whole, block_bytes, block * block_bytes);
  return put < 0 ? put : static_cast<std::int64_t>(bytes);
}

int CheckpointedStore::punch(std::uint64_t offset, std::uint64_t bytes) {
  if (!writable_) {
    return -EROFS;
  }
  const std::uint64_t size = size_bytes();
  if (offset >= size || bytes == 0) {
    return 0;
  }
  const std::uint64_t end = offset + std::min(bytes, size - offset);
  // The last block of the store counts as whole.
  const std::uint64_t first = blocks_of(offset);
  const std::uint64_t last = end == size ? blocks_of(end) : end / block_bytes;
  for (std::uint64_t block = first; block < last;) {
    const BlockPlace place = changes_.place(block);
    const std::uint64_t run_end = block + changes_.run_length(place, block, last);
    if (place.is_slot()) {
      changes_.publish_zeros(block, run_end);
    } else if (!place.is_zeros()) {
      punch_base(block, run_end);
    }
    block = run_end;
  }
  return punch_parts(offset, end);
}

/// What the base has as holes is zeros already, and needs no memory to say so.
void CheckpointedStore::punch_base(std::uint64_t first, std::uint64_t last) {
  const std::uint64_t end = last * block_bytes;
  for (std::uint64_t at = first * block_bytes; at < end;) {
    const DataRange data = first_data(*base_, at, end);
    if (data.begin < data.end) {
      changes_.publish_zeros(data.begin / block_bytes, blocks_of(data.end));
    }
    at = data.end;
  }
}

/// Zeros in the blocks that [offset, end) covers in part.
int CheckpointedStore::punch_parts(std::uint64_t offset, std::uint64_t end) {
  static constexpr char zeros[block_bytes] = {};
  const std::uint64_t size = size_bytes();
  std::int64_t put = 0;
  if (const std::uint64_t head = std::min(end, blocks_of(offset) * block_bytes); head > offset) {
    put = write_part(zeros, static_cast<std::size_t>(head - offset), offset);
  }
  const std::uint64_t tail = end / block_bytes * block_bytes;
  if (put >= 0 && end != size && end > tail && tail >= offset) {
    put = write_part(zeros, static_cast<std::size_t>(end - tail), tail);
  }
  return put < 0 ? static_cast<int>(put) : 0;
}

int CheckpointedStore::resize(std::uint64_t bytes) {
  if (!writable_) {
    return -EROFS;
  }
  const std::lock_guard lock(resize_mutex_);
  const std::uint64_t before = size_bytes();
  if (blocks_of(bytes) > changes_.reach()) {
    return -EFBIG;
  }
  if (bytes < before) {
    // What is cut off is not to come back when the store grows again.
    if (const int result = punch(bytes, before - bytes); result != 0) {
      return result;
    }
  }
  size_.store(bytes, std::memory_order_release);
  return 0;
}

bool CheckpointedStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  const std::uint64_t size = size_bytes();
  if (bytes == 0) {
    return false;
  }
  if (offset >= size) {
    extent = {-1, offset, bytes, true};
    return true;
  }
  const std::uint64_t end = offset + std::min(bytes, size - offset);
  const std::uint64_t first = offset / block_bytes;
  const BlockPlace place = changes_.place(first);
  const std::uint64_t stop = std::min(end, (first + changes_.run_length(place, first, blocks_of(end))) * block_bytes);
  if (place.is_zeros()) {
    extent = {-1, offset, stop - offset, true};
    return true;
  }
  // Nobody would tell when a read from a slot is done, and the slot may be used for something else.
  return place.is_base() && base_->locate_read(offset, stop - offset, extent) && (extent.hole || align(offset, extent));
}

/// Base and journal may want different alignments; callers know of the larger one only.
bool CheckpointedStore::align(std::uint64_t offset, Extent& extent) const noexcept {
  extent.bytes -= extent.bytes % alignment_;
  return extent.bytes != 0 && offset % alignment_ == 0 && extent.offset % alignment_ == 0;
}

}  // namespace tiermap
