#include "platform/memory_limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace tiermap {
namespace {

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  // "max", which is how version 2 writes no limit, is no number.
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number after `key` in a file of lines "key number ...".
std::uint64_t read_field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t number = 0;
    if (words >> word && word == key && words >> number) {
      return number;
    }
  }
  return 0;
}

/// avg10 of the line "some avg10=1.23 avg60=..."
std::optional<double> read_pressure(const std::string& path) {
  std::ifstream file(path);
  std::string kind;
  std::string average;
  if (!(file >> kind >> average) || kind != "some" || !average.starts_with("avg10=")) {
    return std::nullopt;
  }
  double value = 0;
  const char* end = average.data() + average.size();
  const auto [stop, error] = std::from_chars(average.data() + 6, end, value);
  const bool number = error == std::errc{} && stop == end && std::isfinite(value) && value >= 0;
  return number ? std::optional(value) : std::nullopt;
}

/// The names of the files of one version of control groups.
struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* inactive_file;
  const char* active_file;
};
constexpr CgroupFiles version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                   "total_active_file"};
constexpr CgroupFiles version_2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

/// Of /proc/.../cgroup: "number:controllers:path"; version 2 has the number 0 and no controllers.
struct CgroupLine {
  std::string controllers;
  std::string path;  ///< Empty: the mount itself.
};

std::vector<CgroupLine> read_cgroup_lines(const std::string& path) {
  std::vector<CgroupLine> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second != std::string::npos) {
      const std::string place = line.substr(second + 1);
      lines.push_back({line.substr(first + 1, second - first - 1), place == "/" ? "" : place});
    }
  }
  return lines;
}

/// Takes the group of the line below `mount`, and those above it, into account. In a container the path may be one of
/// the host's that is not to be seen from inside; then the levels that can be seen are the container's own.
void apply_cgroup(MachineMemory& memory, const std::string& mount, CgroupLine line, const CgroupFiles& files) {
  std::string& path = line.path;
  while (true) {
    const std::string group = mount + path + "/";
    const auto limit = read_number(group + files.limit);
    // Version 1 writes no limit as a huge number; a limit beyond the machine's memory is none either.
    if (limit && (memory.total == 0 || *limit < memory.total)) {
      const std::string statistics = group + "memory.stat";
      const std::uint64_t cache =
          read_field(statistics, files.inactive_file) + read_field(statistics, files.active_file);
      const std::uint64_t charged = read_number(group + files.usage).value_or(0);
      const std::uint64_t usage = charged - std::min(charged, cache);
      const std::uint64_t left = *limit - std::min(*limit, usage);
      if (memory.cgroup_limit == MachineMemory::unlimited ||
          left < memory.cgroup_limit - std::min(memory.cgroup_limit, memory.cgroup_usage)) {
        memory.cgroup_limit = *limit;
        memory.cgroup_usage = usage;
        memory.cgroup = line.controllers + ":" + path;
      }
    }
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
      return;
    }
    path.resize(slash);
  }
}

void apply_pressure(MachineMemory& memory, const std::string& path) {
  if (const auto pressure = read_pressure(path)) {
    memory.pressure_some_avg10 = std::max(memory.pressure_some_avg10.value_or(0), *pressure);
  }
}

void apply_cgroups(MachineMemory& memory, const std::string& root) {
  for (const CgroupLine& line : read_cgroup_lines(root + "proc/self/cgroup")) {
    if (line.controllers.empty()) {
      // Beside version 1 the unified hierarchy has a folder of its own.
      for (const char* mount : {"sys/fs/cgroup", "sys/fs/cgroup/unified"}) {
        apply_cgroup(memory, root + mount, line, version_2);
        apply_pressure(memory, root + mount + line.path + "/memory.pressure");
      }
    } else if (("," + line.controllers + ",").find(",memory,") != std::string::npos) {
      apply_cgroup(memory, root + "sys/fs/cgroup/memory", line, version_1);
    }
  }
}

}  // namespace

std::uint64_t MachineMemory::most_bytes() const noexcept {
  return std::min(total, cgroup_limit);
}

std::uint64_t MachineMemory::usable_bytes() const noexcept {
  if (cgroup_limit == unlimited) {
    return available;
  }
  return std::min(available, cgroup_limit - std::min(cgroup_limit, cgroup_usage));
}

MachineMemory read_machine_memory(const std::string& root) {
  const std::string folder = root.ends_with('/') ? root : root + "/";
  MachineMemory memory;
  memory.total = read_field(folder + "proc/meminfo", "MemTotal:") * 1024;
  memory.available = read_field(folder + "proc/meminfo", "MemAvailable:") * 1024;
  apply_cgroups(memory, folder);
  apply_pressure(memory, folder + "proc/pressure/memory");
  return memory;
}

bool lies_in_cgroup(const std::string& process, const std::string& cgroup, const std::string& root) {
  const std::string folder = root.ends_with('/') ? root : root + "/";
  bool told = false;
  for (const CgroupLine& line : read_cgroup_lines(folder + "proc/" + process + "/cgroup")) {
    const std::size_t end = cgroup.find(':');
    if (end != std::string::npos && line.controllers == cgroup.substr(0, end)) {
      told = true;
      if ((line.path + "/").starts_with(cgroup.substr(end + 1) + "/")) {
        return true;
      }
    }
  }
  return !told;
}

std::uint64_t address_limit_bytes() noexcept {
  static_assert(RLIM_INFINITY == MachineMemory::unlimited);
  rlimit all = {}, data = {};
  const bool known = ::getrlimit(RLIMIT_AS, &all) == 0 && ::getrlimit(RLIMIT_DATA, &data) == 0;
  return known ? std::min(all.rlim_cur, data.rlim_cur) : MachineMemory::unlimited;
}

std::uint64_t addresses_for_budgets() noexcept {
  constexpr std::uint64_t addresses_for_each_byte = 4;
  return address_limit_bytes() / addresses_for_each_byte;
}

std::uint64_t memory_for_budgets() noexcept {
  return std::min(read_machine_memory().usable_bytes(), addresses_for_budgets());
}

}  // namespace tiermap
