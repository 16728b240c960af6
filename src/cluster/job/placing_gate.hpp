// Between who asks the homes of a shared data set and who moves it to others: not both at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tiermap {

/// Any number pass at a time, also one thread twice, or nobody while it is closed. Who closes it waits until nobody is
/// inside. Until then others are kept out and let in by turns, each turn longer than the one before: so it comes to be
/// closed however many there are that always pass, and what one who is inside depends on can pass. Thread-safe.
class PlacingGate {
 public:
  class Pass {
   public:
    explicit Pass(PlacingGate& gate) : gate_(gate) { gate_.enter(); }
    ~Pass() { gate_.leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    PlacingGate& gate_;
  };
  /// Closed while this is there.
  class Closed {
   public:
    explicit Closed(PlacingGate& gate) : gate_(gate) { gate_.close(); }
    ~Closed() { gate_.open(); }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    PlacingGate& gate_;
  };

 private:
  void enter() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !closed_ && keepers_ == 0; });
    ++inside_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) {
      changed_.notify_all();
    }
  }
  void close() {
    constexpr std::chrono::milliseconds longest_turn = std::chrono::minutes(1);
    std::unique_lock lock(mutex_);
    for (std::chrono::milliseconds turn(1); !wait_for_nobody(lock, turn); turn = std::min(2 * turn, longest_turn)) {
    }
    closed_ = true;
  }
  /// One turn of each kind; true as soon as nobody is inside.
  bool wait_for_nobody(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds turn) {
    const auto nobody = [this] { return !closed_ && inside_ == 0; };
    ++keepers_;
    const bool kept = changed_.wait_for(lock, turn, nobody);
    --keepers_;
    if (kept) {
      return true;
    }
    changed_.notify_all();
    return changed_.wait_for(lock, turn, nobody);
  }
  void open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;  ///< With mutex_, which guards what follows.
  std::uint64_t inside_ = 0;
  std::uint64_t keepers_ = 0;  ///< Who close it, and keep others out meanwhile.
  bool closed_ = false;
};

}  // namespace tiermap
