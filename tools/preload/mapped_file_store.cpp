#include "preload/mapped_file_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "preload/kernel_calls.hpp"
#include "store/file_transfer.hpp"
#include "tiermap/error.hpp"

namespace tiermap::preload {

MappedFileStore::MappedFileStore(int program_descriptor, const std::string& path)
    : program_descriptor_(::fcntl(program_descriptor, F_DUPFD_CLOEXEC, 0)) {
  if (!program_descriptor_.valid()) {
    throw StoreError(errno, "cannot keep " + path + " open: close files, or raise the limit of open files");
  }
}

void MappedFileStore::open(const std::string& path, bool writable) {
  // By this name also where the file has been renamed or deleted, or the program is in a changed root.
  OpenedFile opened = open_file("/proc/self/fd/" + std::to_string(program_descriptor_.get()), writable, true);
  descriptor_ = opened.file.buffered();
  direct_descriptor_ = opened.file.descriptor();
  // Of what is read from the page cache no more is to be there than that.
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
  inner_ = std::make_unique<FileStore>(path, std::move(opened), writable, FileOptions{});
}

std::uint64_t MappedFileStore::actual_bytes() const noexcept {
  const int saved = errno;
  struct stat status = {};
  const bool seen = ::fstat(descriptor_, &status) == 0;
  errno = saved;
  return seen ? static_cast<std::uint64_t>(status.st_size) : 0;
}

void MappedFileStore::note_change(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes == 0 || bytes > most_changed_blocks * block_bytes) {
    return;
  }
  for (std::uint64_t block = offset / block_bytes; block <= (offset + bytes - 1) / block_bytes; ++block) {
    changed_blocks_[block % most_changed_blocks].store(block + 1, std::memory_order_relaxed);
  }
}

// Of a longer read most is on the disk.
bool MappedFileStore::has_changed(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  constexpr std::uint64_t most_bytes = 1 << 20;
  if (bytes == 0 || bytes > most_bytes) {
    return false;
  }
  for (std::uint64_t block = offset / block_bytes; block <= (offset + bytes - 1) / block_bytes; ++block) {
    if (changed_blocks_[block % most_changed_blocks].load(std::memory_order_relaxed) == block + 1) {
      return true;
    }
  }
  return false;
}

// Of the kernel's pages those wholly past the end raise SIGBUS; of the region's pages, which may be larger, those that
// have not one byte of the file.
std::int64_t MappedFileStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (offset >= kernel::round_up(actual_bytes())) {
    return -ENODATA;
  }
  if (has_changed(offset, bytes)) {
    return read_fully(descriptor_, buffer, bytes, offset);  // From the page cache.
  }
  return inner_->read(buffer, bytes, offset);
}

std::int64_t MappedFileStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t size = actual_bytes();
  const auto inside = static_cast<std::size_t>(offset < size ? std::min<std::uint64_t>(bytes, size - offset) : 0);
  if (inside == 0) {
    return static_cast<std::int64_t>(bytes);
  }
  const std::int64_t put = inner_->write(buffer, inside, offset);
  return put == static_cast<std::int64_t>(inside) ? static_cast<std::int64_t>(bytes) : put;
}

bool MappedFileStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  return offset < kernel::round_up(actual_bytes()) && !has_changed(offset, bytes) &&
         inner_->locate_read(offset, bytes, extent);
}

bool MappedFileStore::locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept {
  const std::uint64_t size = actual_bytes();
  return bytes <= size && offset <= size - bytes && inner_->locate_write(offset, bytes, extent);
}

}  // namespace tiermap::preload
