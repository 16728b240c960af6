// File descriptors of Tiermap's own never have the numbers of standard input, output and error: where a program has
// closed those, what it then writes to "standard error" would go into a store.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tiermap {

/// The descriptor, or one above 2 for the same open file if it was lower, which is closed then. Negative ones are
/// returned as they are. If there is no number left: -1, with `errno`.
inline int above_standard_streams(int descriptor) noexcept {
  if (descriptor < 0 || descriptor > STDERR_FILENO) {
    return descriptor;
  }
  const int above = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error_number = errno;
  ::close(descriptor);
  errno = error_number;
  return above;
}

}  // namespace tiermap
