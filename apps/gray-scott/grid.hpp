// The cells, by whichever system brings them into memory: as a vector and its transactions, or as a mapped file.
#pragma once

#include <cstdint>
#include <memory>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/options.hpp"

namespace tiermap {

/// size^3 cells of two species. Plane after plane, of each first u and then v, so that one pass over the grid is a pass
/// over one array.
template <typename T>
class Grid {
 public:
  /// Over a store of bytes_of(size) bytes. Throws what `system` throws.
  static std::unique_ptr<Grid> make(MemorySystem& system, const WorkloadOptions& options, std::uint64_t size,
                                    const Backing& backing);
  static std::uint64_t bytes_of(std::uint64_t size) { return 2 * size * size * size * sizeof(T); }
  virtual ~Grid() = default;
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  std::uint64_t size() const noexcept { return size_; }
  T* u_plane(std::uint64_t z) const noexcept { return cells_ + 2 * z * size_ * size_; }
  T* v_plane(std::uint64_t z) const noexcept { return u_plane(z) + size_ * size_; }

  /// So many planes are about to be read and written, from the first on and around, by any threads, up to so many of
  /// them at once.
  virtual void begin_pass(std::uint64_t planes, std::uint64_t at_once) = 0;
  /// So many of them nobody comes back to. For one thread at a time.
  virtual void passed(std::uint64_t planes) = 0;
  virtual void end_pass() = 0;
  /// All of it is on the store when this returns.
  virtual void save() = 0;

 protected:
  Grid(std::uint64_t size, T* cells) : size_(size), cells_(cells) {}

  const std::uint64_t size_;
  T* const cells_;
};

/// Of the budget, what a pass may fetch ahead of the planes that it is at. The less it is, the more of the planes that
/// it is done with are still in memory when the next pass comes to them.
inline std::uint64_t pass_ahead_bytes(std::uint64_t budget_bytes) {
  return budget_bytes / 8;
}

}  // namespace tiermap
