#include "points/point_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tiermap/error.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

constexpr std::uint32_t default_dimensions = 3;
constexpr std::uint64_t number_bytes = sizeof(std::uint32_t);

[[noreturn]] void refuse_points(const Store& store, const std::string& problem) {
  throw StoreError(EINVAL, store.name() + " " + problem);
}

/// Of a store whose format says what it holds.
std::uint32_t dimensions_of(const Store& store, const ElementLayout& elements,
                            std::optional<std::uint32_t> dimensions) {
  if (elements.kind != 'f' || elements.bytes != sizeof(float) || elements.swapped) {
    refuse_points(store, fmt::format("holds elements of type {}, and points are native floats of 32 bits: convert it, "
                                     "with numpy by astype('float32')",
                                     elements.type));
  }
  const std::uint64_t in_a_row = std::max<std::uint64_t>(elements.row_bytes / sizeof(float), 1);
  // Of an array of one dimension nobody can say how many elements are a point.
  if (dimensions && in_a_row != 1 && in_a_row != *dimensions) {
    refuse_points(store, fmt::format("has rows of {} elements, and {} dimensions are asked for: leave --dimensions out",
                                     in_a_row, *dimensions));
  }
  if (in_a_row > most_dimensions) {
    refuse_points(store,
                  fmt::format("has rows of {} elements, more than the {} dimensions that points may have: choose "
                              "some of its columns",
                              in_a_row, most_dimensions));
  }
  return dimensions.value_or(static_cast<std::uint32_t>(in_a_row));
}

/// By transactions: what is ahead is on its way, and what was passed leaves memory first.
class VectorPoints final : public PointMemory {
 public:
  VectorPoints(MemorySystem& system, const WorkloadOptions& options, const PointLayout& layout, const Backing& points,
               const Backing& assignments)
      : PointMemory(layout),
        points_(Vector<float>::open_read_only(points.url(), vector_options(system, options))),
        assignments_(Vector<std::uint32_t>::open(assignments.url(), vector_options(system, options, layout.points))) {
    of_points_.prefetch = options.prefetch;
    of_assignments_.prefetch = options.prefetch;
    // Half of the budget is for what is on its way, as if there were one vector. A point is larger than its number.
    const std::uint64_t window = std::max<std::uint64_t>(system.budget_bytes() / 2 / options.threads, 8);
    of_assignments_.window_bytes = window / (layout.dimensions + 1);
    of_points_.window_bytes = window - of_assignments_.window_bytes;
  }

  void visit(VectorRange points, Assignments assignments, const std::function<void(const PointPiece&)>& use) override {
    const std::uint64_t dimensions = layout_.dimensions;
    auto reading = points_.read({points.first * dimensions, points.count * dimensions}, of_points_);
    if (assignments == Assignments::left) {
      walk(reading, nullptr, points.first, use);
    } else {
      auto writing = assignments_.read_write(points, of_assignments_);
      walk(reading, &writing, points.first, use);
    }
  }
  void save_assignments() override { assignments_.sync(); }

 private:
  /// With room for no more than `elements`.
  static VectorOptions vector_options(MemorySystem& system, const WorkloadOptions& options,
                                      std::uint64_t elements = 0) {
    VectorOptions vector;
    vector.cache = system.cache();
    vector.page_size_bytes = system.page_size_bytes();
    vector.read_ahead_bytes = options.read_ahead_bytes;
    vector.advice = options.advice;
    vector.capacity_bytes = elements * number_bytes;
    return vector;
  }

  /// What the transaction hands out ends with a page, which may be in the middle of a point. Of that one the rest is
  /// read ahead, as it is on its way by then: what is behind may be on its way out.
  void walk(SequentialTransaction<const float>& reading, SequentialTransaction<std::uint32_t>* writing,
            std::uint64_t point, const std::function<void(const PointPiece&)>& use) const {
    const std::uint64_t dimensions = layout_.dimensions;
    for (auto part = reading.next(); !part.empty(); part = reading.next()) {
      const auto coordinates = static_cast<std::uint64_t>(part.data() + part.size() - points_.data());
      const std::uint64_t end = (coordinates + dimensions - 1) / dimensions;
      while (point < end) {
        std::uint64_t count = std::min(end - point, most_in_a_piece);
        if (writing != nullptr) {
          count = std::min(count, writing->until_turn());
        }
        use({point, count, points_.data() + point * dimensions,
             writing != nullptr ? assignments_.data() + point : nullptr});
        if (writing != nullptr) {
          writing->advance(count);
        }
        point += count;
      }
    }
  }

  Vector<float> points_;
  Vector<std::uint32_t> assignments_;
  TransactionOptions of_points_;
  TransactionOptions of_assignments_;
};

/// By mmap() and its hints, or with everything in memory.
class MappedPoints final : public PointMemory {
 public:
  MappedPoints(MemorySystem& system, const WorkloadOptions& options, const PointLayout& layout, const Backing& points,
               const Backing& assignments)
      : PointMemory(layout),
        hints_(options.prefetch),
        points_(system.map(points, Access::read_only)),
        assignments_(system.map(assignments, Access::read_write)) {}

  void visit(VectorRange points, Assignments assignments, const std::function<void(const PointPiece&)>& use) override {
    const bool visited = assignments == Assignments::visited;
    const std::uint64_t end = points.first + points.count;
    std::uint64_t announced = points.first;
    for (std::uint64_t point = points.first; point < end; point += most_in_a_piece) {
      const std::uint64_t count = std::min(end - point, most_in_a_piece);
      while (hints_ && announced < std::min(end, point + pieces_ahead * most_in_a_piece)) {
        announce({announced, std::min(end - announced, most_in_a_piece)}, visited);
        announced += most_in_a_piece;
      }
      use({point, count, points_->as_span<const float>().data() + point * layout_.dimensions,
           visited ? assignments_->as_span<std::uint32_t>().data() + point : nullptr});
      if (visited && hints_) {
        assignments_->flush({point * number_bytes, count * number_bytes});
      }
    }
  }
  void save_assignments() override { assignments_->save(); }

 private:
  static constexpr std::uint64_t pieces_ahead = 16;

  void announce(VectorRange points, bool visited) {
    const std::uint64_t point_bytes = layout_.dimensions * sizeof(float);
    points_->prefetch({points.first * point_bytes, points.count * point_bytes});
    if (visited) {
      assignments_->prefetch({points.first * number_bytes, points.count * number_bytes});
    }
  }

  const bool hints_;
  const std::unique_ptr<MappedBytes> points_;
  const std::unique_ptr<MappedBytes> assignments_;
};

}  // namespace

PointLayout layout_of_points(const Store& store, std::optional<std::uint32_t> dimensions) {
  const std::optional<ElementLayout> elements = store.element_layout();
  PointLayout layout;
  layout.dimensions = elements ? dimensions_of(store, *elements, dimensions) : dimensions.value_or(default_dimensions);
  const std::uint64_t point_bytes = layout.dimensions * sizeof(float);
  const std::uint64_t bytes = store.size_bytes();
  if (bytes == 0) {
    refuse_points(store, "has no points: name a file that has some, or make one with `tiermap-kmeans generate`");
  }
  if (bytes % point_bytes != 0) {
    refuse_points(store, fmt::format("has {} bytes, no whole number of points of {} floats ({} bytes): say by "
                                     "--dimensions how many coordinates a point has",
                                     bytes, layout.dimensions, point_bytes));
  }
  layout.points = bytes / point_bytes;
  return layout;
}

std::unique_ptr<PointMemory> PointMemory::make(MemorySystem& system, const WorkloadOptions& options,
                                               const PointLayout& layout, const Backing& points,
                                               const Backing& assignments) {
  if (system.cache() != nullptr) {
    return std::make_unique<VectorPoints>(system, options, layout, points, assignments);
  }
  return std::make_unique<MappedPoints>(system, options, layout, points, assignments);
}

}  // namespace tiermap
