// The cells, by whichever system brings them into memory: as a vector and its transactions, as a mapped file, or as a
// vector that several ranks share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/message_counts.hpp"
#include "command_line/options.hpp"
#include "command_line/ranks.hpp"
#include "gray-scott/halo.hpp"

namespace tiermap {

/// size^3 cells of two species. Plane after plane, of each first u and then v, so that one pass over the grid is a pass
/// over one array.
template <typename T>
class Grid {
 public:
  /// Over a store of bytes_of(size) bytes. Throws what `system` throws.
  static std::unique_ptr<Grid> make(MemorySystem& system, const WorkloadOptions& options, std::uint64_t size,
                                    const Backing& backing);
  /// By all ranks: one grid, of which each has planes of its own, and a budget of `budget_bytes` for them.
  static std::unique_ptr<Grid> make_shared(Ranks& ranks, const WorkloadOptions& options, std::uint64_t size,
                                           std::uint64_t budget_bytes);
  static std::uint64_t bytes_of(std::uint64_t size) { return 2 * size * size * size * sizeof(T); }
  virtual ~Grid() = default;
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  std::uint64_t size() const noexcept { return size_; }
  /// Those that are this process's to make: all of them, if it is alone.
  VectorRange planes() const noexcept { return planes_; }
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

  /// What is beside planes() where others have that; null if nobody has.
  virtual Halo<T>* halo() noexcept { return nullptr; }
  /// By all ranks: from here on nobody writes, and each reads any plane, as it is at its home.
  virtual void publish() {}
  /// By all ranks: makes the store of this URL, unless the grid is in it already.
  virtual void keep_as(const std::string&) { save(); }
  /// What was asked of the homes so far; nothing if there are none.
  virtual MessageCounts messages() const { return {}; }

 protected:
  Grid(std::uint64_t size, T* cells) : Grid(size, cells, {0, size}) {}
  Grid(std::uint64_t size, T* cells, VectorRange planes) : size_(size), planes_(planes), cells_(cells) {}

  const std::uint64_t size_;
  const VectorRange planes_;
  T* const cells_;
};

/// Of the budget, what a pass may fetch ahead of the planes that it is at. The less it is, the more of the planes that
/// it is done with are still in memory when the next pass comes to them.
inline std::uint64_t pass_ahead_bytes(std::uint64_t budget_bytes) {
  return budget_bytes / 8;
}

}  // namespace tiermap
