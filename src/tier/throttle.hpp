// Makes a place as slow as another one.
#pragma once

#include <cstdint>
#include <mutex>

namespace tiermap {

/// A token bucket that holds no more than what is asked for: transfers go one after the other at the bandwidth, and
/// each takes the latency besides, which those under way at once spend together. Thread-safe.
class Throttle {
 public:
  /// Zeros: nothing is imposed.
  Throttle(double bytes_per_second, double latency_microseconds)
      : nanoseconds_a_byte_(bytes_per_second > 0 ? 1e9 / bytes_per_second : 0),
        latency_nanoseconds_(static_cast<std::uint64_t>(latency_microseconds * 1000)) {}

  /// Returns when a transfer that begins now would be over.
  void transfer(std::uint64_t bytes) noexcept;

 private:
  const double nanoseconds_a_byte_;
  const std::uint64_t latency_nanoseconds_;
  std::mutex mutex_;
  std::uint64_t free_from_ = 0;  ///< When the last transfer's bytes have gone through. Guarded by mutex_.
};

}  // namespace tiermap
