// Long subcommands that are interrupted: what they made is to be taken away first.
#pragma once

#include <csignal>

#include "commands.hpp"

namespace tiermap {

inline volatile std::sig_atomic_t caught_signal = 0;

/// From now on SIGINT, SIGTERM and SIGHUP are only noted, unless whoever started this ignores them.
inline void catch_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(number, SIG_IGN) != SIG_IGN) {
      std::signal(number, [](int caught) { caught_signal = caught; });
    }
  }
}

/// Throws the exit code that shells give to what a signal ended, if one was noted.
inline void stop_if_interrupted() {
  constexpr int shell_signal_base = 128;
  if (caught_signal != 0) {
    throw ExitCode{shell_signal_base + caught_signal};
  }
}

}  // namespace tiermap
