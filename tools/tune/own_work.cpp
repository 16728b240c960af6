#include "tune/own_work.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace tiermap {
namespace {

/// What the library calls its threads.
constexpr std::array<std::string_view, 16> engine_threads = {
    "tiermap-manage",  "tiermap-fill", "tiermap-evict", "tiermap-write", "tiermap-trace", "tiermap-tiers",
    "tiermap-parquet", "tiermap-wire", "tiermap-door",  "tiermap-last",  "tiermap-serve", "tm-adapt",
    "tm-budget",       "tm-drop",      "tm-prefetch",   "tm-s3-upload"};

struct ThreadTimes {
  std::string name;
  std::uint64_t user_ticks = 0;
};

/// Reads a `stat` of /proc: the name in parentheses, which may hold anything, then fields; the twelfth is user time.
std::optional<ThreadTimes> read_times(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  const std::size_t name_begin = text.find('(');
  const std::size_t name_end = text.rfind(')');
  if (name_begin == std::string::npos || name_end == std::string::npos) {
    return std::nullopt;
  }
  constexpr int user_time_field = 12;
  std::size_t place = name_end;
  for (int field = 0; field < user_time_field && place != std::string::npos; ++field) {
    place = text.find(' ', place + 1);
  }
  if (place == std::string::npos) {
    return std::nullopt;
  }
  ThreadTimes times{text.substr(name_begin + 1, name_end - name_begin - 1), 0};
  std::from_chars(text.data() + place + 1, text.data() + text.size(), times.user_ticks);
  return times;
}

}  // namespace

void OwnWork::look_at(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::error_code error;
  // Threads first: what the engine does between the two looks counts as the program's, not less than nothing.
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/task", error)) {
    const std::string thread = entry.path().filename().string();
    const std::optional<ThreadTimes> times = read_times(entry.path().string() + "/stat");
    if (times && std::ranges::find(engine_threads, times->name) != engine_threads.end()) {
      engine_ticks_[{process, std::stoi(thread)}] = times->user_ticks;
    }
  }
  if (const std::optional<ThreadTimes> times = read_times(folder + "/stat")) {
    process_ticks_[process] = std::max(process_ticks_[process], times->user_ticks);
  }
}

double OwnWork::seconds() const {
  std::uint64_t all = 0;
  std::uint64_t engine = 0;
  for (const auto& [process, ticks] : process_ticks_) {
    all += ticks;
  }
  for (const auto& [thread, ticks] : engine_ticks_) {
    engine += ticks;
  }
  return static_cast<double>(all - std::min(all, engine)) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace tiermap
