// Which addresses and which files are served, for the calls that have nothing to do with them: looking takes no lock
// and allocates nothing, since a program's own malloc() may be the one that asks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "platform/file_identity.hpp"

namespace tiermap::preload {

/// Changes are made under the lock of Mappings; looks may come at any time. A look that meets a change sees the range
/// as it was or as it will be, which is all that a program may expect of calls that race.
class ServedRanges {
 public:
  static constexpr std::size_t most = 1024;
  static constexpr std::size_t none = most;

  /// Returns the slot, or `none` if all are taken: full() tells before.
  std::size_t add(const void* start, std::size_t bytes, FileIdentity file, bool writable) noexcept {
    for (std::size_t slot = 0; slot < most; ++slot) {
      if (slots_[slot].start.load(std::memory_order_relaxed) == 0) {
        Slot& taken = slots_[slot];
        taken.device.store(file.device, std::memory_order_relaxed);
        taken.inode.store(file.inode, std::memory_order_relaxed);
        taken.writable.store(writable, std::memory_order_relaxed);
        taken.end.store(reinterpret_cast<std::uintptr_t>(start) + bytes, std::memory_order_relaxed);
        taken.start.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_release);
        if (used_.load(std::memory_order_relaxed) <= slot) {
          used_.store(slot + 1, std::memory_order_release);
        }
        count_.fetch_add(1, std::memory_order_release);
        return slot;
      }
    }
    return none;
  }
  void lengthen(std::size_t slot, std::size_t bytes) noexcept {
    slots_[slot].end.store(slots_[slot].start.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
  }
  void remove(std::size_t slot) noexcept {
    slots_[slot].start.store(0, std::memory_order_release);
    count_.fetch_sub(1, std::memory_order_release);
  }
  void clear() noexcept {
    for (Slot& slot : slots_) {
      slot.start.store(0, std::memory_order_relaxed);
    }
    count_.store(0, std::memory_order_release);
  }

  bool full() const noexcept { return count_.load(std::memory_order_relaxed) == most; }
  bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }

  bool overlap(const void* address, std::size_t bytes) const noexcept {
    if (empty()) {
      return false;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = first + bytes;
    return any([&](const Slot& slot, std::uintptr_t start) {
      return start < end && first < slot.end.load(std::memory_order_relaxed);
    });
  }
  /// With `written_to`, only where a mapping of it can be written.
  bool hold(FileIdentity file, bool written_to) const noexcept {
    return any([&](const Slot& slot, std::uintptr_t) {
      return slot.inode.load(std::memory_order_relaxed) == file.inode &&
             slot.device.load(std::memory_order_relaxed) == file.device &&
             (!written_to || slot.writable.load(std::memory_order_relaxed));
    });
  }
  bool any_writable() const noexcept {
    return !empty() &&
           any([](const Slot& slot, std::uintptr_t) { return slot.writable.load(std::memory_order_relaxed); });
  }

 private:
  struct Slot {
    std::atomic<std::uintptr_t> start{0};  ///< 0: free.
    std::atomic<std::uintptr_t> end{0};
    std::atomic<std::uint64_t> device{0};
    std::atomic<std::uint64_t> inode{0};
    std::atomic<bool> writable{false};
  };
  template <typename Test>
  bool any(Test test) const noexcept {
    const std::size_t used = used_.load(std::memory_order_acquire);
    for (std::size_t index = 0; index < used; ++index) {
      const std::uintptr_t start = slots_[index].start.load(std::memory_order_acquire);
      if (start != 0 && test(slots_[index], start)) {
        return true;
      }
    }
    return false;
  }

  std::array<Slot, most> slots_;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> count_{0};
};

}  // namespace tiermap::preload
