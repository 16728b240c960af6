// On which files the program may have record locks (fcntl, lockf): these end when it closes any descriptor of the file,
// and would end, too, if Tiermap closed one of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/served_ranges.hpp"

namespace tiermap::preload {

/// Any thread may call any of these. Nothing waits or allocates: a signal handler may lock a file.
class RecordLockedFiles {
 public:
  /// Before the program locks something of the file.
  void add(FileIdentity file) noexcept {
    any_.store(true, std::memory_order_relaxed);
    if (!has_slot(file) && !takes_slot(file)) {
      others_.store(true);
    }
  }
  /// Before the program closes a descriptor of the file.
  void remove(FileIdentity file) noexcept {
    for (Slot& slot : slots_) {
      if (slot.is_of(file)) {
        slot.inode.store(0);
      }
    }
  }
  /// In a forked child, which has none.
  void clear() noexcept {
    for (Slot& slot : slots_) {
      slot.inode.store(0);
    }
    any_.store(false);
    others_.store(false);
  }

  /// Whether it may have any; true from the first one on.
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// True of every file once there have been too many at one time.
  bool hold(FileIdentity file) const noexcept { return others_.load() || has_slot(file); }

 private:
  struct Slot {
    std::atomic<std::uint64_t> inode{0};  ///< 0: free.
    std::atomic<std::uint64_t> device{0};
    bool is_of(FileIdentity file) const noexcept { return inode.load() == file.inode && device.load() == file.device; }
  };

  bool has_slot(FileIdentity file) const noexcept {
    for (const Slot& slot : slots_) {
      if (slot.is_of(file)) {
        return true;
      }
    }
    return false;
  }
  bool takes_slot(FileIdentity file) noexcept {
    for (Slot& slot : slots_) {
      std::uint64_t free = 0;
      if (slot.inode.compare_exchange_strong(free, file.inode)) {
        slot.device.store(file.device);
        return true;
      }
    }
    return false;
  }

  std::array<Slot, 256> slots_;
  std::atomic<bool> any_{false};
  std::atomic<bool> others_{false};
};

}  // namespace tiermap::preload
