// Calls that change files of which nothing is served while they begin. Another thread may map such a file meanwhile:
// what the region read before the change came, and was stored to since, would undo it when it is written back.
#pragma once

#include <sys/single_threaded.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/served_ranges.hpp"

namespace tiermap::preload {

/// Whoever changes a file says so first, and looks then whether it is served. Whoever serves a file says so first
/// (ServedRanges), and then waits for those who may not have seen it. Who says so takes no lock and allocates nothing:
/// a signal handler may write.
class ChangesUnderWay {
 public:
  /// From here until end() the calling thread may be changing the file of a descriptor. There is no destructor: the
  /// call between the two may be cancelled, and then frames of this library must have nothing to do, since the C
  /// library unwinds them by a libgcc that is not the one linked into it. Who is cancelled has ended.
  class Change {
   public:
    /// With `may_wait` the call may wait for others as long as it likes. Nothing is said without `all`, or in a program
    /// of one thread, which maps nothing meanwhile.
    Change(ChangesUnderWay* all, int descriptor, bool may_wait = false) noexcept {
      if (all != nullptr && !__libc_single_threaded) {
        all_ = all;
        slot_ = all->begin(descriptor, may_wait);
      }
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    void end() const noexcept {
      if (all_ != nullptr) {
        all_->end(slot_);
      }
    }

   private:
    ChangesUnderWay* all_ = nullptr;
    std::size_t slot_ = 0;
  };

  /// After the file was said to be served: waits until no call is changing it that may not have seen that. False if one
  /// may wait for others, or takes very long: then it cannot be served.
  bool wait_until_ended(FileIdentity file) noexcept;
  /// In a forked child, whose one thread is changing nothing.
  void clear() noexcept;

 private:
  static constexpr std::size_t most = 256;
  /// In place of a slot, of a call that changes no file.
  static constexpr std::size_t none = most + 1;
  /// Thread, descriptor plus one, and whether the call may wait, in bits 33 to 63, 1 to 32 and 0. 0: the slot is free.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> change{0};
  };

  /// Returns the slot, or if all are taken `most`, which counts as a change of any file, or `none`.
  std::size_t begin(int descriptor, bool may_wait) noexcept;
  void end(std::size_t slot) noexcept;
  static std::uint64_t under_way_in(Slot& slot, FileIdentity file) noexcept;

  std::array<Slot, most> slots_;
  std::atomic<std::uint64_t> without_slot_{0};
};

}  // namespace tiermap::preload
