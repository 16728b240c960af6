#include "preload/standard_error.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/kernel_calls.hpp"

namespace tiermap::preload {
namespace {

struct AtFirst {
  bool open = false;
  dev_t device = 0;
  ino_t file = 0;
};
AtFirst at_first;

/// Of a file that was not there at first: whether it looks like one that lines are written to.
bool is_for_lines() noexcept {
  const auto flags = static_cast<int>(::syscall(SYS_fcntl, STDERR_FILENO, F_GETFL));
  return flags >= 0 && ((flags & O_APPEND) != 0 || (at_first.open && (flags & O_ACCMODE) == O_WRONLY));
}

}  // namespace

void note_standard_error() noexcept {
  struct stat status = {};
  at_first.open = kernel::status(STDERR_FILENO, &status) == 0;
  at_first.device = status.st_dev;
  at_first.file = status.st_ino;
}

bool standard_error_can_be_told() noexcept {
  const int saved = errno;
  struct stat status = {};
  const bool is_there = kernel::status(STDERR_FILENO, &status) == 0;
  const bool has_data = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
  const bool same = at_first.open && status.st_dev == at_first.device && status.st_ino == at_first.file;
  const bool can_be_told = is_there && (!has_data || same || is_for_lines());
  errno = saved;
  return can_be_told;
}

}  // namespace tiermap::preload
