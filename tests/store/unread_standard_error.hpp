// Standard error as a pipe that nobody reads any more: who writes to it gets SIGPIPE, which ends a program.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace tiermap {

class UnreadStandardError {
 public:
  UnreadStandardError() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) == 0) {
      ::close(ends[0]);
      ::dup2(ends[1], STDERR_FILENO);
      ::close(ends[1]);
    }
  }
  ~UnreadStandardError() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  UnreadStandardError(const UnreadStandardError&) = delete;
  UnreadStandardError& operator=(const UnreadStandardError&) = delete;

 private:
  const int before_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
};

}  // namespace tiermap
