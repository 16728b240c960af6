// Signals that end the program by default, as Ctrl-C and `kill` do: what it has stored is written back before, as the
// kernel would keep it. For those who serve programs that expect the kernel's mappings.
#pragma once

#include <functional>
#include <thread>

namespace tiermap {

/// A thread that waits for such a signal: no handler can write back, since it may have interrupted malloc(). At most
/// one in a process.
class EndingSignals {
 public:
  /// Calls before_end() in that thread, and ends the process by the signal once it returns; where the signal came the
  /// program stands still meanwhile, for 10 s. Throws PlatformError if there can be no thread.
  explicit EndingSignals(std::function<void()> before_end);
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  /// Takes over those that the program leaves at their defaults; none in the first process of a system or a container,
  /// which the kernel ends by none.
  static void take() noexcept;
  /// Whether it is one of those, whatever the program does with it.
  static bool ends_by(int number) noexcept;
  /// Whether it has been taken over.
  static bool has_taken(int number) noexcept;
  /// Takes over a signal, of those or another that ends the program, that the program has left at its default again;
  /// one of those that has a handler for once, soon after that. A handler may call this.
  static void take_again(int number) noexcept;
  /// The program is about to end by itself, perhaps in a handler: calls before_end() in that thread, once, and waits
  /// for it. False if there is no such thread any more.
  static bool finish() noexcept;
  /// In a forked child, where that of the parent is none, and must not be destroyed.
  static void forget_parents() noexcept;

 private:
  std::thread thread_;
};

}  // namespace tiermap
