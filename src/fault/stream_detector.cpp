#include "fault/stream_detector.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace tiermap {
namespace {

constexpr std::int64_t longest_step = 64;
/// Continuations before anything is read ahead: among as many streams as we keep, random misses in a small region make
/// three pages in a row by chance, five hardly ever.
constexpr std::uint32_t proof = 3;
/// A stream that has seen nothing for this many misses is over.
constexpr std::uint64_t longest_silence = 256;

}  // namespace

void StreamDetector::advise(Advice advice) noexcept {
  const std::lock_guard held(lock_);
  advice_ = advice;
  streams_ = {};
  widest_window_.store(most_pages_, std::memory_order_relaxed);
  pause_.store(shortest_pause, std::memory_order_relaxed);
  left_out_ = 0;
}

void StreamDetector::ended(bool touched) noexcept {
  (touched ? touched_ : untouched_).fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t untouched = untouched_.load(std::memory_order_relaxed);
  if (touched_.load(std::memory_order_relaxed) + untouched < ends_to_judge) {
    return;
  }
  touched_.store(0, std::memory_order_relaxed);
  untouched_.store(0, std::memory_order_relaxed);
  const std::uint32_t width = widest_window();
  if (untouched > ends_to_judge / 2) {
    // Once for what was read ahead since the last verdict: the end of one wide window says nothing of the next.
    if (window_in_use_.load(std::memory_order_relaxed) == 0) {
      return;
    }
    widest_window_.store(std::min(width, window_in_use_.load(std::memory_order_relaxed)) / 2,
                         std::memory_order_relaxed);
    window_in_use_.store(0, std::memory_order_relaxed);
  } else if (untouched < ends_to_judge / 8 && width > 0) {
    widest_window_.store(std::min(most_pages_, width * 2), std::memory_order_relaxed);
    pause_.store(shortest_pause, std::memory_order_relaxed);
  }
}

ReadAhead StreamDetector::extend(Stream& stream, std::uint64_t page) noexcept {
  stream.last = page;
  stream.tick = ++tick_;
  if (stream.confidence < proof) {
    stream.frontier = page;
    return {};
  }
  ReadAhead plan{.step = stream.step};
  read_further(stream, page, plan);
  if (advice_ == Advice::sequential) {
    leave_behind(stream, page, plan);
  }
  return plan;
}

// Whether nothing is to be read ahead, because all of it was in vain of late.
bool StreamDetector::pauses() noexcept {
  if (widest_window() > 0) {
    return false;
  }
  const std::uint32_t pause = pause_.load(std::memory_order_relaxed);
  if (++left_out_ < pause) {
    return true;
  }
  left_out_ = 0;
  pause_.store(std::min(pause * 2, longest_pause), std::memory_order_relaxed);
  widest_window_.store(1, std::memory_order_relaxed);
  return false;
}

// Widens the window and says what is missing up to it.
void StreamDetector::read_further(Stream& stream, std::uint64_t page, ReadAhead& plan) noexcept {
  if (most_pages_ == 0 || pauses()) {
    return;
  }
  const std::int64_t ahead = distance(page, stream.frontier) / stream.step;
  const std::uint32_t widest = widest_window();
  if (ahead * 2 <= static_cast<std::int64_t>(stream.window)) {
    // No sooner, so that what is read past a short stream's end is not many times the stream.
    stream.window = std::min(widest, std::max<std::uint32_t>(stream.window * 2, 4));
  } else if (stream.window >= widest && ahead + request_pages_ <= static_cast<std::int64_t>(widest)) {
    // A reader who outruns the store never has half a window in memory: what is missing has to be under way by then.
    stream.window = widest;
  } else {
    return;
  }
  if (stream.window > window_in_use_.load(std::memory_order_relaxed)) {
    window_in_use_.store(stream.window, std::memory_order_relaxed);
  }
  if (ahead >= static_cast<std::int64_t>(stream.window)) {  // It was wider when that was asked for.
    return;
  }
  const std::uint64_t from = ahead > 0 ? stream.frontier : page;
  plan.count = static_cast<std::uint32_t>(static_cast<std::int64_t>(stream.window) - std::max<std::int64_t>(ahead, 0));
  if (stream.step == 1 && plan.count > aligned_pages_) {
    plan.count -= static_cast<std::uint32_t>((from + 1 + plan.count) % aligned_pages_);
  }
  stream.asked_for += plan.count;
  plan.first = from + static_cast<std::uint64_t>(stream.step);
  stream.frontier = from + static_cast<std::uint64_t>(stream.step * static_cast<std::int64_t>(plan.count));
}

// The page just before this one may be in use still: what the reader looks at can lie across both.
void StreamDetector::leave_behind(Stream& stream, std::uint64_t page, ReadAhead& plan) const noexcept {
  const std::int64_t left = distance(stream.behind, page) / stream.step - 1;
  if (left <= 0) {
    return;
  }
  plan.behind = stream.behind;
  plan.count_behind = static_cast<std::uint32_t>(left);
  stream.behind += static_cast<std::uint64_t>(stream.step * left);
}

// Most of what is ahead of it nobody came to: that is known long before those pages are evicted.
void StreamDetector::forget(const Stream& stream) noexcept {
  if (stream.asked_for > 0) {
    const std::int64_t ahead = distance(stream.last, stream.frontier) / stream.step;  // Negative: passed in a pause.
    ended(ahead * 2 <= static_cast<std::int64_t>(stream.asked_for));
  }
}

ReadAhead StreamDetector::begin(Stream& stream, std::uint64_t page) noexcept {
  forget(stream);
  stream = Stream{};
  if (advice_ == Advice::sequential) {
    stream.step = 1;
    stream.assumed = true;
    stream.confidence = proof;
    stream.window = widest_window();
  }
  stream.frontier = stream.behind = page;
  return extend(stream, page);
}

// A stream that goes another way than was thought: two of its pages are all that is known.
ReadAhead StreamDetector::turn(Stream& stream, std::int64_t step, std::uint64_t page) noexcept {
  forget(stream);
  stream.asked_for = 0;
  stream.step = step;
  stream.assumed = false;
  stream.confidence = advice_ == Advice::sequential ? proof : 1;
  stream.window = advice_ == Advice::sequential ? widest_window() : 0;
  stream.frontier = page;
  return extend(stream, page);
}

// A reader that left out pages which were read ahead goes on all the same. If his step is only assumed he has to touch
// the very next page, or the first one that was not read ahead.
bool StreamDetector::continues(const Stream& stream, std::int64_t moved) noexcept {
  if (stream.step == 0 || moved == 0 || moved % stream.step != 0 || moved / stream.step < 0) {
    return false;
  }
  const std::int64_t steps = moved / stream.step;
  const std::int64_t farthest = std::max<std::int64_t>(1, distance(stream.last, stream.frontier) / stream.step + 1);
  return stream.assumed ? steps == 1 || steps == farthest : steps <= farthest;
}

// Whether only pages that are in memory lie between: of what is read in order again and again some is still there.
bool StreamDetector::passes(std::int64_t moved, std::uint32_t in_memory_before) noexcept {
  return moved > 0 && moved <= std::int64_t{in_memory_before} + 1;
}

ReadAhead StreamDetector::missed(std::uint64_t page, std::uint32_t in_memory_before) noexcept {
  if (!lock_.try_lock()) {
    return {};
  }
  const std::lock_guard held(lock_, std::adopt_lock);
  if (advice_ == Advice::random || (most_pages_ == 0 && advice_ != Advice::sequential)) {
    return {};
  }
  Stream* oldest = streams_.data();
  Stream* near = nullptr;
  for (Stream& stream : streams_) {
    if (stream.tick < oldest->tick) {
      oldest = &stream;
    }
    if (stream.tick == 0 || tick_ - stream.tick > longest_silence) {
      continue;
    }
    const std::int64_t moved = distance(stream.last, page);
    if (continues(stream, moved) || (stream.step == 1 && passes(moved, in_memory_before))) {
      stream.assumed = false;
      ++stream.confidence;
      return extend(stream, page);
    }
    if (moved != 0 && moved >= -longest_step && moved <= longest_step &&
        (near == nullptr || std::abs(moved) < std::abs(distance(near->last, page)))) {
      near = &stream;
    }
  }
  if (near != nullptr && (near->confidence < proof || near->assumed)) {
    const std::int64_t moved = distance(near->last, page);
    return turn(*near, passes(moved, in_memory_before) ? 1 : moved, page);
  }
  return begin(*oldest, page);
}

ReadAhead StreamDetector::used(std::uint64_t page) noexcept {
  if (!lock_.try_lock()) {
    return {};
  }
  const std::lock_guard held(lock_, std::adopt_lock);
  for (Stream& stream : streams_) {
    if (stream.step == 0 || stream.confidence < proof) {
      continue;
    }
    const std::int64_t moved = distance(stream.last, page);
    if (moved % stream.step == 0 && moved / stream.step >= 0 &&
        moved / stream.step <= distance(stream.last, stream.frontier) / stream.step) {
      if (stream.assumed && moved > 1) {
        return turn(stream, moved, page);
      }
      stream.assumed = stream.assumed && moved == 0;
      return extend(stream, page);
    }
  }
  return {};
}

}  // namespace tiermap
