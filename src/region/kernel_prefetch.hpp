// Prefetches of fault mode kernel: one thread that makes pages present, in the order asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "fault/prefetch_state.hpp"
#include "observe/counters.hpp"
#include "region/kernel_mapping.hpp"

namespace tiermap {

/// All members are thread-safe.
class KernelPrefetch {
 public:
  KernelPrefetch();
  /// Gives up what is queued.
  ~KernelPrefetch();

  /// Queues whole pages of the mapping, up to `most_bytes` of them; the rest is given up at once.
  std::shared_ptr<PrefetchState> add(KernelMapping& mapping, CounterBlock& region, CounterBlock& cache,
                                     std::span<const ByteRange> ranges, std::uint64_t most_bytes);
  /// Gives up what is queued of a mapping, and returns when it is no longer touched.
  void cancel(const KernelMapping& mapping);

 private:
  struct Request {
    KernelMapping* mapping;
    CounterBlock* region;
    CounterBlock* cache;
    ByteRange range;  ///< What is left to do.
    std::shared_ptr<PrefetchState> state;
  };
  void work();
  static std::uint32_t pages_in(const KernelMapping& mapping, ByteRange range) noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  const KernelMapping* busy_with_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tiermap
