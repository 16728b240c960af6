// Row groups that were decoded, as many as there is room for: each is decoded once for all who want it meanwhile, by
// several threads as many at once, and ahead of who goes through them in order.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "platform/address_range.hpp"

namespace tiermap {

/// A row group is decoded as a whole into memory that is counted before it is taken: all that is decoded or being
/// decoded stays within the limit, but for one row group, which there is always room for. What leaves first is what was
/// used longest ago and nobody reads now.
///
/// Ahead go threads of its own, which only take room that is free, or that of row groups of which everything was read.
/// Thread-safe. A child of fork() has neither the threads nor knows what they were at: read() is -EBUSY there.
class DecodedGroups {
 public:
  /// Fills `records` with a row group's bytes; returns 0 or a negative errno value. Of one that goes `ahead` nobody is
  /// to hear: who needs the row group asks again.
  using Decode = std::function<int(std::size_t group, char* records, bool ahead)>;

  DecodedGroups(std::vector<std::uint64_t> group_bytes, std::uint64_t most_bytes, Decode decode);
  ~DecodedGroups();
  DecodedGroups(const DecodedGroups&) = delete;
  DecodedGroups& operator=(const DecodedGroups&) = delete;

  /// Copies from the inside of a row group. Returns 0 or a negative errno value.
  int read(std::size_t group, std::uint64_t offset, char* buffer, std::size_t bytes);

  /// How many were decoded until now: for tests.
  std::uint64_t decoded() const;

 private:
  struct Entry {
    AddressRange records;
    bool ready = false;
    unsigned readers = 0;
    std::uint64_t last_used = 0;
    std::uint64_t read_bytes = 0;  ///< Of all reads together: as many as it has, and it was read.
  };

  bool was_read(std::size_t group) const;
  bool make_room(std::uint64_t bytes, bool ahead);
  Entry& insert(std::size_t group);
  int decode(std::unique_lock<std::mutex>& lock, std::size_t group, bool ahead);
  void go_ahead(std::size_t group) noexcept;
  void run();

  const std::vector<std::uint64_t> group_bytes_;
  const std::uint64_t most_bytes_;
  const Decode decode_;
  const unsigned most_threads_;
  const pid_t owner_;
  mutable std::mutex mutex_;
  /// A row group is ready, or is not read any more; there is something ahead, or it is the end. Apart, for a child of
  /// fork() must leave them: to destroy one waits for the parent's threads that wait there.
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::unique_ptr<std::condition_variable> wanted_ = std::make_unique<std::condition_variable>();
  std::unordered_map<std::size_t, Entry> entries_;
  AddressRange spare_;  ///< Memory of the last one that left: the next takes it over.
  std::uint64_t used_bytes_ = 0;
  std::uint64_t uses_ = 0;
  std::uint64_t decoded_ = 0;
  std::deque<std::size_t> ahead_;  ///< Room is taken already.
  std::vector<std::thread> threads_;
  bool ending_ = false;
};

}  // namespace tiermap
