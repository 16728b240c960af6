// How much memory this process may still take: the machine's, its control group's (version 1 and 2), and how hard the
// kernel is pressed for it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace tiermap {

/// A look at the machine. All sizes in bytes.
struct MachineMemory {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t total = 0;      ///< MemTotal.
  std::uint64_t available = 0;  ///< MemAvailable: free, or freed without swapping.
  /// Of the control group, ours or one above, that leaves least; unlimited if none limits.
  std::uint64_t cgroup_limit = unlimited;
  /// What that group uses, less its file cache, which the kernel drops before it refuses memory.
  std::uint64_t cgroup_usage = 0;
  /// That group, by its controllers and path: "memory:/job/step", or ":/job/step" in version 2. Empty if none limits.
  std::string cgroup;
  /// Share of the last 10 seconds, in percent, in which some task waited for memory: the larger of the machine's and
  /// our control group's. Nothing if the kernel does not say.
  std::optional<double> pressure_some_avg10;

  /// What there is for this process: all of the machine's, or what the control group may have. 0: nothing is known.
  std::uint64_t most_bytes() const noexcept;
  /// What may still be taken: the smaller of what the machine has available and what the control group leaves.
  std::uint64_t usable_bytes() const noexcept;
};

/// Reads /proc and /sys below `root`, which tests point at a tree of their own. What cannot be read keeps its default;
/// never throws for it. Thread-safe.
MachineMemory read_machine_memory(const std::string& root = "/");

/// Whether a process, by its number, lies in a group as MachineMemory names it, or below. True if nobody can tell.
bool lies_in_cgroup(const std::string& process, const std::string& cgroup, const std::string& root = "/");

/// Bytes of addresses that this process may have by `ulimit -v` and `-d` (RLIMIT_AS, RLIMIT_DATA), the smaller of both;
/// MachineMemory::unlimited if none limits. Thread-safe.
std::uint64_t address_limit_bytes() noexcept;

/// What budgets may have of a limit of addresses, of which a cache reserves some three times its budget: a quarter.
/// Thread-safe.
std::uint64_t addresses_for_budgets() noexcept;

/// What a budget may be a share of: what may still be taken of the memory, and no more than addresses_for_budgets().
/// Thread-safe.
std::uint64_t memory_for_budgets() noexcept;

}  // namespace tiermap
