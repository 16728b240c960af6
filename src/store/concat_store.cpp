#include "store/concat_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "tiermap/error.hpp"

namespace tiermap {

ConcatStore::ConcatStore(const std::vector<Part>& parts, bool writable, std::string name, const FileOptions& options)
    : writable_(writable), name_(std::move(name)), options_(options) {
  if (!allow_open_files(2 * parts.size())) {
    throw StoreError(EMFILE, name_ + ": " + std::to_string(parts.size()) +
                                 " files, two descriptors each, are more than the limit of " +
                                 std::to_string(open_files_limit()) +
                                 " open files: raise it (ulimit -Hn) or join files");
  }
  parts_.reserve(parts.size());
  for (const Part& part : parts) {
    open_part(part);
  }
  if (parts_.empty()) {
    throw StoreError(EINVAL, name_ + ": all files are empty: name one that is not");
  }
  if (writable_) {
    refuse_overlaps();
  }
}

void ConcatStore::open_part(const Part& part) {
  OpenedFile opened = open_file(part.path, writable_, options_.direct);
  const std::uint64_t behind = opened.bytes - std::min(part.offset, opened.bytes);
  if (part.offset > opened.bytes || (part.has_bytes && part.bytes > behind)) {
    throw StoreError(EINVAL,
                     part.path + " has " + std::to_string(opened.bytes) + " bytes, and " +
                         (part.has_bytes ? std::to_string(part.bytes) + " from " : std::string("a part from ")) +
                         std::to_string(part.offset) + (part.has_bytes ? " reach" : " reaches") +
                         " past its end: choose a part within the file");
  }
  const std::uint64_t bytes = part.has_bytes ? part.bytes : behind;
  if (bytes == 0) {
    return;
  }
  if (bytes > largest_file_bytes - size_) {
    throw StoreError(EFBIG, name_ + ": the parts are longer than 8EiB together: leave some out");
  }
  alignment_ = std::max(alignment_, opened.file.read_alignment());
  parts_.push_back({std::move(opened.file), size_, part.offset, bytes, opened.device, opened.inode});
  size_ += bytes;
}

void ConcatStore::refuse_overlaps() const {
  std::vector<const OpenPart*> by_place;
  for (const OpenPart& part : parts_) {
    by_place.push_back(&part);
  }
  std::sort(by_place.begin(), by_place.end(), [](const OpenPart* first, const OpenPart* second) {
    return std::tie(first->device, first->inode, first->offset) <
           std::tie(second->device, second->inode, second->offset);
  });
  for (std::size_t index = 1; index < by_place.size(); ++index) {
    const OpenPart& first = *by_place[index - 1];
    const OpenPart& second = *by_place[index];
    if (first.device == second.device && first.inode == second.inode && first.offset + first.bytes > second.offset) {
      throw StoreError(EINVAL, name_ + ": two parts overlap at offset " + std::to_string(second.offset) +
                                   " of one file: open it read-only or choose parts that do not overlap");
    }
  }
}

const ConcatStore::OpenPart& ConcatStore::part_at(std::uint64_t offset) const noexcept {
  const auto behind = std::upper_bound(parts_.begin(), parts_.end(), offset,
                                       [](std::uint64_t value, const OpenPart& part) { return value < part.start; });
  return *std::prev(behind);
}

std::int64_t ConcatStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes && offset + done < size_) {
    const OpenPart& part = part_at(offset + done);
    const std::uint64_t within = offset + done - part.start;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, part.bytes - within));
    char* const at = static_cast<char*>(buffer) + done;
    const std::int64_t got = part.file.read(at, take, part.offset + within);
    if (got < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : got;
    }
    if (static_cast<std::size_t>(got) < take) {
      // Short: the file was cut, or an error follows, which the second call brings out.
      const auto put = static_cast<std::size_t>(got);
      const std::int64_t more = part.file.read(at + put, take - put, part.offset + within + put);
      if (more < 0) {
        return static_cast<std::int64_t>(done + put) > 0 ? static_cast<std::int64_t>(done + put) : more;
      }
      if (put + static_cast<std::size_t>(more) == 0 && done == 0 && offset % write_block_bytes == 0) {
        return -EIO;  // Of whole pages there is nothing any more: as where they are read in place.
      }
      std::memset(at + put + more, 0, take - put - static_cast<std::size_t>(more));
    }
    done += take;
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t ConcatStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  if (offset >= size_ && bytes > 0) {
    return -ENOSPC;
  }
  std::size_t done = 0;
  while (done < bytes && offset + done < size_) {
    const OpenPart& part = part_at(offset + done);
    const std::uint64_t within = offset + done - part.start;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, part.bytes - within));
    const std::int64_t put = part.file.write(static_cast<const char*>(buffer) + done, take, part.offset + within);
    if (put < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : put;
    }
    done += static_cast<std::size_t>(put);
    if (static_cast<std::size_t>(put) < take) {
      break;
    }
  }
  return static_cast<std::int64_t>(done);
}

int ConcatStore::flush() {
  if (!writable_) {
    return 0;
  }
  return flushes_.run([this] {
    int result = 0;
    for (const OpenPart& part : parts_) {
      // All are tried: one bad disk must not keep the data of the others in memory.
      const int one = synchronise(part.file.buffered(), false);
      result = result == 0 ? one : result;
    }
    return result;
  });
}

bool ConcatStore::locate(std::uint64_t offset, std::uint64_t bytes, std::uint64_t alignment,
                         Extent& extent) const noexcept {
  const OpenPart& part = part_at(offset);
  const std::uint64_t within = offset - part.start;
  const std::uint64_t in_file = part.offset + within;
  const std::uint64_t take = std::min(bytes, part.bytes - within) / alignment * alignment;
  if (offset % alignment != 0 || in_file % alignment != 0 || take == 0) {
    return false;
  }
  extent = {part.file.descriptor(), in_file, take, false, true};
  return true;
}

bool ConcatStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  if (bytes != 0 && offset >= size_) {
    extent = {-1, offset, bytes, true};
    return true;
  }
  return bytes != 0 && locate(offset, bytes, alignment_, extent);
}

bool ConcatStore::locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept {
  if (!writable_ || offset >= size_) {
    return false;
  }
  const OpenPart& part = part_at(offset);
  return locate(offset, bytes, std::max<std::uint64_t>(alignment_, part.file.write_alignment()), extent);
}

}  // namespace tiermap
