#include "points/point_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <vector>

#include "tiermap/error.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t number_bytes = sizeof(std::uint32_t);

[[noreturn]] void refuse_points(const Store& store, const std::string& problem) {
  throw StoreError(EINVAL, store.name() + " " + problem);
}

/// Of a store whose format says what it holds.
std::uint32_t dimensions_of(const Store& store, const ElementLayout& elements, std::optional<std::uint32_t> dimensions,
                            const PointTerms& terms) {
  if (elements.kind != 'f' || elements.bytes != sizeof(float) || elements.swapped) {
    // Of these the URL says which numbers are made.
    const bool is_said = store.name().starts_with("csv:") || store.name().starts_with("fits:");
    refuse_points(store, fmt::format("holds elements of type {}, and {} are native floats of 32 bits: {}",
                                     elements.type, terms.points,
                                     is_said ? "say type=float32 behind the question mark of its URL"
                                             : "convert it, with numpy by astype('float32')"));
  }
  if (elements.shape.empty() && store.size_bytes() > elements.bytes) {
    refuse_points(store, fmt::format("holds an array in Fortran order, column after column, and {} lie one after the "
                                     "other: save it anew, with numpy by ascontiguousarray()",
                                     terms.points));
  }
  const std::uint64_t in_a_row = std::max<std::uint64_t>(elements.row_bytes / sizeof(float), 1);
  // Of an array of one dimension nobody can say how many elements are a point.
  if (dimensions && in_a_row != 1 && in_a_row != *dimensions) {
    refuse_points(store, fmt::format("has rows of {} elements, and {} {} are asked for: leave {} out", in_a_row,
                                     *dimensions, terms.dimensions, terms.option));
  }
  if (in_a_row > most_dimensions) {
    refuse_points(store,
                  fmt::format("has rows of {} elements, more than the {} {} that {} may have: choose some of them",
                              in_a_row, most_dimensions, terms.dimensions, terms.points));
  }
  return dimensions.value_or(static_cast<std::uint32_t>(in_a_row));
}

constexpr std::uint64_t looked_at_bytes = 512;

/// Lines of letters that can be printed: so many floats never look like that by chance.
bool is_text(std::string_view bytes) {
  const auto is_letter = [](char byte) { return (byte >= ' ' && byte <= '~') || byte == '\t'; };
  const auto is_line_end = [](char byte) { return byte == '\n' || byte == '\r'; };
  return std::ranges::any_of(bytes, is_line_end) &&
         std::ranges::all_of(bytes, [&](char byte) { return is_letter(byte) || is_line_end(byte); });
}

/// Of a store whose bytes are taken for floats, as they lie.
void refuse_format(Store& store, const PointTerms& terms) {
  struct Format {
    std::string_view begin;
    std::string_view name;
    std::string_view url;
  };
  constexpr std::array<Format, 4> formats = {{
      {"\x93NUMPY", "a .npy file", "npy:PATH"},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file", "hdf5:PATH:/DATASET"},
      {"SIMPLE  ", "a FITS file", "fits:PATH"},
      {"PAR1", "a Parquet file", "parquet:PATH?columns=A,B"},
  }};
  std::string begin(std::min<std::uint64_t>(looked_at_bytes, store.size_bytes()), '\0');
  read_fully(store, begin.data(), begin.size(), 0);
  for (const Format& format : formats) {
    if (begin.starts_with(format.begin)) {
      refuse_points(store, fmt::format("is {}, and no {} as they lie in memory: name it as {}", format.name,
                                       terms.points, format.url));
    }
  }
  if (is_text(begin)) {
    refuse_points(
        store, fmt::format("is text, and no {} as they lie in memory: name it as csv:PATH?type=float32", terms.points));
  }
}

/// Points from a list, in its order: a transaction of the program's own. An access is one coordinate.
class ListedPoints final : public Transaction {
 public:
  ListedPoints(VectorStorage& vector, std::span<const std::uint64_t> points, std::uint32_t dimensions,
               const TransactionOptions& options)
      : Transaction(vector, Intent::read, points.size() * dimensions, options),
        points_(points),
        dimensions_(dimensions) {}

  void pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const override {
    for (; count > 0 && position < length(); --count) {
      const std::uint64_t passed = position % dimensions_;
      const std::uint64_t element = points_[position / dimensions_] * dimensions_ + passed;
      const std::uint64_t page = page_of(element);
      const std::uint64_t here = std::min(dimensions_ - passed, end_of_page(page) - element);
      runs.push_back({page, here});
      position += here;
    }
  }

 private:
  const std::span<const std::uint64_t> points_;
  const std::uint64_t dimensions_;
};

/// By transactions: what is ahead is on its way, and what was passed leaves memory first.
class VectorPoints final : public PointMemory {
 public:
  VectorPoints(MemorySystem& system, const WorkloadOptions& options, const PointLayout& layout, const Backing& points,
               const Backing& assignments)
      : PointMemory(layout),
        points_(Vector<float>::on(points.store(), vector_options(system, options))),
        assignments_(Vector<std::uint32_t>::on(assignments.store(), vector_options(system, options, layout.points))) {
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
  void visit_each(std::span<const std::uint64_t> points, const std::function<void(const float*)>& use) override {
    auto listed = points_.transaction<ListedPoints>(points, layout_.dimensions, of_points_);
    static_cast<void>(listed.until_turn());  // Those that come first are on their way.
    for (const std::uint64_t point : points) {
      use(points_.data() + point * layout_.dimensions);
      listed.advance(layout_.dimensions);
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
  void visit_each(std::span<const std::uint64_t> points, const std::function<void(const float*)>& use) override {
    const std::uint64_t point_bytes = layout_.dimensions * sizeof(float);
    std::vector<ByteRange> ranges;
    for (std::size_t first = 0; first < points.size(); first += most_listed_ahead) {
      const auto here = points.subspan(first, std::min(most_listed_ahead, points.size() - first));
      if (hints_) {
        ranges.clear();
        std::ranges::transform(here, std::back_inserter(ranges),
                               [&](std::uint64_t point) { return ByteRange{point * point_bytes, point_bytes}; });
        points_->prefetch(ranges);
      }
      for (const std::uint64_t point : here) {
        use(points_->as_span<const float>().data() + point * layout_.dimensions);
      }
    }
  }
  void save_assignments() override { assignments_->save(); }

 private:
  static constexpr std::uint64_t pieces_ahead = 16;
  static constexpr std::size_t most_listed_ahead = 1024;

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

PointLayout layout_of_points(Store& store, std::optional<std::uint32_t> dimensions, const PointTerms& terms) {
  const std::optional<ElementLayout> elements = store.element_layout();
  PointLayout layout;
  layout.dimensions =
      elements ? dimensions_of(store, *elements, dimensions, terms) : dimensions.value_or(terms.usual_dimensions);
  const std::uint64_t point_bytes = layout.dimensions * sizeof(float);
  const std::uint64_t bytes = store.size_bytes();
  if (bytes == 0) {
    refuse_points(
        store, fmt::format("has no {}: name a file that has some, or make one with `{}`", terms.points, terms.maker));
  }
  if (!elements) {
    refuse_format(store, terms);
  }
  if (bytes % point_bytes != 0) {
    refuse_points(store, fmt::format("has {} bytes, no whole number of {} of {} floats ({} bytes): say by {} how many "
                                     "each of them has",
                                     bytes, terms.points, layout.dimensions, point_bytes, terms.option));
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
