// A store of whose end nothing was ever written, as its maker knows: what was never used of a heap. Reading it costs
// neither the disk nor a system call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tiermap/store.hpp"

namespace tiermap {

/// Everything else is the base's affair. Thread-safe as that is: the tail only shrinks, and does so before what is
/// written into it can be read.
class UnwrittenTailStore final : public Store {
 public:
  /// From `tail_begin` on the base reads as zeros.
  UnwrittenTailStore(std::shared_ptr<Store> base, std::uint64_t tail_begin)
      : base_(std::move(base)), tail_begin_(tail_begin) {}

  std::uint64_t size_bytes() const override { return base_->size_bytes(); }
  bool writable() const override { return base_->writable(); }
  bool growable() const override { return base_->growable(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override { return base_->flush(); }
  int resize(std::uint64_t bytes) override { return base_->resize(bytes); }
  int punch(std::uint64_t offset, std::uint64_t bytes) override { return base_->punch(offset, bytes); }
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;
  std::uint32_t direct_alignment() const override { return base_->direct_alignment(); }
  bool reads_in_signal_handler() const override { return base_->reads_in_signal_handler(); }
  bool writes_whole_pages() const override { return base_->writes_whole_pages(); }
  std::uint32_t max_reads_in_flight() const override { return base_->max_reads_in_flight(); }
  std::uint32_t max_writes_in_flight() const override { return base_->max_writes_in_flight(); }
  std::string name() const override { return base_->name(); }

 private:
  void shrink_tail(std::uint64_t written_end) noexcept;

  const std::shared_ptr<Store> base_;
  std::atomic<std::uint64_t> tail_begin_;
};

}  // namespace tiermap
