#include "cluster/job/process_age.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>

namespace tiermap {
namespace {

/// Clock ticks from the machine's start to this process's; 0 where it is not told.
std::uint64_t start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // The name may have anything in it.
  if (name_end == std::string::npos) {
    return 0;
  }
  constexpr int fields_between = 19;  // proc(5): the name is field 2, the start time field 22.
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 0; number < fields_between; ++number) {
    fields >> field;
  }
  std::uint64_t ticks = 0;
  fields >> ticks;
  return fields ? ticks : 0;
}

}  // namespace

std::chrono::milliseconds process_age() noexcept {
  constexpr std::int64_t second = 1000;
  try {
    const auto ticks = static_cast<std::int64_t>(start_ticks());
    const std::int64_t ticks_a_second = ::sysconf(_SC_CLK_TCK);
    timespec now{};
    if (ticks == 0 || ticks_a_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
      return {};
    }
    // It began within the tick that follows.
    const std::int64_t began = (ticks + 1) * second / ticks_a_second + 1;
    return std::chrono::milliseconds(std::max<std::int64_t>(now.tv_sec * second + now.tv_nsec / 1'000'000 - began, 0));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace tiermap
