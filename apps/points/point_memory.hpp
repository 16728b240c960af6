// The points, and the number of the cluster of each, by whichever system brings them into memory: as two vectors and
// their transactions, or as two mapped files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/options.hpp"
#include "tiermap/vector_storage.hpp"

namespace tiermap {

/// Points lie one after the other, and so do the coordinates of each, as floats.
struct PointLayout {
  std::uint64_t points = 0;
  std::uint32_t dimensions = 0;

  std::uint64_t bytes() const noexcept { return points * dimensions * sizeof(float); }
};

inline constexpr std::uint32_t most_dimensions = 4096;

/// What a program's user calls points, and what of it can be changed.
struct PointTerms {
  const char* points = "points";
  const char* dimensions = "dimensions";
  const char* option = "--dimensions";
  const char* maker = "tiermap-kmeans generate";
  std::uint32_t usual_dimensions = 3;  ///< Where neither format nor user says how many there are.
};

/// What is in the store: as many dimensions as its format says that a row has elements, else `dimensions`, else the
/// usual ones. Throws StoreError for what are no points: other elements than floats, another number of dimensions, no
/// point at all, a length that is no whole number of points, a file of numpy's or HDF5's that is named without its
/// format.
PointLayout layout_of_points(Store& store, std::optional<std::uint32_t> dimensions, const PointTerms& terms = {});

/// Points that are in memory, one after the other.
struct PointPiece {
  std::uint64_t first;         ///< Which point is the first.
  std::uint64_t count;         ///< How many there are.
  const float* coordinates;    ///< Those of the first, then those of the second, and so on.
  std::uint32_t* assignments;  ///< The cluster of each; null where assignments are not asked for.
};

/// Whether a visit reads and writes the assignments, too.
enum class Assignments : std::uint8_t { left, visited };

class PointMemory {
 public:
  /// `assignments` has four bytes for each point. Throws what `system` throws.
  static std::unique_ptr<PointMemory> make(MemorySystem& system, const WorkloadOptions& options,
                                           const PointLayout& layout, const Backing& points,
                                           const Backing& assignments);
  virtual ~PointMemory() = default;

  const PointLayout& layout() const noexcept { return layout_; }

  /// Calls `use` with the points of the range, in pieces and in order. Any number of threads may do so at once.
  virtual void visit(VectorRange points, Assignments assignments,
                     const std::function<void(const PointPiece&)>& use) = 0;
  /// Calls `use` with the coordinates of each of these points, in this order, wherever they lie. Any number of threads
  /// may do so at once.
  virtual void visit_each(std::span<const std::uint64_t> points, const std::function<void(const float*)>& use) = 0;
  /// The assignments are on the store when this returns.
  virtual void save_assignments() = 0;

 protected:
  explicit PointMemory(const PointLayout& layout) : layout_(layout) {}
  /// So many points at most are in a piece: enough for the call not to count, and few enough to see how far it is.
  static constexpr std::uint64_t most_in_a_piece = 16384;

  const PointLayout layout_;
};

}  // namespace tiermap
