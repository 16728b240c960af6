// A request that waits for its reply.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "cluster/wire/wire.hpp"
#include "platform/futex.hpp"

namespace tiermap {

struct PendingCall {
  /// Once, by whoever took it off its connection's list.
  void complete(WireReply with) {
    if (then) {
      then(std::move(with));
      return;
    }
    reply = std::move(with);
    done.store(1, std::memory_order_release);
    futex_wake_all(&done);
  }
  void fail(int error_number) { complete({-error_number, {}, {}}); }
  bool is_done() const noexcept { return done.load(std::memory_order_acquire) != 0; }

  std::shared_ptr<WireWorker> worker;
  std::function<void(WireReply)> then;  ///< Instead of somebody who waits.
  std::uint64_t patience = 0;           ///< In nanoseconds; 0: without an end.
  std::uint64_t deadline = 0;           ///< In nanoseconds; 0: none.
  std::atomic<std::uint32_t> done{0};
  WireReply reply;
};

}  // namespace tiermap
