#include "heap/heap_update.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "heap/data_ranges.hpp"
#include "heap/heap_copy.hpp"
#include "heap/heap_copy_files.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_removal.hpp"
#include "heap/saved_heap.hpp"
#include "heap/store_bytes.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t compared_at_once = 1 << 20;

/// Makes one store's bytes those of another, of the same size.
class Comparison {
 public:
  Comparison(Store& from, Store& to) : from_(from), to_(to), ours_(compared_at_once), theirs_(compared_at_once) {}

  /// Returns how many bytes were written.
  std::uint64_t run() {
    const std::uint64_t end = from_.size_bytes();
    for (std::uint64_t at = 0; at < end;) {
      const DataRange data = first_data(from_, at, end);
      make_hole(at, data.begin);
      for (at = data.begin; at < data.end;) {
        const std::uint64_t bytes = std::min(compared_at_once, data.end - at);
        write_what_differs(at, bytes);
        at += bytes;
      }
    }
    return written_;
  }

 private:
  /// Where the first has nothing. In whole blocks: a file's data ends where its last block does.
  void make_hole(std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {
      const DataRange data = first_data(to_, begin, end);
      if (data.begin < data.end) {
        punch(data.begin, data.end - data.begin);
      }
      begin = data.end;
    }
  }

  void punch(std::uint64_t at, std::uint64_t bytes) {
    if (const int result = clear_bytes(to_, at, bytes); result != 0) {
      throw_file_error(-result, to_.name(), "cannot be given holes");
    }
    written_ += bytes;
  }

  void write_what_differs(std::uint64_t at, std::uint64_t bytes) {
    const std::span ours = std::span(ours_).first(bytes);
    const std::span theirs = std::span(theirs_).first(bytes);
    read_bytes(from_, at, ours);
    read_bytes(to_, at, theirs);
    for (std::uint64_t begin = 0; begin < bytes;) {
      std::uint64_t end = begin;
      while (end < bytes && differ(ours, theirs, end)) {
        end = std::min(end + heap_block_bytes, bytes);
      }
      if (end > begin) {
        write_bytes(to_, at + begin, ours.subspan(begin, end - begin));
        written_ += end - begin;
      }
      begin = end + heap_block_bytes;
    }
  }

  static bool differ(std::span<const std::byte> ours, std::span<const std::byte> theirs, std::uint64_t at) {
    const std::size_t bytes = std::min<std::size_t>(heap_block_bytes, ours.size() - at);
    return std::memcmp(&ours[at], &theirs[at], bytes) != 0;
  }

  Store& from_;
  Store& to_;
  std::vector<std::byte> ours_;
  std::vector<std::byte> theirs_;
  std::uint64_t written_ = 0;
};

void require_copy_of(const std::string& copy, const HeapFiles& files, const HeapSuperblock& superblock) {
  const HeapSuperblock found = read_superblock(*files.data, copy);
  if (found.origin != superblock.identity || found.capacity_bytes != superblock.capacity_bytes) {
    throw StoreError(EINVAL, "heap " + copy + " is no snapshot of this heap: choose another path");
  }
  const HeapStateBlock state = read_state(*files.data, HeapLayout(found.capacity_bytes), copy);
  // Who opens one for writing gives it a journal of its own.
  if (state.state != HeapState::closed || state.generation != found.origin_generation ||
      files.journal->size_bytes() != 0) {
    throw StoreError(EINVAL, "heap " + copy + " was changed since it was a snapshot: choose another path");
  }
}

}  // namespace

std::uint64_t update_copy(Store& data, const std::string& copy, const HeapSuperblock& superblock,
                          const HeapStateBlock& state) {
  HeapFiles files = open_heap_files(copy, true);
  require_copy_of(copy, files, superblock);
  begin_update(copy);
  try {
    const std::uint64_t written = Comparison(data, *files.data).run();
    write_closed(*files.data, superblock, state);
    finish_update(copy);
    return written;
  } catch (...) {
    files.data.reset();
    remove_own_files(copy, files.directory.get());
    throw;
  }
}

}  // namespace tiermap
