// Putting a filled frame where the program reaches it, and taking it back.
//
// UFFDIO_MOVE hands over page-table entries, and cannot carry write-protection: a moved page arrives writable. Between
// the move and the UFFDIO_WRITEPROTECT that follows, another thread can write to it and raise no fault. Where the page
// is to be known as clean, a checksum of its blocks taken before the move is compared with one taken after the
// protection: equal proves that nothing was written, and otherwise the page is dirty. Where the fault was a write, the
// page is dirty anyway and no protection is needed. On a read-only region a difference means that the program wrote
// where it must not: the region is sealed, and the page read anew.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "cache/block_hash.hpp"
#include "fault/pager.hpp"
#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "platform/raise_access_error.hpp"

namespace tiermap {

void Pager::hash_frame(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept {
  FrameRecord& record = frames_.record(frame);
  if (!record.hashed) {
    hash_blocks(frames_.address(frame), region.page_mapped(page), frames_.hashes(frame));
    record.hashed = true;
  }
}

// A fault there would wait for a manager, and that may be waiting for this page's frame.
void Pager::fill_holes(PagedRegion& region, const std::byte* address, std::uint64_t bytes) noexcept {
  alignas(block_bytes) static constexpr std::byte zeros[block_bytes] = {};
  std::array<unsigned char, 512> resident;
  for (std::uint64_t done = 0; done < bytes; done += resident.size() * block_bytes) {
    std::byte* const start = const_cast<std::byte*>(address) + done;
    const std::uint64_t looked_at = std::min<std::uint64_t>(bytes - done, resident.size() * block_bytes);
    if (::mincore(start, looked_at, resident.data()) != 0) {
      return;
    }
    for (std::uint64_t offset = 0; offset < looked_at; offset += block_bytes) {
      if ((resident[offset / block_bytes] & 1U) == 0) {  // Or swapped out: what is there the kernel leaves as it is.
        region.userfaultfd->copy(start + offset, zeros, block_bytes, true);
      }
    }
  }
}

int Pager::place(PagedRegion& region, std::uint64_t page, FillFrames frames, bool write, PageState& state) noexcept {
  return frames.token != no_frame ? place_by_copy(region, page, frames, write, state)
                                  : place_by_move(region, page, frames.data, write, true, state);
}

// The kernel moves pages only between ranges that are both locked in memory or both not. What a budget pages cannot be
// locked: pin() is for that.
void Pager::unlock(PagedRegion& region) noexcept {
  unlock_pages(region.memory, round_up(region.length.load(), block_bytes));
  unlock_pages(region.arena->memory.data(), region.arena->memory.size());
}

// Moves, and waits out pins. On failure the page's bytes are all in the frame again.
int Pager::move_in(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept {
  std::byte* destination = region.page_address(page);
  std::byte* source = frames_.address(frame);
  const std::uint64_t bytes = region.page_mapped(page);
  std::uint64_t done = 0;
  std::uint64_t retries = 0;
  bool cleared = false;
  bool unlocked = false;
  for (int attempt = 0;; ++attempt) {
    std::size_t moved = 0;
    const int error = region.userfaultfd->move(destination + done, source + done, bytes - done, moved, retries);
    done += moved;
    if (error == 0) {
      break;
    }
    if (error == -EEXIST && !std::exchange(cleared, true)) {
      // We own the page and know it to be absent: whatever lies there (a lifted error's marker) is not ours to keep.
      drop_pages(destination + done, bytes - done);
    } else if (error == -EINVAL && !region.sealed.load(std::memory_order_acquire) && !std::exchange(unlocked, true)) {
      unlock(region);
    } else if (error == -EBUSY && attempt < 5000) {
      const timespec pause{0, 1'000'000};
      ::nanosleep(&pause, nullptr);
    } else {
      std::size_t back = 0;
      region.userfaultfd->move(source, destination, done, back, retries);
      // Sealed meanwhile: the page can come by copy now, with the frames that takes.
      return region.sealed.load(std::memory_order_acquire) ? -ESTALE : error;
    }
  }
  if (retries > 0) {
    count(region, Counter::move_retries, retries);
  }
  count(region, Counter::moves);
  return 0;
}

// After a move: write-protects the page, and tells by the frame's hashes whether somebody wrote to it before that. A
// device may still: the program's own direct I/O that took hold of the page before it was protected. So what is called
// clean is suspect.
PageState Pager::protect_and_prove(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept {
  std::byte* address = region.page_address(page);
  const std::uint64_t bytes = region.page_mapped(page);
  if (region.userfaultfd->protect(address, bytes) != 0 || blocks_differ(address, bytes, frames_.hashes(frame))) {
    region.userfaultfd->unprotect(address, bytes);
    count(region, Counter::window_writes);
    return PageState::dirty;
  }
  set_suspect(frame, region.writable);
  return PageState::clean;
}

// Somebody wrote to a page of a read-only region before it was protected. He is told late, what he wrote is dropped
// with the page, and from here on the kernel catches such writes itself.
void Pager::refuse_wild_write(PagedRegion& region, std::uint64_t page, FrameId frame) noexcept {
  std::byte* address = region.page_address(page);
  const std::uint64_t bytes = region.page_mapped(page);
  std::byte* unreported = nullptr;
  wild_write_.compare_exchange_strong(unreported, address + first_difference(address, bytes, frames_.hashes(frame)));
  seal(region);
  drop_pages(address, bytes);
  ring_evictors();
}

void Pager::report_wild_write() noexcept {
  if (std::byte* const address = wild_write_.exchange(nullptr); address != nullptr) {
    raise_access_error(address);
  }
}

// `as_stored`: the frame equals what the store holds, so that its hashes may be taken now.
int Pager::place_by_move(PagedRegion& region, std::uint64_t page, FrameId frame, bool write, bool as_stored,
                         PageState& state) noexcept {
  if (as_stored && (!write || region.tracks_blocks())) {
    hash_frame(region, page, frame);
  }
  if (const int error = move_in(region, page, frame); error != 0) {
    return error;
  }
  state = write ? PageState::dirty : protect_and_prove(region, page, frame);
  if (state == PageState::dirty && !region.writable) {
    refuse_wild_write(region, page, frame);
    return -ESTALE;
  }
  frames_.record(frame).copied = false;
  change_gauge(region, &CounterBlock::mapped_bytes, static_cast<std::int64_t>(region.page_bytes));
  return 0;
}

int Pager::place_by_copy(PagedRegion& region, std::uint64_t page, FillFrames frames, bool write,
                         PageState& state) noexcept {
  std::byte* destination = region.page_address(page);
  const std::uint64_t bytes = region.page_mapped(page);
  if (frames_.record(frames.token).populated) {
    // The copy is charged to this frame: its slot must hold nothing.
    drop_pages(frames_.address(frames.token), region.page_bytes);
    frames_.record(frames.token).populated = false;
  }
  FrameRecord& token = frames_.record(frames.token);
  token.hashed = false;
  token.assumed = !write && assumes_write(region);
  write = write || token.assumed;
  if (token.assumed || (region.writable && region.tracks_blocks())) {
    hash_blocks(frames_.address(frames.data), bytes, frames_.hashes(frames.token));
    token.hashed = true;
  }
  int error = region.userfaultfd->copy(destination, frames_.address(frames.data), bytes, !write);
  if (error == -EEXIST) {
    drop_pages(destination, bytes);
    error = region.userfaultfd->copy(destination, frames_.address(frames.data), bytes, !write);
  }
  if (error != 0) {
    return error;
  }
  token.copied = true;
  state = write ? PageState::dirty : PageState::clean;
  count(region, Counter::copies);
  change_gauge(region, &CounterBlock::mapped_bytes, static_cast<std::int64_t>(region.page_bytes));
  return 0;
}

// Moves a page that we own back into its frame: after it no thread can reach the bytes. If it cannot be done (the
// program has asynchronous I/O of its own under way on the page), the page is as it was; `restored` tells in which
// state.
int Pager::unmap(PagedRegion& region, std::uint64_t page, FrameId frame, bool was_dirty, PageState& restored) noexcept {
  std::byte* source = region.page_address(page);
  std::byte* destination = frames_.address(frame);
  const std::uint64_t bytes = region.page_mapped(page);
  std::uint64_t retries = 0;
  std::uint64_t done = 0;
  int error = 0;
  FrameRecord& record = frames_.record(frame);
  if (!was_dirty && !record.hashed && bytes > block_bytes) {  // A part that comes back will need proof.
    fill_holes(region, source, bytes);
    hash_blocks(source, bytes, frames_.hashes(frame));
    record.hashed = true;
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::size_t moved = 0;
    error = region.userfaultfd->move(destination + done, source + done, bytes - done, moved, retries);
    done += moved;
    if (error == -EINVAL) {
      unlock(region);
    } else if (error == -EEXIST) {
      // The slot of a mapped page is empty by definition; what the kernel may have put there is nobody's.
      drop_pages(destination + done, bytes - done);
    } else {
      break;
    }
  }
  if (retries > 0) {
    count(region, Counter::move_retries, retries);
  }
  if (error == 0) {
    change_gauge(region, &CounterBlock::mapped_bytes, -static_cast<std::int64_t>(region.page_bytes));
    count(region, Counter::unmaps);
    return 0;
  }
  std::size_t back = 0;
  region.userfaultfd->move(source, destination, done, back, retries);
  restored = was_dirty ? PageState::dirty : PageState::clean;
  if (!was_dirty && done > 0) {  // What was moved to and fro lost its protection.
    restored = record.hashed ? protect_and_prove(region, page, frame) : PageState::dirty;
  }
  return error;
}

}  // namespace tiermap
