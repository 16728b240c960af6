#include "platform/process_start.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace tiermap {

std::optional<std::uint64_t> process_start_time(pid_t process) {
  const int descriptor = ::open(("/proc/" + std::to_string(process) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return std::nullopt;
  }
  std::array<char, 1024> buffer{};
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  ::close(descriptor);
  if (got <= 0) {
    return std::nullopt;
  }
  std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  // The second field is the program's name in parentheses, which may hold blanks and parentheses itself.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) {
    return std::nullopt;
  }
  text.remove_prefix(name_end + 2);
  // A zombie has ended.
  if (text.front() == 'Z' || text.front() == 'X') {
    return std::nullopt;
  }
  constexpr int fields_before_start_time = 19;  // From the third field, the state, to the 22nd.
  for (int field = 0; field < fields_before_start_time; ++field) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) {
      return std::nullopt;
    }
    text.remove_prefix(blank + 1);
  }
  std::uint64_t ticks = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), ticks);
  return error == std::errc{} && stop != text.data() ? std::optional(ticks) : std::nullopt;
}

}  // namespace tiermap
