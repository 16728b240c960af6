// Calls that may never return, since a store written in Python has the last word: done by a thread of their own, so
// that Ctrl-C ends the waiting.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace tiermap::python {

/// What a region has under way. What was given up goes on, and the region's end waits for it.
class Errands {
 public:
  /// Does `work`, and throws what it throws. Needs the GIL, and releases it meanwhile. Where a signal handler of
  /// Python's raises, as that of Ctrl-C does, its exception comes at once: then `work` goes on, and `undo` is called
  /// once it has succeeded. Both run without the GIL, and must be good for as long as this.
  void run(std::function<void()> work, std::function<void()> undo);
  /// Returns when nothing is under way any more.
  void wait() const noexcept;
  /// In a forked child: the threads are not here.
  void forget() noexcept { under_way_ = std::make_shared<std::atomic<int>>(0); }

 private:
  std::shared_ptr<std::atomic<int>> under_way_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace tiermap::python
