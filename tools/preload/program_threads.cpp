#include "preload/program_threads.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace tiermap::preload {

bool other_threads_run(pid_t thread) noexcept try {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (task.path().filename() == std::to_string(thread)) {
      continue;
    }
    std::ifstream file(task.path() / "stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t name = text.find('(');
    const std::size_t past = text.rfind(')');
    if (name == std::string::npos || past == std::string::npos || past + 2 >= text.size()) {
      continue;  // It has just ended.
    }
    // Of the kernel's own the workers of the engine's rings.
    const bool engines = std::ranges::any_of(std::array{"tiermap-", "tm-", "iou-"}, [&](std::string_view start) {
      return std::string_view(text).substr(name + 1).starts_with(start);
    });
    if (!engines && text[past + 2] != 'Z' && text[past + 2] != 'X') {
      return true;
    }
  }
  return static_cast<bool>(error);
} catch (const std::exception&) {  // Out of memory.
  return true;
}

}  // namespace tiermap::preload
