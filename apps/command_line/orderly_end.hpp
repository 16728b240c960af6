// For who changes what was there before: an interruption that leaves it whole.
#pragma once

namespace tiermap {

/// Somebody asked the process to end, and its work has come to an end of its own.
struct WorkInterrupted {};

/// While this lives SIGINT, SIGTERM and SIGHUP end nothing: the work stops by itself, where what it changes is whole.
/// What was asked meanwhile is done when this goes. One at a time.
class OrderlyEnd {
 public:
  OrderlyEnd();
  ~OrderlyEnd();
  OrderlyEnd(const OrderlyEnd&) = delete;
  OrderlyEnd& operator=(const OrderlyEnd&) = delete;
  /// Throws WorkInterrupted once the process has been asked to end. Thread-safe.
  void check() const;
};

/// Ends the process by the signal that an OrderlyEnd held back, after removing what is noted (interruption.hpp): for
/// who catches WorkInterrupted at last.
[[noreturn]] void end_as_asked() noexcept;

}  // namespace tiermap
