#include "umap_interface/log.hpp"

#include <strings.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "platform/control_characters.hpp"
#include "platform/write_unless_closed.hpp"

namespace tiermap::umap_interface {
namespace {

constexpr std::array<const char*, 5> names = {"NONE", "ERROR", "WARNING", "INFO", "DEBUG"};

std::mutex telling_once;

void write_line(std::string_view text) noexcept {
  const int before = errno;
  std::string_view parts[] = {"umap: ", text, "\n"};
  iovec pieces[3];
  for (std::size_t part = 0; part < 3; ++part) {
    pieces[part] = {const_cast<char*>(parts[part].data()), parts[part].size()};
  }
  write_unless_closed(STDERR_FILENO, pieces);
  errno = before;
}

/// -1 if it is none.
int level_of(const char* text) noexcept {
  for (std::size_t level = 0; level < names.size(); ++level) {
    if (::strcasecmp(text, names[level]) == 0) {
      return static_cast<int>(level);
    }
  }
  return -1;
}

// A program that pages for others may set what it likes: nothing is allocated for it.
void tell_of_unknown_level(const char* text) noexcept {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(),
                "UMAP_LOG_LEVEL '%.60s' is unknown: choose ERROR, WARNING, INFO, DEBUG or NONE", text);
  hide_control_characters({line.data(), std::strlen(line.data())});
  write_line(line.data());
}

}  // namespace

// What several threads find out at once is the same. A static that one of them makes would not be done in a child that
// another one forks meanwhile.
LogLevel log_level() noexcept {
  static std::atomic<int> known{-1};
  int level = known.load();
  if (level >= 0) {
    return static_cast<LogLevel>(level);
  }
  const char* const text = std::getenv("UMAP_LOG_LEVEL");
  const int said = text == nullptr ? static_cast<int>(LogLevel::error) : level_of(text);
  const int meant = said < 0 ? static_cast<int>(LogLevel::error) : said;
  if (known.compare_exchange_strong(level, meant) && said < 0) {
    tell_of_unknown_level(text);
  }
  return static_cast<LogLevel>(meant);
}

void log(LogLevel level, std::string_view text) noexcept {
  if (level <= log_level()) {
    write_line(text);
  }
}

void log_once(LogLevel level, const std::string& text) noexcept {
  try {
    const std::lock_guard lock(telling_once);
    static std::set<std::string> told;
    if (!told.insert(text).second) {
      return;
    }
  } catch (...) {  // Out of memory: rather twice than never.
  }
  log(level, text);
}

void hold_log() noexcept {
  telling_once.lock();
}

void release_log() noexcept {
  telling_once.unlock();
}

}  // namespace tiermap::umap_interface
