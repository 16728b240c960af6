// A plain file mapped with mmap: the address range of a region in fault mode kernel.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "config/resolve.hpp"
#include "platform/address_range.hpp"
#include "platform/present_pages.hpp"
#include "store/store_url.hpp"
#include "tiermap/region.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Throws: `name` is no store that the kernel could map.
[[noreturn]] void refuse_as_no_plain_file(const std::string& name);
/// The same of a URL by which a store may have to be made, before it is.
void refuse_new_store_unless_plain(const StoreUrl& url);

/// Owns the range. The first file_bytes() of it are the file's, the rest, past the end of a file that does not grow, is
/// anonymous memory that reads as zero. Members may be called from any thread, but for resize() and destruction.
class KernelMapping {
 public:
  /// Maps; a file that a shared read_write region outreaches gets its new size here, since touching a mapped page past
  /// a file's end raises SIGBUS. Throws OptionError for what this mode cannot do (a store that is not one plain file,
  /// manual flushing), StoreError, PlatformError; then the file is as it was.
  KernelMapping(std::shared_ptr<Store> store, const RegionOptions& options, const ResolvedRegionOptions& resolved);
  KernelMapping(const KernelMapping&) = delete;
  KernelMapping& operator=(const KernelMapping&) = delete;

  std::byte* data() const noexcept { return range_.data(); }
  std::uint64_t length() const noexcept { return length_.load(std::memory_order_relaxed); }
  std::uint64_t page_bytes() const noexcept { return page_bytes_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_.load(std::memory_order_relaxed); }
  bool shared() const noexcept { return sharing_ == Sharing::shared; }
  /// Whether writes go to the file.
  bool to_store() const noexcept { return shared() && access_ == Access::read_write; }
  const std::shared_ptr<Store>& store() const noexcept { return store_; }
  int file_descriptor() const noexcept { return file_descriptor_; }
  /// Where in the file the region's byte `offset` is.
  std::uint64_t file_offset(std::uint64_t offset) const noexcept { return file_offset_ + offset; }
  /// `range` rounded out to 4 KiB, and cut off where the file's part ends.
  ByteRange file_part(ByteRange range) const noexcept;

  /// See Region::resize(). Throws Error; then the length is the old one.
  void resize(std::uint64_t length);
  /// As MADV_...; errors are ignored. Also for what resize() adds.
  void set_pattern(Advice advice);
  void set_pattern(Advice advice, ByteRange range) noexcept;

  struct Swept {
    std::uint64_t next;   ///< Where it stopped looking; file_bytes() if at the end.
    std::uint64_t bytes;  ///< What it took from the address range.
  };
  /// Takes up to `wanted` bytes of present, unpinned pages of the file, from `from` on, out of the address range. What
  /// was written stays in the kernel's page cache, or, in a private mapping, where it is.
  Swept sweep(std::uint64_t from, std::uint64_t wanted, const PresentPages& present);
  /// Takes the unpinned pages of a range out of the address range.
  std::uint64_t release(ByteRange range);

  /// Keeps whole pages from sweep() and release() until as many unpin() calls; `most_bytes` is what may be added to
  /// what is pinned already. False, and nothing is pinned, if that is too little.
  bool pin(ByteRange range, std::uint64_t most_bytes);
  /// False, and nothing changes, if some page is not pinned.
  bool unpin(ByteRange range);
  /// Locks the pages of a range that are pinned into memory, where RLIMIT_MEMLOCK allows it.
  void lock_pinned(ByteRange range) noexcept;
  /// Bytes of pinned pages.
  std::uint64_t pinned_bytes() const;

 private:
  void find_file(std::uint64_t file_bytes);
  void map_up_to(std::uint64_t from, std::uint64_t length);
  void map_piece(std::uint64_t from, std::uint64_t to, bool file);
  void move_to(std::byte* address, std::uint64_t length);
  bool file_reaches(std::uint64_t end) const noexcept;
  std::uint64_t grow_store(std::uint64_t length);
  std::uint64_t release_unpinned(std::uint64_t offset, std::uint64_t bytes) noexcept;
  std::uint64_t release_run(std::uint64_t offset, std::uint64_t bytes) noexcept;

  const std::shared_ptr<Store> store_;
  const Access access_;
  const Sharing sharing_;
  const std::uint64_t page_bytes_;
  const std::uint64_t store_offset_;
  std::atomic<Advice> pattern_;
  int file_descriptor_ = -1;  ///< The store's.
  std::uint64_t file_offset_ = 0;
  AddressRange range_;
  std::atomic<std::uint64_t> length_{0};
  std::atomic<std::uint64_t> file_bytes_{0};  ///< A multiple of 4096.
  mutable std::mutex pins_mutex_;             ///< Held while pages are taken out, so that no pin comes in between.
  std::map<std::uint64_t, std::uint32_t> pins_;
  std::vector<PageRun> runs_;  ///< Of sweep(); kept to allocate seldom.
};

}  // namespace tiermap
