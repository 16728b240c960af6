// The descriptors that are Tiermap's in a program that does not know of them: where it closes every number there is, as
// daemons do, those are to it what they would be without Tiermap, not open.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace tiermap::preload {

/// add() and those after it are called by one thread at a time; owns() by any.
class OwnDescriptors {
 public:
  static constexpr int most = 65536;  ///< Higher numbers are not protected.

  bool owns(int descriptor) const noexcept {
    const auto number = static_cast<std::uint32_t>(descriptor);
    return number < most && (bits_[number / 64].load(std::memory_order_relaxed) >> (number % 64) & 1U) != 0;
  }
  bool owns_any(unsigned first, unsigned last) const noexcept;

  void add(int descriptor) noexcept { change(descriptor, true); }
  void remove(int descriptor) noexcept { change(descriptor, false); }

  /// While it lives, what the engine opens is found out, and added to `found`: userfaultfds, rings, events and its
  /// publication.
  class Watch {
   public:
    Watch(OwnDescriptors& owner, std::vector<int>& found);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    OwnDescriptors& owner_;
    std::vector<int>& found_;
    std::vector<int> before_;
  };
  /// Those of `found` that are no longer open.
  void drop_closed(const std::vector<int>& found);
  /// In a forked child none of them is of use: closes those that were found.
  void close_found() noexcept;
  void clear() noexcept;

 private:
  void change(int descriptor, bool own) noexcept;

  std::array<std::atomic<std::uint64_t>, most / 64> bits_{};
  std::vector<int> found_;
};

}  // namespace tiermap::preload
