// What the kernel says this process has used.
#pragma once

#include <cstdint>

namespace tiermap {

/// Totals since the process began, all threads together.
struct ProcessUsage {
  std::uint64_t read_bytes = 0;     ///< From /proc/self/io: fetched from storage for this process.
  std::uint64_t written_bytes = 0;  ///< Sent, or (page cache) made dirty to be sent, to storage.
  std::uint64_t major_faults = 0;
  std::uint64_t minor_faults = 0;
  double user_seconds = 0;
  double system_seconds = 0;
};
ProcessUsage read_process_usage();

/// Sets the peak of resident memory back to what is resident now; false where the kernel refuses.
bool reset_peak_resident();
/// VmHWM: the most that was resident at once, since the start or the last reset.
std::uint64_t peak_resident_bytes();

}  // namespace tiermap
