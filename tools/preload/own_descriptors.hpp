// The descriptors that are Tiermap's in a program that does not know of them: where it closes every number there is, as
// daemons do, those are to it what they would be without Tiermap, not open.
#pragma once

#include <dirent.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tiermap::preload {

/// Any thread may call any of these.
class OwnDescriptors {
 public:
  static constexpr int most = 65536;  ///< Higher numbers are not protected.

  bool owns(int descriptor) const noexcept {
    const auto number = static_cast<std::uint32_t>(descriptor);
    return number < most && (own_[number / 64].load(std::memory_order_relaxed) >> (number % 64) & 1U) != 0;
  }
  bool owns_any(unsigned first, unsigned last) const noexcept;

  void add(int descriptor) noexcept { set(own_, descriptor); }
  void add_all(std::span<const int> descriptors) noexcept {
    for (const int descriptor : descriptors) {
      add(descriptor);
    }
  }
  /// The engine's, of no use to a forked child.
  void add_engines(int descriptor) noexcept {
    set(engines_, descriptor);
    set(own_, descriptor);
  }
  /// Before it is closed: its number may be the program's in the next moment.
  void remove(int descriptor) noexcept {
    clear(own_, descriptor);
    clear(engines_, descriptor);
  }

  void remove_all(std::span<const int> descriptors) noexcept {
    for (const int descriptor : descriptors) {
      remove(descriptor);
    }
  }

  /// While it lives, what the engine opens is found out, and added: userfaultfds, rings, events and its publication.
  class Watch {
   public:
    /// Throws PlatformError where nobody can tell what is open.
    explicit Watch(OwnDescriptors& owner);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    OwnDescriptors& owner_;
    std::unique_ptr<DIR, int (*)(DIR*)> folder_;
    std::vector<int> before_;
  };
  /// In a forked child.
  void close_engines() noexcept;

 private:
  using Numbers = std::array<std::atomic<std::uint64_t>, most / 64>;
  static void set(Numbers& numbers, int descriptor) noexcept {
    if (const auto number = static_cast<std::uint32_t>(descriptor); number < most) {
      numbers[number / 64].fetch_or(std::uint64_t{1} << (number % 64));
    }
  }
  static void clear(Numbers& numbers, int descriptor) noexcept {
    if (const auto number = static_cast<std::uint32_t>(descriptor); number < most) {
      numbers[number / 64].fetch_and(~(std::uint64_t{1} << (number % 64)));
    }
  }

  Numbers own_{};
  Numbers engines_{};
};

}  // namespace tiermap::preload
