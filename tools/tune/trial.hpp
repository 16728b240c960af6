// One run of a command: how it ended, how long it took, and what its caches did.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tiermap/statistics.hpp"

namespace tiermap {

/// Variables of the environment, and their values.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Trial {
  double seconds = 0;        ///< Until it ended or was ended.
  double paged_seconds = 0;  ///< Of those, since its first page was fetched.
  double work_seconds = 0;   ///< Since then, processor time in user mode of its own threads: not of the engine's.
  bool finished = false;     ///< It ended by itself.
  int exit_code = 0;         ///< As a shell has it: 128 and the number of the signal that ended it.
  std::string errors;        ///< The end of what it wrote to standard error.

  bool seen = false;      ///< A cache of its was.
  Statistics statistics;  ///< Of all its caches.
  std::string policy;     ///< Of the cache with the most fills; so are the next two.
  std::string fault_mode;
  std::uint64_t budget_bytes = 0;
  std::uint64_t page_bytes = 0;  ///< Of the region with the most fills.
  bool one_page_size = true;     ///< Whether all regions with fills have it.
};

/// Somebody asked this program to end.
struct Interrupted : std::runtime_error {
  explicit Interrupted(int number) : std::runtime_error("interrupted"), signal_number(number) {}
  int signal_number;
};

/// While one lives SIGINT, SIGTERM and SIGHUP, unless whoever started this ignores them, end the trial that runs, with
/// Interrupted, instead of this program.
class InterruptsHeld {
 public:
  InterruptsHeld();
  ~InterruptsHeld();
  InterruptsHeld(const InterruptsHeld&) = delete;
  InterruptsHeld& operator=(const InterruptsHeld&) = delete;
};

/// Runs the command with these variables beside the environment's own, in a process group of its own, with nothing to
/// read and its output thrown away. After `limit_seconds` the group gets SIGTERM, and SIGKILL if that does not help.
/// Throws Error if the command cannot be started.
Trial run_trial(const std::vector<std::string>& command, const Settings& settings, double limit_seconds);

}  // namespace tiermap
