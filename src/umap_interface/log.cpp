#include "umap_interface/log.hpp"

#include <strings.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
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

LogLevel read_level() noexcept {
  const char* text = std::getenv("UMAP_LOG_LEVEL");
  if (text == nullptr) {
    return LogLevel::error;
  }
  for (std::size_t level = 0; level < names.size(); ++level) {
    if (::strcasecmp(text, names[level]) == 0) {
      return static_cast<LogLevel>(level);
    }
  }
  // A program that pages for others may set what it likes: nothing is allocated for it.
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(),
                "UMAP_LOG_LEVEL '%.60s' is unknown: choose ERROR, WARNING, INFO, DEBUG or NONE", text);
  hide_control_characters({line.data(), std::strlen(line.data())});
  write_line(line.data());
  return LogLevel::error;
}

}  // namespace

LogLevel log_level() noexcept {
  static const LogLevel level = read_level();
  return level;
}

void log(LogLevel level, std::string_view text) noexcept {
  if (level <= log_level()) {
    write_line(text);
  }
}

void log_once(LogLevel level, const std::string& text) noexcept {
  static std::set<std::string> told;
  try {
    const std::lock_guard lock(telling_once);
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
