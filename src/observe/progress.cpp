#include "observe/progress.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "config/size.hpp"

namespace tiermap {
namespace {

constexpr auto draw_interval = std::chrono::milliseconds(200);
constexpr double smoothing_seconds = 3;
constexpr std::string_view clear_line = "\r\x1b[K";

/// A dumb terminal cannot clear a line.
bool can_draw_on(int file_descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(file_descriptor) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

std::size_t terminal_columns(int file_descriptor) {
  winsize size{};
  return ::ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void write_all(int file_descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file_descriptor, text.data(), text.size());
    if (written <= 0) {
      return;  // A terminal that is gone is no reason to fail.
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// 1234567 is "1.23 M".
std::string format_count(double count) {
  constexpr std::array<const char*, 5> suffixes = {"", " k", " M", " G", " T"};
  std::size_t suffix = 0;
  while (count >= 999.5 && suffix + 1 < suffixes.size()) {
    count /= 1000;
    ++suffix;
  }
  const int decimals = suffix == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f%s", decimals, count, suffixes[suffix]);
  return text.data();
}

std::string format_amount(double amount, ProgressDisplay::Unit unit) {
  return unit == ProgressDisplay::Unit::bytes ? format_size_rounded(amount) : format_count(amount);
}

/// 75 is "1:15", 4000 is "1:06:40".
std::string format_duration(double seconds) {
  const auto whole = static_cast<long>(std::min(std::ceil(seconds), 359999.0));
  std::array<char, 64> text{};
  if (whole >= 3600) {
    std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ld:%02ld", whole / 60, whole % 60);
  }
  return text.data();
}

}  // namespace

std::string format_progress(std::string_view what, std::uint64_t done, std::uint64_t total, double per_second,
                            double seconds, ProgressDisplay::Unit unit) {
  std::string line(what);
  if (total != 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    // Rounded down: 100% only when all is done.
    line += "  " + std::to_string(static_cast<int>(share * 100)) + "%";
  }
  line += "  " + format_amount(static_cast<double>(done), unit);
  if (total != 0) {
    line += " of " + format_amount(static_cast<double>(total), unit);
  }
  line += "  " + format_amount(per_second, unit) + "/s";
  if (total > done && per_second > 0) {
    line += "  " + format_duration(static_cast<double>(total - done) / per_second) + " left";
  } else {
    line += "  " + format_duration(seconds);
  }
  return line;
}

ProgressDisplay::ProgressDisplay(std::string_view what, std::uint64_t total, Unit unit, int file_descriptor)
    : file_descriptor_(file_descriptor),
      unit_(unit),
      shown_(can_draw_on(file_descriptor)),
      what_(what),
      total_(total),
      started_(Clock::now()),
      last_drawn_(started_) {
  if (shown_) {
    thread_ = std::thread([this] { draw_until_stopped(); });
  }
}

ProgressDisplay::~ProgressDisplay() {
  finish();
}

void ProgressDisplay::restart(std::string_view what, std::uint64_t total) {
  const std::lock_guard lock(mutex_);
  what_ = what;
  total_ = total;
  done_.store(0, std::memory_order_relaxed);
  last_done_ = 0;
  rate_ = 0;
  started_ = last_drawn_ = Clock::now();
}

void ProgressDisplay::finish() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    thread.swap(thread_);
  }
  stopped_changed_.notify_all();
  if (thread.joinable()) {
    thread.join();
    write_all(file_descriptor_, clear_line);
  }
}

void ProgressDisplay::draw_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!stopped_changed_.wait_for(lock, draw_interval, [this] { return stopped_; })) {
    draw();
  }
}

void ProgressDisplay::draw() {
  const auto now = Clock::now();
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  const double elapsed = std::chrono::duration<double>(now - last_drawn_).count();
  const double since_start = std::chrono::duration<double>(now - started_).count();
  if (elapsed <= 0) {
    return;
  }
  const double current = static_cast<double>(done - std::min(done, last_done_)) / elapsed;
  // In the first seconds the mean so far is all there is to know.
  const double weight = std::min(1.0, elapsed / std::min(since_start, smoothing_seconds));
  rate_ += (current - rate_) * weight;
  last_drawn_ = now;
  last_done_ = done;
  write_line(format_progress(what_, done, total_, rate_, since_start, unit_));
}

void ProgressDisplay::write_line(std::string line) const {
  // A line that fills the last column would wrap, and could not be cleared.
  line.resize(std::min(line.size(), terminal_columns(file_descriptor_) - 1));
  write_all(file_descriptor_, std::string(clear_line) + line);
}

}  // namespace tiermap
