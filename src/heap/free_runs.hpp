// Which slabs are free, as runs: the shortest that is long enough is taken, at its lower end.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace tiermap {

/// Slabs by number. Not thread-safe.
class FreeRuns {
 public:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  /// The first of so many slabs in a row, at a multiple of `alignment` slabs; none if there are none.
  std::uint64_t take(std::uint64_t count, std::uint64_t alignment = 1);
  /// These become free; they must not be.
  void give(std::uint64_t first, std::uint64_t count);

  /// Where the free run around this slab ends; none if the slab is not free.
  std::uint64_t end_of_run(std::uint64_t slab) const noexcept;
  std::uint64_t free_slabs() const noexcept { return free_slabs_; }
  std::uint64_t longest() const noexcept { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }

 private:
  void add(std::uint64_t first, std::uint64_t count);
  void remove(std::map<std::uint64_t, std::uint64_t>::iterator run);

  std::map<std::uint64_t, std::uint64_t> by_first_;              ///< First slab and length.
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_length_;  ///< The same runs: length and first slab.
  std::uint64_t free_slabs_ = 0;
};

}  // namespace tiermap
