// How much a program computed itself, as far as the kernel counts it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <utility>

namespace tiermap {

/// Processor time in user mode of processes, less that of the engine's threads in them. That is the program's own work
/// but for what it does in the kernel: it grows with its progress, whatever pages cost.
class OwnWork {
 public:
  /// Looks at a process that runs. To be called now and then: what a process does after the last look does not count.
  void look_at(pid_t process);
  double seconds() const;

 private:
  std::map<pid_t, std::uint64_t> process_ticks_;
  std::map<std::pair<pid_t, pid_t>, std::uint64_t> engine_ticks_;  ///< Of threads, which may have ended.
};

}  // namespace tiermap
