// What transactions say of how soon they need which pages, on its way to the tiers of the servers that have them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cluster/memory_protocol.hpp"
#include "cluster/remote/placement.hpp"
#include "cluster/wire/wire.hpp"

namespace tiermap {

/// To one server, of one data set. One message at a time is on its way, and nobody waits for it; what is said meanwhile
/// goes together in the next one, as far as that has room, and is lost beyond. A server that refuses one, or is gone,
/// is sent no more. Thread-safe.
class ScoreSender : public std::enable_shared_from_this<ScoreSender> {
 public:
  ScoreSender(std::shared_ptr<WireConnection> connection, std::uint16_t kind, std::uint64_t handle)
      : connection_(std::move(connection)), kind_(kind), handle_(handle) {}

  /// Of what lies there from `offset` on.
  void add(const ScoredRange& range) noexcept;
  std::uint64_t messages() const noexcept { return messages_.load(std::memory_order_relaxed); }
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  /// Whether it is a part of what is sent next.
  bool collect(const ScoredRange& range);
  void send_if_idle();
  void stop() noexcept;

  const std::shared_ptr<WireConnection> connection_;
  const std::uint16_t kind_;
  const std::uint64_t handle_;
  std::atomic<std::uint64_t> messages_{0};
  std::atomic<std::uint64_t> bytes_{0};  ///< Of their bodies.
  std::mutex mutex_;                     ///< Guards what follows, and is not held while anything is sent.
  std::vector<ScoredRange> next_;
  std::uint64_t next_bytes_ = 0;  ///< That these ranges have.
  bool under_way_ = false;
  bool stopped_ = false;
};

/// To all servers of a data set.
class DataSetScores {
 public:
  explicit DataSetScores(const DataSetPlacement& placement) noexcept : placement_(placement) {}
  /// The servers in their order; null for one that wants none, or is not there. `read_nanoseconds` as it says.
  void add_server(std::shared_ptr<ScoreSender> sender, std::uint64_t read_nanoseconds);

  /// Store::score(), within the data set.
  void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept;
  /// Store::read_microseconds(): 0 where no server wants scores, else as the slowest said when it was attached.
  double read_microseconds(std::uint64_t bytes) const noexcept;
  std::uint64_t messages() const noexcept;
  std::uint64_t bytes() const noexcept;

 private:
  const DataSetPlacement placement_;
  std::vector<std::shared_ptr<ScoreSender>> senders_;
  std::uint64_t read_nanoseconds_ = 0;
};

}  // namespace tiermap
