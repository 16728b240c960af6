// Zeros in anonymous memory, gone when closed: for tests, measurements and data that needs no store.
#pragma once

#include <atomic>
#include <mutex>

#include "tiermap/store.hpp"

namespace tiermap {

/// Its memory is outside every cache's budget. Thread-safe: the bytes never move, the size is atomic; read() is a copy,
/// so a signal handler may call it.
class MemoryStore final : public Store {
 public:
  /// Throws StoreError when the address space or memory is refused.
  explicit MemoryStore(std::uint64_t bytes, bool writable = true);
  ~MemoryStore() override;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  std::uint64_t size_bytes() const override { return size_.load(std::memory_order_acquire); }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// Up to eight times the size it was made with, at least 1 GiB; more gives -ENOMEM.
  int resize(std::uint64_t bytes) override;
  bool reads_in_signal_handler() const override { return true; }
  std::string name() const override { return "memory"; }

 private:
  char* memory_ = nullptr;
  std::uint64_t reserved_ = 0;
  const bool writable_;
  std::mutex resize_mutex_;
  std::uint64_t usable_ = 0;  ///< Whole pages that may be touched. Guarded by resize_mutex_.
  std::atomic<std::uint64_t> size_{0};
};

}  // namespace tiermap
