// Between who asks the homes of a shared data set and who moves it to others: not both at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tiermap {

/// Any number pass at a time, also one thread twice, or nobody while it is closed. Who closes it waits until nobody is
/// inside; until then others still get in, so that what one who is inside depends on can pass. Thread-safe.
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
    changed_.wait(lock, [this] { return !closed_; });
    ++inside_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) {
      changed_.notify_all();
    }
  }
  void close() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !closed_ && inside_ == 0; });
    closed_ = true;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;  ///< With mutex_, which guards what follows.
  std::uint64_t inside_ = 0;
  bool closed_ = false;
};

}  // namespace tiermap
