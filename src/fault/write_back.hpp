// Writes pages to their stores: only the blocks that changed, neighbours in one request, many requests in flight.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fault/pager.hpp"
#include "platform/io_ring.hpp"

namespace tiermap {

/// Used by one thread. Pages added are owned by that thread (state writing or cleaning) until `finished` is called for
/// them. After its construction it neither allocates nor frees: whoever waits for a page may have been interrupted in
/// malloc().
class WriteBack {
 public:
  static constexpr std::size_t most_pages = 32;
  /// A disk gains little from more in flight.
  static constexpr unsigned most_at_once = 64;

  /// Called once for every page, with 0 or a negative errno value; must end the ownership.
  using Finished = std::function<void(PagedRegion&, std::uint64_t page, int error)>;

  /// `depth` writes at once, by a thread of the engine's; with 0 one after the other, by any thread.
  WriteBack(Pager& pager, unsigned depth);

  /// Requires pages() < most_pages.
  void add(PagedRegion& region, std::uint64_t page, FrameId frame);
  std::size_t pages() const noexcept { return pages_.size(); }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Writes what was added; returns when all of it is finished.
  void run(const Finished& finished);

 private:
  struct Page {
    PagedRegion* region;
    std::uint64_t page;
    FrameId frame;
    const std::byte* source;
    int error;
    bool changed;
  };
  struct Piece {
    std::size_t page;  ///< Index into pages_.
    std::uint64_t store_offset;
    const std::byte* source;
    std::uint64_t bytes;
    int file_descriptor;
    std::uint64_t file_offset;
  };
  struct Request {
    std::size_t first_piece;
    std::size_t pieces;
    std::uint64_t bytes;
  };

  void fill_holes() noexcept;
  void find_changes(std::size_t index);
  void add_pieces(std::size_t index, std::uint64_t first, std::uint64_t end);
  void write_through_store(std::size_t index, std::uint64_t store_offset, const std::byte* source, std::uint64_t bytes);
  void distrust(std::size_t index, std::uint64_t store_offset, std::uint64_t bytes) noexcept;
  void write_pieces();
  void join_pieces();
  void perform();
  void finish(const Request& request, std::int64_t result);
  void reap(unsigned least);

  Pager& pager_;
  const BlockHash zeros_hash_;
  IoRing ring_;
  std::vector<Page> pages_;
  std::vector<Piece> pieces_;
  std::vector<iovec> vectors_;  ///< One for each piece.
  std::vector<Request> requests_;
  std::uint64_t bytes_ = 0;
  bool succeeded_ = true;  ///< Some page of the last batch was written.
};

}  // namespace tiermap
