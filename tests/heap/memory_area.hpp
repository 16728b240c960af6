// A metadata area in memory, zero where nothing was written: it counts, and fails when told to.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "heap/metadata_records.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

class MemoryArea : public MetadataArea {
 public:
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  void read_record(std::uint64_t place, std::span<std::byte> bytes) override {
    const std::lock_guard held(mutex_);
    ++reads;
    for_each_piece(place, bytes.size(), [&](std::uint64_t page, std::size_t from, std::size_t count, std::size_t at) {
      const auto found = pages_.find(page);
      if (found == pages_.end()) {
        std::memset(bytes.data() + at, 0, count);
      } else {
        std::memcpy(bytes.data() + at, found->second.data() + from, count);
      }
    });
  }

  void write_record(std::uint64_t place, std::span<const std::byte> bytes) override {
    const std::lock_guard held(mutex_);
    if (writes_left == 0) {
      throw StoreError(ENOSPC, "the area is full: make room");
    }
    writes_left -= writes_left == never ? 0 : 1;
    written_bytes += bytes.size();
    for_each_piece(place, bytes.size(), [&](std::uint64_t page, std::size_t from, std::size_t count, std::size_t at) {
      std::memcpy(pages_[page].data() + from, bytes.data() + at, count);
    });
  }

  /// Places of all bytes of pages that were written.
  std::vector<std::uint64_t> written_places() const {
    std::vector<std::uint64_t> places;
    for (const auto& [page, bytes] : pages_) {
      for (std::uint64_t at = 0; at < bytes.size(); ++at) {
        places.push_back(page * bytes.size() + at);
      }
    }
    return places;
  }
  std::byte& at(std::uint64_t place) { return pages_[place / page_bytes][place % page_bytes]; }

  std::uint64_t reads = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t writes_left = never;

 private:
  static constexpr std::uint64_t page_bytes = 4096;

  template <typename Piece>
  static void for_each_piece(std::uint64_t place, std::size_t bytes, Piece&& piece) {
    for (std::size_t at = 0; at < bytes;) {
      const std::size_t from = (place + at) % page_bytes;
      const std::size_t count = std::min<std::size_t>(bytes - at, page_bytes - from);
      piece((place + at) / page_bytes, from, count, at);
      at += count;
    }
  }

  std::mutex mutex_;
  std::map<std::uint64_t, std::array<std::byte, page_bytes>> pages_;
};

/// All live blocks: offset and bytes.
template <typename Blocks>
std::map<std::uint64_t, std::uint64_t> blocks_of(Blocks& allocator) {
  std::map<std::uint64_t, std::uint64_t> blocks;
  allocator.for_each_block([&](std::uint64_t offset, std::uint64_t bytes) { blocks.emplace(offset, bytes); });
  return blocks;
}

}  // namespace tiermap
