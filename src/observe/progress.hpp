// How far a long-running command is, on one line of the terminal: what, how far, rate, time left.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tiermap {

/// Shows progress on standard error while it lives, if that is a terminal, and writes nothing at all if it is not. The
/// line is drawn five times a second by a thread of its own, and is gone when the display is. Members are thread-safe.
/// Show one display at a time: they share the line.
class ProgressDisplay {
 public:
  /// What the numbers count.
  enum class Unit : std::uint8_t { items, bytes };

  /// `what` is shown first ("sorting"). `total` is how much there is to do; 0 means that nobody knows.
  ProgressDisplay(std::string_view what, std::uint64_t total, Unit unit = Unit::items,
                  int file_descriptor = STDERR_FILENO);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// So much more is done. One atomic addition.
  void add(std::uint64_t amount) noexcept { done_.fetch_add(amount, std::memory_order_relaxed); }
  /// So much is done in all.
  void set(std::uint64_t done) noexcept { done_.store(done, std::memory_order_relaxed); }
  /// The next step begins: counting starts again from 0.
  void restart(std::string_view what, std::uint64_t total);
  /// Takes the line away for good, before something else is printed. Idempotent; the destructor does it too.
  void finish();
  /// Whether anything is drawn at all.
  bool shown() const noexcept { return shown_; }

 private:
  using Clock = std::chrono::steady_clock;

  void draw_until_stopped();
  void draw();
  void write_line(std::string line) const;

  const int file_descriptor_;
  const Unit unit_;
  const bool shown_;
  std::atomic<std::uint64_t> done_{0};

  std::mutex mutex_;  ///< Guards everything below.
  std::condition_variable stopped_changed_;
  bool stopped_ = false;
  std::string what_;
  std::uint64_t total_;
  Clock::time_point started_;
  Clock::time_point last_drawn_;
  std::uint64_t last_done_ = 0;
  double rate_ = 0;  ///< Units a second, smoothed over the last seconds.

  std::thread thread_;
};

/// The text of a progress line, for tests and for screens of other kinds. `seconds` is the time since the start.
std::string format_progress(std::string_view what, std::uint64_t done, std::uint64_t total, double per_second,
                            double seconds, ProgressDisplay::Unit unit);

}  // namespace tiermap
