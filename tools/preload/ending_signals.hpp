// Signals that end the program by default, as Ctrl-C and `kill` do: what it has stored is written back before, as the
// kernel would keep it.
#pragma once

#include <thread>

namespace tiermap::preload {

class Mappings;

/// A thread that waits for such a signal: no handler can write back, since it may have interrupted malloc(). At most
/// one in a process.
class EndingSignals {
 public:
  /// Throws PlatformError if there can be no thread.
  explicit EndingSignals(Mappings& mappings);
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  /// Takes over those that the program leaves at their defaults.
  static void take() noexcept;
  /// In a forked child, where that of the parent is none, and must not be destroyed.
  static void forget_parents() noexcept;

 private:
  std::thread thread_;
};

}  // namespace tiermap::preload
