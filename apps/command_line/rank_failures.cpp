#include "command_line/rank_failures.hpp"

#include <chrono>
#include <utility>

#include "command_line/interruption.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

RankFailures::RankFailures(Ranks& ranks, std::function<void(const std::string&)> complain)
    : ranks_(ranks), complain_(std::move(complain)), thread_([this] { look(); }) {}

RankFailures::~RankFailures() {
  stop_looking();
}

void RankFailures::stop_looking() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void RankFailures::tell(const std::string& message) {
  const std::lock_guard lock(telling_);
  if (std::exchange(told_, true)) {
    return;
  }
  if (ranks_.is_first_to_tell()) {
    complain_(message);
  } else {
    ranks_.wait_for_failure();
  }
}

void RankFailures::look() {
  constexpr std::chrono::milliseconds between_looks{500};
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, between_looks, [this] { return stopping_; })) {
    lock.unlock();
    try {
      ranks_.require_health();
    } catch (const StoreError& error) {
      tell(error.what());
      end_after_failure();
    }
    lock.lock();
  }
}

}  // namespace tiermap
