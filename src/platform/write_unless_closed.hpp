// A last word on standard error that costs the program nothing if nobody listens.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string_view>

namespace tiermap {

/// Runs `write`, which returns as write() does. Where it writes to a pipe that nobody reads any more, no SIGPIPE comes
/// of it. Safe in signal handlers; changes `errno`.
template <typename Write>
ssize_t without_broken_pipe(Write write) noexcept {
  sigset_t pipe;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  sigpending(&pending);
  const ssize_t written = write();
  if (written < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    constexpr timespec at_once{};
    sigtimedwait(&pipe, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return written;
}

/// Writes the pieces in one go; what cannot be written at once is left out. Where `descriptor` is a pipe that nobody
/// reads any more, no SIGPIPE comes of it. At most 1024 pieces, and 4096 bytes in all. Safe in signal handlers; changes
/// `errno`.
inline void write_unless_closed(int descriptor, std::span<const iovec> pieces) noexcept {
  pollfd room{descriptor, POLLOUT, 0};
  if (::poll(&room, 1, 0) != 1) {  // A pipe that is full would keep us. If it has room, then for 4096 bytes.
    return;
  }
  without_broken_pipe([&] { return ::writev(descriptor, pieces.data(), static_cast<int>(pieces.size())); });
}

/// The same of one text, to standard error.
inline void tell_unless_closed(std::string_view text) noexcept {
  const iovec piece{const_cast<char*>(text.data()), text.size()};
  write_unless_closed(STDERR_FILENO, {&piece, 1});
}

}  // namespace tiermap
