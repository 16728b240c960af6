// What whoever started this process has it ignore.
#pragma once

#include <signal.h>

namespace tiermap {

/// As nohup has SIGHUP ignored, and shells SIGINT by what their scripts run in the background. A signal that is blocked
/// and waited for comes all the same.
inline bool is_ignored(int signal_number) noexcept {
  struct sigaction action{};
  return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace tiermap
