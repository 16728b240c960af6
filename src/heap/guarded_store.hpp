// A store in which nothing changes before certain bytes are known to be on the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

/// Everything else is the base's affair. Thread-safe as that is.
class GuardedStore final : public Store {
 public:
  explicit GuardedStore(std::shared_ptr<Store> base) : base_(std::move(base)) {}

  /// From now on nothing changes before `bytes` are at `offset`, durably. That is tried at once, and for as long as it
  /// fails again by every change, which fails alike. What is being written already is not waited for.
  void require_first(std::uint64_t offset, std::span<const std::byte> bytes);

  std::uint64_t size_bytes() const override { return base_->size_bytes(); }
  bool writable() const override { return base_->writable(); }
  bool growable() const override { return base_->growable(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return base_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override { return base_->flush(); }
  int resize(std::uint64_t bytes) override;
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override {
    return base_->locate_read(offset, bytes, extent);
  }
  /// Not while something has to come first: write() then says what keeps that from being done.
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    return !guarded_.load(std::memory_order_acquire) && base_->locate_write(offset, bytes, extent);
  }
  std::uint32_t direct_alignment() const override { return base_->direct_alignment(); }
  bool reads_in_signal_handler() const override { return base_->reads_in_signal_handler(); }
  bool writes_whole_pages() const override { return base_->writes_whole_pages(); }
  std::uint32_t max_reads_in_flight() const override { return base_->max_reads_in_flight(); }
  std::uint32_t max_writes_in_flight() const override { return base_->max_writes_in_flight(); }
  std::string name() const override { return base_->name(); }

 private:
  int pass() noexcept;
  int put_first() noexcept;

  const std::shared_ptr<Store> base_;
  std::atomic<bool> guarded_{false};
  std::mutex mutex_;  ///< Guards what follows.
  std::uint64_t first_offset_ = 0;
  std::vector<std::byte> first_;
};

}  // namespace tiermap
