#include "fault/write_back.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cache/block_hash.hpp"
#include "platform/thread_sanitizer.hpp"

namespace tiermap {
namespace {

/// Unchanged blocks between changed ones are written along when they are few: one request costs more than some blocks.
constexpr std::uint64_t gap_worth_bridging = 4 * block_bytes;
/// What no block has: which of its contents the store holds is not known, so that it counts as changed.
constexpr BlockHash unknown_hash{};
alignas(64) constexpr std::byte zeros[block_bytes] = {};
constexpr std::uint64_t most_request_bytes = 1 << 20;
constexpr std::size_t most_request_pieces = 64;
/// What does not fit is written in several rounds.
constexpr std::size_t most_pieces = 512;

}  // namespace

WriteBack::WriteBack(Pager& pager, unsigned depth)
    : pager_(pager), zeros_hash_(hash_block(zeros, block_bytes)), ring_(depth) {
  pages_.reserve(most_pages);
  pieces_.reserve(most_pieces);
  vectors_.reserve(most_pieces);
  requests_.reserve(most_pieces);
}

void WriteBack::add(PagedRegion& region, std::uint64_t page, FrameId frame) {
  pages_.push_back({&region, page, frame, pager_.write_source(region, page, frame), 0, false});
  bytes_ += region.page_bytes;
}

// Pages that follow each other at once.
void WriteBack::fill_holes() noexcept {
  std::size_t index = 0;
  while (index < pages_.size()) {
    const Page& first = pages_[index];
    PagedRegion& region = *first.region;
    std::uint64_t bytes = 0;
    while (index < pages_.size() && pages_[index].region == &region && pages_[index].source == first.source + bytes &&
           pages_[index].source == region.page_address(pages_[index].page)) {
      bytes += region.page_mapped(pages_[index].page);
      ++index;
    }
    if (bytes == 0) {
      ++index;  // In its frame, which the program has no business with.
    } else {
      Pager::fill_holes(region, first.source, bytes);
    }
  }
}

// Compares each block with its checksum, and takes the new one where they differ: the bytes cannot change until we let
// go of the page, so what is hashed is what is written. Zeros may be a hole of the store's, which is to stay one: they
// are not written along.
void WriteBack::find_changes(std::size_t index) {
  Page& page = pages_[index];
  PagedRegion& region = *page.region;
  const std::uint64_t length = region.page_length(page.page);
  FrameRecord& record = pager_.frames().record(page.frame);
  if (!record.hashed) {
    if (region.table.load(page.page).state() == PageState::cleaning) {
      // It will be suspect: it needs hashes to be compared with, taken before the write.
      hash_blocks(page.source, region.page_mapped(page.page), pager_.frames().hashes(page.frame));
      record.hashed = true;
    }
    return add_pieces(index, 0, length);
  }
  BlockHash* hashes = pager_.frames().hashes(page.frame);
  const std::uint64_t mapped = region.page_mapped(page.page);
  // A store that wants whole pages gets all of one in which anything changed.
  const bool whole = region.store->writes_whole_pages();
  const std::uint64_t bridged = whole ? mapped : gap_worth_bridging;
  std::uint64_t first = 0;
  std::uint64_t end = 0;   // The changed run so far is [first, end).
  bool bridgeable = true;  // Whatever is unchanged behind it.
  for (std::uint64_t offset = 0; offset < mapped; offset += block_bytes) {
    const BlockHash now = hash_block(page.source + offset, block_bytes);
    BlockHash& before = hashes[offset / block_bytes];
    if (now == before) {
      bridgeable = bridgeable && (whole || now != zeros_hash_);
      continue;
    }
    before = now;
    if (end == 0 || offset - end > bridged || !bridgeable) {
      add_pieces(index, first, std::min(end, length));
      first = offset;
    }
    end = offset + block_bytes;
    bridgeable = true;
  }
  if (whole && end > 0) {
    first = 0;
    end = mapped;
  }
  add_pieces(index, first, std::min(end, length));
}

void WriteBack::add_pieces(std::size_t index, std::uint64_t first, std::uint64_t end) {
  Page& page = pages_[index];
  Store& store = *page.region->store;
  const std::uint64_t start = page.region->page_offset(page.page);
  while (first < end && page.error == 0) {
    page.changed = true;
    Extent extent;
    const bool direct = ring_.asynchronous() && store.locate_write(start + first, end - first, extent) &&
                        !extent.hole && extent.bytes > 0;
    if (!direct) {
      return write_through_store(index, start + first, page.source + first, end - first);
    }
    if (pieces_.size() == most_pieces) {
      write_pieces();
    }
    const std::uint64_t bytes = std::min(extent.bytes, end - first);
    pieces_.push_back({index, start + first, page.source + first, bytes, extent.file_descriptor, extent.offset});
    first += bytes;
  }
  if (first < end) {  // Not even tried.
    distrust(index, start + first, end - first);
  }
}

// After a write that failed, whole or in part: these blocks are written again next time, and no others, which may be
// holes.
void WriteBack::distrust(std::size_t index, std::uint64_t store_offset, std::uint64_t bytes) noexcept {
  const Page& page = pages_[index];
  if (!pager_.frames().record(page.frame).hashed) {
    return;
  }
  const std::uint64_t begin = store_offset - page.region->page_offset(page.page);
  BlockHash* const hashes = pager_.frames().hashes(page.frame);
  std::fill(hashes + begin / block_bytes, hashes + (begin + bytes + block_bytes - 1) / block_bytes, unknown_hash);
}

void WriteBack::write_through_store(std::size_t index, std::uint64_t store_offset, const std::byte* source,
                                    std::uint64_t bytes) {
  Page& page = pages_[index];
  PagedRegion& region = *page.region;
  region.traffic->writes.enter();
  std::uint64_t done = 0;
  while (done < bytes && page.error == 0) {
    std::int64_t result = 0;
    try {
      const AccessesOrderedByKernel ordered;
      result = checked_result(region.store->write(source + done, bytes - done, store_offset + done), bytes - done);
    } catch (...) {
      result = -EIO;
    }
    // A store that takes nothing and names no error would keep us here for ever.
    if (result <= 0) {
      page.error = result == 0 ? -EIO : static_cast<int>(result);
    } else {
      done += static_cast<std::uint64_t>(result);
    }
  }
  if (done < bytes) {  // Also where another piece of the page has failed before, and this one was not even tried.
    distrust(index, store_offset + done, bytes - done);
  }
  region.traffic->writes.leave();
  pager_.count(region, Counter::written_bytes, done);
}

void WriteBack::join_pieces() {
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& one, const Piece& other) {
    return std::pair(one.file_descriptor, one.file_offset) < std::pair(other.file_descriptor, other.file_offset);
  });
  for (std::size_t index = 0; index < pieces_.size(); ++index) {
    const Piece& piece = pieces_[index];
    const bool joins = !requests_.empty() && requests_.back().pieces < most_request_pieces &&
                       requests_.back().bytes + piece.bytes <= most_request_bytes &&
                       pieces_[index - 1].file_descriptor == piece.file_descriptor &&
                       pieces_[index - 1].file_offset + pieces_[index - 1].bytes == piece.file_offset &&
                       pages_[pieces_[index - 1].page].region->traffic == pages_[piece.page].region->traffic;
    if (!joins) {
      requests_.push_back({index, 0, 0});
    }
    vectors_.push_back({const_cast<std::byte*>(piece.source), piece.bytes});
    Request& request = requests_.back();
    request.bytes += piece.bytes;
    ++request.pieces;
  }
}

void WriteBack::finish(const Request& request, std::int64_t result) {
  pages_[pieces_[request.first_piece].page].region->traffic->writes.leave();
  std::uint64_t left = result < 0 ? 0 : static_cast<std::uint64_t>(result);
  for (std::size_t index = 0; index < request.pieces; ++index) {
    const Piece& piece = pieces_[request.first_piece + index];
    const std::uint64_t written = std::min(left, piece.bytes);
    left -= written;
    pager_.count(*pages_[piece.page].region, Counter::written_bytes, written);
    if (written < piece.bytes) {
      // The store knows how to go on after a write that was short, or refused as by a file that takes no direct I/O
      // after all, or what the error is.
      write_through_store(piece.page, piece.store_offset + written, piece.source + written, piece.bytes - written);
    }
  }
}

void WriteBack::reap(unsigned least) {
  for (const IoRing::Completion& completion : ring_.reap(least)) {
    finish(requests_[completion.token], completion.result);
  }
}

void WriteBack::perform() {
  for (std::size_t index = 0; index < requests_.size(); ++index) {
    const Request& request = requests_[index];
    const Piece& piece = pieces_[request.first_piece];
    TrafficLimit& writes = pages_[piece.page].region->traffic->writes;
    while (ring_.full() || !writes.try_enter()) {
      if (ring_.in_flight() > 0) {
        reap(1);
      } else {
        writes.enter();
        break;
      }
    }
    ring_.write(piece.file_descriptor, std::span(vectors_).subspan(request.first_piece, request.pieces),
                piece.file_offset, index);
  }
  while (ring_.in_flight() > 0) {
    reap(1);
  }
}

void WriteBack::write_pieces() {
  join_pieces();
  perform();
  pieces_.clear();
  vectors_.clear();
  requests_.clear();
}

void WriteBack::run(const Finished& finished) {
  if (pages_.empty()) {
    return;
  }
  std::atomic<std::uint32_t>& under_way = succeeded_ ? pager_.writes_under_way : pager_.doubtful_writes_under_way;
  under_way.fetch_add(1, std::memory_order_acq_rel);
  fill_holes();
  for (std::size_t index = 0; index < pages_.size(); ++index) {
    find_changes(index);
  }
  write_pieces();
  succeeded_ = false;
  for (const Page& page : pages_) {
    succeeded_ = succeeded_ || page.error == 0;
    PagedRegion& region = *page.region;
    if (page.error != 0) {
      pager_.last_write_error.store(page.error, std::memory_order_relaxed);
      pager_.count(region, Counter::write_errors);
    } else if (std::exchange(pager_.frames().record(page.frame).assumed, false)) {
      region.write_habit.ended(page.changed);
    }
    if (page.error == 0 && page.changed) {
      pager_.last_write_error.store(0, std::memory_order_relaxed);
      pager_.count(region, Counter::write_backs);
    }
    finished(region, page.page, page.error);
  }
  under_way.fetch_sub(1, std::memory_order_acq_rel);
  pages_.clear();
  bytes_ = 0;
}

}  // namespace tiermap
