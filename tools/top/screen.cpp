#include "top/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>

namespace tiermap {
namespace {

volatile std::sig_atomic_t end_asked = 0;

void ask_for_end(int) {
  end_asked = 1;
}
void do_nothing(int) {}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

winsize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

void install(int signal_number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;  // Without SA_RESTART: the signal is to interrupt poll().
  ::sigaction(signal_number, &action, nullptr);
}

}  // namespace

Screen::Screen() {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    install(signal_number, ask_for_end);
  }
  install(SIGWINCH, do_nothing);
  keys_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (keys_) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VSUSP] = _POSIX_VDISABLE;  // Stopped, the terminal would be left as it is now.
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  write_all("\x1b[?1049h\x1b[?25l");  // The other screen, no cursor.
}

Screen::~Screen() {
  write_all("\x1b[?25h\x1b[?1049l");
  if (keys_) {
    // A terminal stops who changes it from the background, as whoever was started by timeout(1) does.
    ::signal(SIGTTOU, SIG_IGN);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
}

std::size_t Screen::columns() const {
  return terminal_size().ws_col;
}

void Screen::draw(const std::vector<std::string>& lines) const {
  const std::size_t rows = std::min<std::size_t>(lines.size(), terminal_size().ws_row);
  std::string text = "\x1b[H";
  for (std::size_t row = 0; row < rows; ++row) {
    text += row == 0 ? "\x1b[7m" + lines[row] + "\x1b[0m" : lines[row];
    text += row + 1 < rows ? "\x1b[K\r\n" : "\x1b[K";
  }
  write_all(text + "\x1b[J");
}

bool Screen::wait(std::chrono::milliseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (end_asked == 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return true;
    }
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&input, keys_ ? 1 : 0, static_cast<int>(left.count()));
    if (ready < 0) {
      return end_asked == 0;  // A signal: the end, or a new size to draw for.
    }
    if (ready > 0) {
      char key = 0;
      if (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') {
        return false;
      }
    }
  }
  return false;
}

}  // namespace tiermap
