#include "command_line/process_usage.hpp"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace tiermap {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// The number after `key` in a file of "key: number" lines; 0 if it is not there.
std::uint64_t number_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::uint64_t number = 0;
    if (word == key && file >> number) {
      return number;
    }
    file.clear();
  }
  return 0;
}

}  // namespace

ProcessUsage read_process_usage() {
  ProcessUsage usage;
  usage.read_bytes = number_in("/proc/self/io", "read_bytes:");
  usage.written_bytes = number_in("/proc/self/io", "write_bytes:");
  rusage resources{};
  if (::getrusage(RUSAGE_SELF, &resources) == 0) {
    usage.major_faults = static_cast<std::uint64_t>(resources.ru_majflt);
    usage.minor_faults = static_cast<std::uint64_t>(resources.ru_minflt);
    usage.user_seconds = seconds(resources.ru_utime);
    usage.system_seconds = seconds(resources.ru_stime);
  }
  return usage;
}

bool reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

std::uint64_t peak_resident_bytes() {
  return number_in("/proc/self/status", "VmHWM:") * 1024;
}

}  // namespace tiermap
