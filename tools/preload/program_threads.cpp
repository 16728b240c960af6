#include "preload/program_threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

namespace tiermap::preload {

namespace {

enum class Thread { programs, engines };

/// Whether there is one of that kind, but for `spared`. The program's count until they end, the engine's until they are
/// gone.
bool any_thread(Thread kind, pid_t spared) {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (task.path().filename() == std::to_string(spared)) {
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
    if (kind == Thread::engines ? engines : !engines && text[past + 2] != 'Z' && text[past + 2] != 'X') {
      return true;
    }
  }
  return static_cast<bool>(error);
}

}  // namespace

bool other_threads_run(pid_t thread) noexcept try {
  return any_thread(Thread::programs, thread);
} catch (const std::exception&) {  // Out of memory.
  return true;
}

void wait_for_ended_threads() noexcept try {
  constexpr int attempts = 1000;  // 0.1 s: others of that name may be another library's.
  for (int attempt = 0; attempt < attempts && any_thread(Thread::engines, ::gettid()); ++attempt) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
} catch (const std::exception&) {  // Out of memory.
}

}  // namespace tiermap::preload
