#include "umap_interface/replaced_mapping.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>

#include "platform/address_range.hpp"
#include "store/file_descriptor.hpp"
#include "tiermap/error.hpp"

namespace tiermap::umap_interface {

namespace {

bool reserve(std::uintptr_t start, std::uintptr_t end) noexcept {
  return reserve_exactly(reinterpret_cast<void*>(start), end - start);
}

/// PROCMAP_QUERY's argument (Linux 6.11), which the C library's headers do not have yet.
struct MappingQuery {
  std::uint64_t size = sizeof(MappingQuery);
  std::uint64_t query_flags = 0;
  std::uint64_t query_address = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t flags = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device[2] = {};
  std::uint32_t name_and_build_bytes[2] = {};
  std::uint64_t name_and_build[2] = {};
};
constexpr unsigned long procmap_query = _IOWR('f', 17, MappingQuery);
constexpr std::uint64_t readable = 1;
constexpr std::uint64_t writable = 2;
constexpr std::uint64_t executable = 4;
constexpr std::uint64_t shared = 8;
constexpr std::uint64_t covering_or_next = 16;

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
  if (!query()) {
    pieces_.clear();
    read();
  }
}

// With a thousand regions in one reservation, to read of all mappings for each would take seconds.
bool ReplacedMapping::query() {
  const FileDescriptor maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  for (std::uintptr_t at = start_; at < end_;) {
    MappingQuery found;
    found.query_flags = covering_or_next;
    found.query_address = at;
    if (::ioctl(maps.get(), procmap_query, &found) != 0) {
      return errno == ENOENT;
    }
    if (found.start >= end_) {
      break;
    }
    const int protection = ((found.flags & readable) != 0 ? PROT_READ : 0) |
                           ((found.flags & writable) != 0 ? PROT_WRITE : 0) |
                           ((found.flags & executable) != 0 ? PROT_EXEC : 0);
    pieces_.push_back({std::max<std::uintptr_t>(found.start, start_), std::min<std::uintptr_t>(found.end, end_),
                       protection, found.inode == 0 && (found.flags & shared) == 0});
    at = found.end;
  }
  return true;
}

void ReplacedMapping::read() {
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
