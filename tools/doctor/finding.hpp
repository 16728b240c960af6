// What `tiermap doctor` found out, one line each. The checks are grouped in files by what they look at.
#pragma once

#include <string>
#include <vector>

namespace tiermap {

struct Finding {
  /// good: as it should be. limited: works, but more could be had. missing: cannot be used.
  enum class State : unsigned char { good, limited, missing };

  std::string section;
  std::string name;
  State state = State::good;
  std::string value;
  std::string remedy;  ///< What to do about it; empty if good.
};

/// The finding that only user-mode faults are permitted; absent where all are.
inline constexpr const char* system_call_faults = "faults of system calls";

using Findings = std::vector<Finding>;

/// The three ways to a userfaultfd, and the features that the kernel offers by one.
Findings examine_userfaultfd();

/// The kernel: page size, io_uring, huge pages.
Findings examine_kernel();

/// Limits of this process and its control group, and memory.
Findings examine_limits();

/// A directory: whether files in it can be made, mapped, read with O_DIRECT and in what units, and how far its device
/// reads ahead. Throws OptionError if it is no directory that can be opened.
Findings examine_directory(const std::string& path);

/// "EPERM (Operation not permitted)".
std::string describe_error(int error_number);

/// The first line of a file of /proc or /sys; empty if it cannot be read.
std::string read_line(const std::string& path);

}  // namespace tiermap
