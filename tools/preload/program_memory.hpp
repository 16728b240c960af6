// The program's memory, read where an address that the program gave may be bad: that is an error of its call, and no
// signal.
#pragma once

#include <limits.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace tiermap::preload {

inline constexpr std::size_t most_program_bytes = std::size_t{1} << 20U;

/// Copies up to most_program_bytes. Returns as read() does.
ssize_t copy_from_program(const void* source, std::size_t bytes, void* target) noexcept;

/// What lies at an address; nothing if it is bad.
template <typename T>
std::optional<T> value_at(const T* address) noexcept {
  T value{};
  return copy_from_program(address, sizeof(T), &value) == static_cast<ssize_t>(sizeof(T)) ? std::optional(value)
                                                                                          : std::nullopt;
}

/// A path that the program names, for a call that must not look there: it may lie in memory that is held while the call
/// runs. What is bad about it is for the kernel to refuse.
class KeptPath {
 public:
  explicit KeptPath(const char* path) noexcept;
  const char* get() const noexcept { return path_; }

 private:
  const char* path_;
  std::array<char, PATH_MAX> copy_;
};

/// Calls `visit` for each of a call's vectors, in order. False, after some of them or none, if they or how many there
/// are is what the kernel refuses. Takes no memory: calls that write may be made by a signal handler.
template <typename Visit>
bool for_each_vector(const iovec* vectors, int count, Visit&& visit) noexcept {
  if (count < 0 || count > IOV_MAX) {
    return false;
  }
  std::array<iovec, 32> some;
  for (std::size_t at = 0, all = static_cast<std::size_t>(count); at < all; at += some.size()) {
    const std::size_t number = std::min(all - at, some.size());
    const std::size_t bytes = number * sizeof(iovec);
    if (copy_from_program(vectors + at, bytes, some.data()) != static_cast<ssize_t>(bytes)) {
      return false;
    }
    std::for_each_n(some.begin(), number, visit);
  }
  return true;
}

}  // namespace tiermap::preload
