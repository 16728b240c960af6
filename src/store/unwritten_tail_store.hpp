// A store of whose end nothing was ever written, as its maker knows: what was never used of a heap, a vector
// that was just made. Reading it costs neither the disk nor a system call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "store/forwarding_store.hpp"

namespace tiermap {

/// Everything else is the base's affair. Thread-safe as that is: the tail only shrinks, and does so before what is
/// written into it can be read.
class UnwrittenTailStore final : public ForwardingStore {
 public:
  /// From `tail_begin` on the base reads as zeros.
  UnwrittenTailStore(std::shared_ptr<Store> base, std::uint64_t tail_begin)
      : ForwardingStore(std::move(base)), tail_begin_(tail_begin) {}

  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;

 private:
  void shrink_tail(std::uint64_t written_end) noexcept;

  std::atomic<std::uint64_t> tail_begin_;
};

}  // namespace tiermap
