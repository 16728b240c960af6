// The terminal while `tiermap top` has it.
#pragma once

#include <termios.h>

#include <chrono>
#include <string>
#include <vector>

namespace tiermap {

/// Takes the terminal's other screen and its keys; gives both back when destroyed, also after an exception. SIGINT,
/// SIGTERM and SIGHUP end the wait instead of the program, so that it always comes to that.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::size_t columns() const;
  /// Shows these lines, as many as fit; the first one inverted.
  void draw(const std::vector<std::string>& lines) const;
  /// Waits for so long, or until the size changes. Returns false when it is time to end: q, end of input, a signal.
  bool wait(std::chrono::milliseconds duration);

 private:
  termios before_{};
  bool keys_ = false;  ///< Whether standard input is a terminal too.
};

}  // namespace tiermap
