// A store in which nothing changes before certain bytes are known to be on the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "store/forwarding_store.hpp"

namespace tiermap {

/// Everything else is the base's affair. Thread-safe as that is.
class GuardedStore final : public ForwardingStore {
 public:
  explicit GuardedStore(std::shared_ptr<Store> base) : ForwardingStore(std::move(base)) {}

  /// From now on nothing changes before `bytes` are at `offset`, durably. That is tried at once, and for as long as it
  /// fails again by every change, which fails alike. What is being written already is not waited for.
  void require_first(std::uint64_t offset, std::span<const std::byte> bytes);

  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int resize(std::uint64_t bytes) override;
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  /// Not while something has to come first: write() then says what keeps that from being done.
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    return !guarded_.load(std::memory_order_acquire) && base_->locate_write(offset, bytes, extent);
  }

 private:
  int pass() noexcept;
  int put_first() noexcept;

  std::atomic<bool> guarded_{false};
  std::mutex mutex_;  ///< Guards what follows.
  std::uint64_t first_offset_ = 0;
  std::vector<std::byte> first_;
};

}  // namespace tiermap
