// How ranks send each other rows: short records of one length, of which each goes to one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tiermap {

/// Everything is by all ranks, in the same order.
class RowExchange {
 public:
  using Send = std::function<void(std::uint32_t to, const void* row)>;
  struct Rows {
    std::uint64_t row_bytes = 0;                      ///< A multiple of four.
    std::vector<std::uint64_t> counts;                ///< How many go to each rank.
    std::function<void(const Send&)> produce;         ///< Sends so many.
    std::function<void(std::uint64_t count)> expect;  ///< Told how many are to come, before any does.
    /// Gets them: those of rank 0 first, of each rank in the order in which it sent them. Those from itself may come at
    /// any time.
    std::function<void(std::uint32_t from, const std::byte* row)> consume;
  };

  virtual ~RowExchange() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;
  virtual void exchange(const Rows& rows) = 0;
  /// What all ranks have, in their order.
  virtual std::vector<std::uint64_t> gather(std::vector<std::uint64_t> own) = 0;
};

}  // namespace tiermap
