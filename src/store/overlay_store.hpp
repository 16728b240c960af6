// What a private region or a changing object in S3 reads and writes: the base store as it was, with its own changes
// over it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "platform/lazy_array.hpp"
#include "store/file_transfer.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Blocks of 4 KiB come from the base until the first write to them, then from a scratch file that has no name and is
/// gone when this object, or the process, is. The base is never written.
///
/// Thread-safe. One bit a block says where it is; a bit is set, with release order, once the whole block is in the
/// scratch file, and read with acquire order, so a reader finds the block where the bit says. Writers of parts of one
/// block take the block's lock, since the first of them brings the rest of the block over. All writes go through
/// write(): were the scratch file handed out for writing, a bit would have to be set before the bytes are there, and a
/// failure would lose the base's.
class OverlayStore final : public Store {
 public:
  static constexpr std::uint64_t block_bytes = 4096;

  /// A store of `bytes` bytes; past the end of the base they read as zeros. The scratch file lies in `directory`, or if
  /// that is empty in $TMPDIR, or /var/tmp. Throws StoreError when none can be made there.
  OverlayStore(std::shared_ptr<Store> base, std::uint64_t bytes, const std::string& directory = "");

  std::uint64_t size_bytes() const override { return size_.load(std::memory_order_acquire); }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// -ENOSPC at the end of the store, or when the scratch file's disk is full.
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// Up to twice the first size, at least 1 TiB; more gives -EFBIG. Asked for the size that it has, it cuts off what
  /// writes that were on their way when it became shorter have put behind its end.
  int resize(std::uint64_t bytes) override;
  void show_tiers(PublishedTiers& tiers, bool shown) noexcept override { base_->show_tiers(tiers, shown); }
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  std::uint32_t direct_alignment() const override { return alignment_; }
  /// read() takes no lock and allocates nothing of its own: it is as good as the base's.
  bool reads_in_signal_handler() const override { return base_->reads_in_signal_handler(); }
  std::uint32_t max_reads_in_flight() const override { return base_->max_reads_in_flight(); }
  std::string name() const override { return "private copy of " + base_->name(); }

  /// Whether the block (its offset divided by block_bytes) differs, or may differ, from the base's.
  bool is_written(std::uint64_t block) const noexcept;
  /// What it has open for its scratch file, as long as it lives; negative ones are none.
  std::array<int, 2> descriptors() const noexcept { return {scratch_.buffered(), scratch_.direct()}; }

 private:
  bool align(std::uint64_t offset, Extent& extent) const noexcept;
  int cut_scratch(std::uint64_t bytes, std::uint64_t whole_blocks) noexcept;
  std::uint64_t run_end(std::uint64_t offset, std::uint64_t end) const noexcept;
  void set_written(std::uint64_t first, std::uint64_t end, bool written) noexcept;
  std::int64_t read_base(char* buffer, std::size_t bytes, std::uint64_t offset);
  std::int64_t write_blocks(const char* buffer, std::size_t bytes, std::uint64_t offset);
  std::int64_t write_part(const char* buffer, std::size_t bytes, std::uint64_t offset);

  const std::shared_ptr<Store> base_;
  DirectFile scratch_;
  std::uint32_t alignment_ = 1;
  LazyArray<std::atomic<std::uint64_t>> written_;
  std::atomic<std::uint64_t> written_end_{0};  ///< Behind the last block that was ever written.
  std::atomic<std::uint64_t> size_;
  std::atomic<std::uint64_t> base_limit_;  ///< Base bytes from here on were cut off by a resize; they read as zeros.
  std::array<std::mutex, 64> block_locks_;
  std::mutex resize_mutex_;
};

}  // namespace tiermap
