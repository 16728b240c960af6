#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>

#include "config/size.hpp"
#include "doctor/finding.hpp"
#include "platform/memory_limits.hpp"

namespace tiermap {
namespace {

constexpr const char* limits_section = "limits";

std::string format_limit(rlim_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) {
    return "unlimited";
  }
  return bytes ? format_size(limit) : std::to_string(limit);
}

/// A limit of this process; below `enough` it is worth raising.
Finding examine_limit(const char* name, __rlimit_resource resource, rlim_t enough, bool bytes, const char* remedy) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  std::string value = format_limit(limit.rlim_cur, bytes);
  if (limit.rlim_max != limit.rlim_cur) {
    value += " (hard limit " + format_limit(limit.rlim_max, bytes) + ")";
  }
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < enough) {
    return {limits_section, name, Finding::State::limited, value, remedy};
  }
  return {limits_section, name, Finding::State::good, value, ""};
}

Finding examine_map_count() {
  constexpr unsigned long enough = 65530;
  const std::string value = read_line("/proc/sys/vm/max_map_count");
  if (std::strtoul(value.c_str(), nullptr, 10) >= enough) {
    return {limits_section, "max_map_count", Finding::State::good, value, ""};
  }
  return {limits_section, "max_map_count", Finding::State::limited, value.empty() ? "unknown" : value,
          "set sysctl vm.max_map_count=65530: programs with many regions need many mappings"};
}

Finding examine_memory(const MachineMemory& memory) {
  const std::string value =
      fmt::format("{} in all, {} available", format_size_rounded(memory.total), format_size_rounded(memory.available));
  return {limits_section, "memory", Finding::State::good, value, ""};
}

Finding examine_cgroup(const MachineMemory& memory) {
  if (memory.cgroup_limit == MachineMemory::unlimited) {
    return {limits_section, "cgroup memory", Finding::State::good, "no limit", ""};
  }
  const std::string value = fmt::format("{}, of which {} is used", format_size_rounded(memory.cgroup_limit),
                                        format_size_rounded(memory.cgroup_usage));
  if (memory.usable_bytes() < memory.cgroup_limit / 10) {
    return {limits_section, "cgroup memory", Finding::State::limited, value,
            "raise the control group's limit, or end something in it: a budget of 50% is half of what is left"};
  }
  return {limits_section, "cgroup memory", Finding::State::good, value, ""};
}

Finding examine_pressure(const MachineMemory& memory) {
  if (!memory.pressure_some_avg10) {
    return {limits_section, "memory pressure", Finding::State::limited, "not told",
            "boot with psi=1: budgets that follow the machine's free memory (TIERMAP_ADAPT) then see pressure too"};
  }
  return {limits_section, "memory pressure", Finding::State::good,
          fmt::format("{:.2f}% of the last 10 seconds", *memory.pressure_some_avg10), ""};
}

}  // namespace

Findings examine_limits() {
  constexpr rlim_t mebi = 1024 * 1024;
  const MachineMemory memory = read_machine_memory();
  return {
      examine_memory(memory),
      examine_cgroup(memory),
      examine_pressure(memory),
      examine_limit("locked memory", RLIMIT_MEMLOCK, 8 * mebi, true,
                    "raise it (ulimit -l 8192): kernels before 5.12 count io_uring's memory against it"),
      examine_limit("open files", RLIMIT_NOFILE, 1024, false,
                    "raise it (ulimit -n 1024): a sparse store keeps a file open for each segment"),
      examine_limit("address space", RLIMIT_AS, RLIM_INFINITY, true,
                    "lift it (ulimit -v unlimited): regions take address space far beyond memory"),
      examine_map_count(),
  };
}

}  // namespace tiermap
