// Vectors along which something shines: the best of a search, however many threads it has.
#pragma once

#include <cstdint>
#include <vector>

#include "median/image_directory.hpp"
#include "median/search_plan.hpp"

namespace tiermap {

/// The median along one vector.
struct VectorMedian {
  std::uint64_t vector = 0;  ///< Which of the plan.
  std::uint32_t pixels = 0;  ///< How many had a value.
  float flux = 0;            ///< The median of what they are above the sky.
  float significance = 0;    ///< By how many standard deviations of such a median that is above 0.
};

/// Keeps the most significant ones, whatever the order in which they come.
class BestMedians {
 public:
  /// More than this are not kept: of a bright object there are many.
  static constexpr std::size_t most = 16384;

  /// Vectors under `always_kept` are kept beside those, however many are better: what is known is looked for among
  /// them.
  explicit BestMedians(std::uint64_t always_kept) : always_kept_(always_kept) {}

  void add(const VectorMedian& median);
  void add(const BestMedians& others);
  /// All that are kept, the most significant first.
  std::vector<VectorMedian> sorted() const;

 private:
  void drop_worst();

  std::uint64_t always_kept_;
  std::vector<VectorMedian> medians_;
  std::vector<VectorMedian> known_;  ///< Of the vectors that are always kept.
};

/// One thing seen, by the best of all vectors that meet it.
struct Detection {
  VectorMedian median;
  MotionVector motion;
};

/// What is left if of vectors near one another only the best counts; the most significant first.
std::vector<Detection> detections_of(const BestMedians& best, const SearchPlan& plan);

/// The detection of a known object, or nullptr.
const Detection* find_object(const std::vector<Detection>& detections, const KnownObject& object, double duration);

}  // namespace tiermap
