#include "region/kernel_mapping.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "platform/move_mapping.hpp"
#include "platform/page_sizes.hpp"
#include "store/file_open.hpp"
#include "store/located_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

#ifdef MADV_PAGEOUT
constexpr int advice_page_out = MADV_PAGEOUT;
#else
constexpr int advice_page_out = 21;
#endif

int protection_of(Access access) {
  return access == Access::read_write ? PROT_READ | PROT_WRITE : PROT_READ;
}

int advice_for(Advice pattern) {
  switch (pattern) {
    case Advice::sequential:
      return MADV_SEQUENTIAL;
    case Advice::random:
      return MADV_RANDOM;
    default:
      return MADV_NORMAL;
  }
}

/// Threads may be using what is there: it is mapped elsewhere first, and moved there then.
bool takes_place(const RegionOptions& options) noexcept {
  return options.address != nullptr && options.replacement == Replacement::mapping;
}

AddressRange reserve(const RegionOptions& options, std::uint64_t page_bytes) {
  const std::uint64_t bytes = round_up(std::max(options.length, options.reserve_bytes), page_bytes);
  if (options.address != nullptr && !takes_place(options)) {
    return AddressRange::reserve_at(options.address, bytes, PROT_NONE, options.replacement);
  }
  return AddressRange::reserve(bytes, std::min(page_bytes, huge_page_bytes), PROT_NONE);
}

}  // namespace

KernelMapping::KernelMapping(std::shared_ptr<Store> store, const RegionOptions& options,
                             const ResolvedRegionOptions& resolved)
    : store_(std::move(store)),
      access_(options.access),
      sharing_(options.sharing),
      page_bytes_(resolved.page_size_bytes),
      store_offset_(options.offset),
      pattern_(resolved.read_ahead_bytes == 0 ? Advice::random : options.advice) {
  const std::uint64_t size = store_->size_bytes();
  const std::uint64_t before = size > store_offset_ ? std::min(options.length, size - store_offset_) : 0;
  if (before > 0) {
    find_file(before);
  }
  range_ = reserve(options, page_bytes_);
  const std::uint64_t file_bytes = grow_store(options.length);
  try {
    if (file_bytes > 0) {
      find_file(file_bytes);
    }
    file_bytes_ = round_up(file_bytes, kernel_page_bytes);
    map_up_to(0, options.length);
    if (takes_place(options)) {
      move_to(static_cast<std::byte*>(options.address), options.length);
    }
  } catch (...) {
    if (store_->size_bytes() != size) {
      store_->resize(size);
    }
    throw;
  }
  length_ = options.length;
  set_pattern(pattern_);
}

void refuse_as_no_plain_file(const std::string& name) {
  throw OptionError(name +
                    " is not one plain file, which is all that fault mode kernel can map: map a file, or choose fault "
                    "mode notify or self-serving (`tiermap doctor` says what they need)");
}

// A sparse store that is there may lie in one piece, and nothing is made for it.
void refuse_new_store_unless_plain(const StoreUrl& url) {
  constexpr std::array<std::string_view, 4> never_plain = {"parquet", "remote", "s3", "tiered"};
  const bool new_segments = url.scheme == "sparse" && !path_exists(percent_decode(url.path, url.text));
  if (new_segments || std::ranges::count(never_plain, url.scheme) != 0) {
    refuse_as_no_plain_file(url.text);
  }
}

/// Throws unless `file_bytes` bytes from the region's start on are one piece of one file.
void KernelMapping::find_file(std::uint64_t file_bytes) {
  Extent extent;
  const bool located = store_->locate_read(store_offset_, round_up(file_bytes, kernel_page_bytes), extent);
  if (!located || extent.hole || extent.file_descriptor < 0 || extent.bytes < file_bytes ||
      extent.offset % kernel_page_bytes != 0) {
    refuse_as_no_plain_file(store_->name());
  }
  // Once, as others may use them while the region grows.
  if (file_descriptor_ != extent.file_descriptor || file_offset_ != extent.offset) {
    file_descriptor_ = extent.file_descriptor;
    file_offset_ = extent.offset;
  }
}

/// Whether the file has all bytes before `end`, as when others have made it longer since the store looked.
bool KernelMapping::file_reaches(std::uint64_t end) const noexcept {
  const std::uint64_t last_page = (end - 1) / kernel_page_bytes * kernel_page_bytes;
  const std::optional<std::uint64_t> there = file_bytes_from(*store_, last_page);
  return there.has_value() && *there >= end - last_page;
}

/// Makes the store reach to the region's end if the region's writes go there. Returns how much of the region it fills.
std::uint64_t KernelMapping::grow_store(std::uint64_t length) {
  const std::uint64_t size = store_->size_bytes();
  const std::uint64_t end = store_offset_ + length;
  if (to_store() && size < end && store_->growable()) {
    // To give the file a size that it is over already would cut off what others have put there.
    const int result = file_reaches(end) ? 0 : store_->resize(end);
    if (result < 0) {
      throw StoreError(-result, store_->name() + " cannot be made " + std::to_string(end) +
                                    " bytes long: map less, or make room on its disk");
    }
    return length;
  }
  return size > store_offset_ ? std::min(length, size - store_offset_) : 0;
}

/// Maps [from, length), of which the part below file_bytes_ is the file's.
void KernelMapping::map_up_to(std::uint64_t from, std::uint64_t length) {
  const std::uint64_t end = round_up(length, kernel_page_bytes);
  const std::uint64_t file_end = std::clamp(file_bytes_.load(), from, end);
  map_piece(from, file_end, true);
  map_piece(file_end, end, false);
}

void KernelMapping::map_piece(std::uint64_t from, std::uint64_t to, bool file) {
  if (from >= to) {
    return;
  }
  const int sharing = file && shared() ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
  // In a program that `tiermap run` started, what can be read at once would be served: by pages of this process alone.
  void* mapped = ::mmap(data() + from, to - from, PROT_NONE, sharing | MAP_FIXED | (file ? 0 : MAP_ANONYMOUS),
                        file ? file_descriptor_ : -1, file ? static_cast<off_t>(file_offset_ + from) : 0);
  if (mapped == MAP_FAILED || ::mprotect(mapped, to - from, protection_of(access_)) != 0) {
    throw PlatformError(errno, "cannot map " + std::to_string(to - from) + " bytes of " + store_->name() +
                                   ": map less, or raise ulimit -v and vm.max_map_count");
  }
  // As in the other fault modes: a forked child faults rather than share what only the parent keeps to its budget.
  ::madvise(mapped, to - from, MADV_DONTFORK);
  // One fault must not map 2 MiB of the page cache: a small budget would be passed before anyone can look.
  ::madvise(mapped, to - from, MADV_NOHUGEPAGE);
}

/// Each piece in one step, so that no thread finds nothing there: behind the file first, where zeros take the place of
/// zeros.
void KernelMapping::move_to(std::byte* address, std::uint64_t length) {
  const std::uint64_t end = round_up(length, kernel_page_bytes);
  const std::uint64_t file_end = std::min(file_bytes_.load(), end);
  const std::uint64_t reserved = range_.size();
  std::byte* const from = data();
  const auto put = [&](std::uint64_t first, std::uint64_t last) {
    return first >= last || move_mapping(from + first, last - first, address + first);
  };
  if (reserved > end) {
    AddressRange::reserve_at(address + end, reserved - end, PROT_NONE, Replacement::mapping).release();
  }
  range_.truncate(end);
  const bool has_zeros = put(file_end, end);
  range_.release();  // What has been moved leaves addresses that are anybody's.
  if (!has_zeros || !put(0, file_end)) {
    const int error_number = errno;
    ::munmap(from, has_zeros ? file_end : end);
    throw PlatformError(error_number,
                        "cannot move " + store_->name() + " to " + hexadecimal(address) + ": raise vm.max_map_count");
  }
  range_ = AddressRange::adopt(address, reserved);
}

ByteRange KernelMapping::file_part(ByteRange range) const noexcept {
  const std::uint64_t end = std::min(round_up(range.offset + range.bytes, kernel_page_bytes), file_bytes());
  const std::uint64_t first = std::min(range.offset / kernel_page_bytes * kernel_page_bytes, end);
  return {first, end - first};
}

void KernelMapping::resize(std::uint64_t length) {
  const std::uint64_t old_length = length_;
  const std::uint64_t old_end = round_up(old_length, kernel_page_bytes);
  if (length <= old_length) {
    const std::uint64_t end = round_up(length, kernel_page_bytes);
    const std::lock_guard lock(pins_mutex_);
    if (end < old_end) {
      // The addresses stay reserved, so that the region can grow back.
      if (::mmap(data() + end, old_end - end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                 0) == MAP_FAILED) {
        throw PlatformError(errno, "cannot give back the last " + std::to_string(old_end - end) + " bytes of " +
                                       store_->name() + ": raise vm.max_map_count");
      }
      file_bytes_ = std::min(file_bytes_.load(), end);
    }
    pins_.erase(pins_.lower_bound(round_up(length, page_bytes_) / page_bytes_), pins_.end());
    length_ = length;
    return;
  }
  if (range_.size() < round_up(length, kernel_page_bytes) && !range_.extend(round_up(length, page_bytes_), PROT_NONE)) {
    throw Error(ENOMEM, "the addresses behind the region are taken: it cannot grow to " + std::to_string(length) +
                            " bytes, set reserve_bytes when it is mapped");
  }
  const std::uint64_t store_size = store_->size_bytes();
  const std::uint64_t old_file_bytes = file_bytes_;
  const std::uint64_t file_bytes = grow_store(length);
  const std::lock_guard lock(pins_mutex_);
  try {
    if (file_bytes > 0) {
      find_file(file_bytes);
    }
    // Where zeros are mapped already past the file's end they stay.
    if (old_file_bytes == old_end) {
      file_bytes_ = std::max(old_end, round_up(file_bytes, kernel_page_bytes));
    }
    map_up_to(old_end, length);
  } catch (...) {
    file_bytes_ = old_file_bytes;
    if (store_->size_bytes() != store_size) {
      store_->resize(store_size);
    }
    throw;
  }
  length_ = length;
  set_pattern(pattern_, {old_end, round_up(length, kernel_page_bytes) - old_end});
}

void KernelMapping::set_pattern(Advice advice) {
  pattern_ = advice;
  set_pattern(advice, {0, length()});
}

void KernelMapping::set_pattern(Advice advice, ByteRange range) noexcept {
  const ByteRange part = file_part(range);
  if (part.bytes > 0) {
    ::madvise(data() + part.offset, part.bytes, advice_for(advice));
  }
}

KernelMapping::Swept KernelMapping::sweep(std::uint64_t from, std::uint64_t wanted, const PresentPages& present) {
  const std::lock_guard lock(pins_mutex_);
  const std::uint64_t end = file_bytes();
  if (from >= end) {
    return {end, 0};
  }
  runs_.clear();
  const std::uint64_t looked = present.find(data() + from, end - from, wanted, false, runs_);
  std::uint64_t released = 0;
  for (const PageRun& run : runs_) {
    released += release_unpinned(from + run.offset, run.bytes);
  }
  return {looked == 0 ? end : from + looked, released};
}

std::uint64_t KernelMapping::release(ByteRange range) {
  const ByteRange part = file_part(range);
  const std::lock_guard lock(pins_mutex_);
  return release_unpinned(part.offset, part.bytes);
}

std::uint64_t KernelMapping::release_unpinned(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::uint64_t end = offset + bytes;
  std::uint64_t released = 0;
  auto pin = pins_.lower_bound(offset / page_bytes_);
  while (offset < end) {
    const std::uint64_t pinned_from = pin == pins_.end() ? end : std::clamp(pin->first * page_bytes_, offset, end);
    released += release_run(offset, pinned_from - offset);
    offset = pinned_from;
    if (pin != pins_.end() && offset < end) {
      offset = (pin->first + 1) * page_bytes_;
      ++pin;
    }
  }
  return released;
}

std::uint64_t KernelMapping::release_run(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes == 0) {
    return 0;
  }
  // MADV_DONTNEED keeps what was written to a shared mapping, in the page cache; of a private one it would lose it, so
  // there the kernel has to choose what can go.
  return ::madvise(data() + offset, bytes, shared() ? MADV_DONTNEED : advice_page_out) == 0 ? bytes : 0;
}

bool KernelMapping::pin(ByteRange range, std::uint64_t most_bytes) {
  const std::lock_guard lock(pins_mutex_);
  const std::uint64_t first = range.offset / page_bytes_;
  const std::uint64_t end = round_up(range.offset + range.bytes, page_bytes_) / page_bytes_;
  std::uint64_t added = 0;
  for (std::uint64_t page = first; page < end; ++page) {
    added += pins_.contains(page) ? 0 : page_bytes_;
  }
  if (added > most_bytes) {
    return false;
  }
  for (std::uint64_t page = first; page < end; ++page) {
    ++pins_[page];
  }
  return true;
}

bool KernelMapping::unpin(ByteRange range) {
  const std::lock_guard lock(pins_mutex_);
  const std::uint64_t first = range.offset / page_bytes_;
  const std::uint64_t end = round_up(range.offset + range.bytes, page_bytes_) / page_bytes_;
  for (std::uint64_t page = first; page < end; ++page) {
    if (!pins_.contains(page)) {
      return false;
    }
  }
  for (std::uint64_t page = first; page < end; ++page) {
    const auto pin = pins_.find(page);
    if (--pin->second == 0) {
      pins_.erase(pin);
    }
  }
  return true;
}

void KernelMapping::lock_pinned(ByteRange range) noexcept {
  const std::lock_guard lock(pins_mutex_);
  const std::uint64_t end = round_up(length_, kernel_page_bytes);
  const auto last = pins_.lower_bound(round_up(range.offset + range.bytes, page_bytes_) / page_bytes_);
  for (auto pin = pins_.lower_bound(range.offset / page_bytes_); pin != last; ++pin) {
    const std::uint64_t first = pin->first * page_bytes_;
    ::mlock(data() + first, std::min(page_bytes_, end - first));
  }
}

std::uint64_t KernelMapping::pinned_bytes() const {
  const std::lock_guard lock(pins_mutex_);
  return pins_.size() * page_bytes_;
}

}  // namespace tiermap
