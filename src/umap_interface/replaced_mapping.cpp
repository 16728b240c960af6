#include "umap_interface/replaced_mapping.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>

#include "platform/address_range.hpp"
#include "tiermap/error.hpp"

namespace tiermap::umap_interface {

namespace {

bool reserve(std::uintptr_t start, std::uintptr_t end) noexcept {
  return reserve_exactly(reinterpret_cast<void*>(start), end - start);
}

}  // namespace

ReplacedMapping::ReplacedMapping(void* address, std::size_t bytes)
    : start_(reinterpret_cast<std::uintptr_t>(address)), end_(start_ + bytes) {
  if (reserve(start_, end_)) {
    return;
  }
  // What is there now may be more than a moment ago: of other threads, or of the look itself.
  constexpr int most_looks = 10;
  for (int looks = 0; errno == EEXIST && looks < most_looks; ++looks) {
    look();
    if (reserve_rest()) {
      return;
    }
  }
  throw PlatformError(errno, "cannot map " + std::to_string(bytes) + " bytes at " + hexadecimal(address) +
                                 ": that place may not be mapped, choose another address or none");
}

void ReplacedMapping::look() {
  pieces_.clear();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t past = 0;
    std::uint64_t inode = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %" SCNu64, &first, &past, access,
                    &inode) != 4) {
      continue;
    }
    if (first >= end_) {
      break;
    }
    if (past <= start_) {
      continue;
    }
    const int protection =
        (access[0] == 'r' ? PROT_READ : 0) | (access[1] == 'w' ? PROT_WRITE : 0) | (access[2] == 'x' ? PROT_EXEC : 0);
    pieces_.push_back({std::max(first, start_), std::min(past, end_), protection, inode == 0 && access[3] == 'p'});
  }
}

/// All or nothing.
bool ReplacedMapping::reserve_rest() const noexcept {
  std::uintptr_t at = start_;
  for (std::size_t index = 0; index <= pieces_.size(); ++index) {
    const std::uintptr_t next = index < pieces_.size() ? pieces_[index].start : end_;
    if (next > at && !reserve(at, next)) {
      const int error_number = errno;
      for (std::uintptr_t undone = start_; const Piece& piece : std::span(pieces_).first(index)) {
        if (piece.start > undone) {
          ::munmap(reinterpret_cast<void*>(undone), piece.start - undone);
        }
        undone = piece.end;
      }
      errno = error_number;
      return false;
    }
    at = index < pieces_.size() ? pieces_[index].end : end_;
  }
  return true;
}

void ReplacedMapping::give_back() const noexcept {
  std::uintptr_t at = start_;
  for (const Piece& piece : pieces_) {
    if (piece.start > at) {
      ::munmap(reinterpret_cast<void*>(at), piece.start - at);
    }
    if (piece.anonymous && piece.protection != PROT_NONE) {
      ::mprotect(reinterpret_cast<void*>(piece.start), piece.end - piece.start, piece.protection);
    }
    at = piece.end;
  }
  if (end_ > at) {
    ::munmap(reinterpret_cast<void*>(at), end_ - at);
  }
}

}  // namespace tiermap::umap_interface
