// Memory for frames that arrive.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "platform/futex.hpp"

namespace tiermap {

/// Frames that everybody is done with serve again: malloc gives memory of this size back to the kernel, which then
/// clears every page of it anew for each frame. Thread-safe.
class ArrivalFrames : public std::enable_shared_from_this<ArrivalFrames> {
 public:
  /// Of so many bytes, or more.
  std::shared_ptr<std::byte[]> take(std::size_t bytes) {
    if (bytes < least_kept_bytes || bytes > frame_bytes) {
      return std::make_shared_for_overwrite<std::byte[]>(bytes);
    }
    Frame frame;
    {
      const std::lock_guard lock(lock_);
      if (!free_.empty()) {
        frame = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (frame == nullptr) {
      frame = std::make_unique_for_overwrite<std::byte[]>(frame_bytes);
    }
    return {frame.release(), [all = shared_from_this()](std::byte* bytes_of) { all->give_back(Frame(bytes_of)); }};
  }

 private:
  using Frame = std::unique_ptr<std::byte[]>;

  /// Smaller ones malloc keeps itself.
  static constexpr std::size_t least_kept_bytes = 16 << 10;
  /// What a piece of a store and its header take, with room for what goes along. Of a shorter frame the rest is never
  /// touched.
  static constexpr std::size_t frame_bytes = 384 << 10;
  static constexpr std::size_t most_free = 32;

  void give_back(Frame frame) {
    const std::lock_guard lock(lock_);
    if (free_.size() < most_free) {
      free_.push_back(std::move(frame));
    }
  }

  FutexLock lock_;
  std::vector<Frame> free_ = reserved();

  static std::vector<Frame> reserved() {
    std::vector<Frame> frames;
    frames.reserve(most_free);
    return frames;
  }
};

}  // namespace tiermap
