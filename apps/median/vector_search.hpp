// Medians along many vectors at once, on whatever kind of cube.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "median/cube.hpp"
#include "median/detection.hpp"
#include "median/search_plan.hpp"
#include "median/sky.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

struct SearchOptions {
  std::uint64_t in_flight = 0;          ///< Vectors of one thread, together.
  std::uint64_t lookahead_bytes = 0;    ///< How far ahead one thread says which pages it will touch; 0 for never.
  double threshold = 7;                 ///< What is less significant is no detection.
  std::uint64_t sampled_medians = 256;  ///< How many medians are kept to be checked, at most.
};

struct SearchResult {
  BestMedians best{0};
  std::vector<VectorMedian> sample;
};

/// One thread's part of the search. A number of vectors go through the images together, those that begin near one
/// another side by side: so a page that several of them meet is fetched once, and many can be on their way at once.
template <typename Cube>
class VectorFlight {
 public:
  VectorFlight(const Cube& cube, const SearchPlan& plan, const std::vector<double>& times, const Sky& sky,
               const SearchOptions& options)
      : cube_(cube), plan_(plan), times_(times), sky_(sky), options_(options) {}

  /// Calls `result` with each vector's median.
  template <typename Result>
  void fly(std::uint64_t first, std::uint64_t count, Result&& result) {
    vectors_.clear();
    for (std::uint64_t vector = first; vector < first + count; ++vector) {
      vectors_.push_back({plan_[vector], vector});
    }
    std::sort(vectors_.begin(), vectors_.end(),
              [](const Vector& one, const Vector& other) { return one.motion.y < other.motion.y; });
    values_.resize(count * times_.size());
    go_through_images();
    for (std::uint64_t begin = 0; begin < count; begin += turned_vectors) {
      turn(begin, std::min(turned_vectors, count - begin));
      for (std::uint64_t index = begin; index < std::min(begin + turned_vectors, count); ++index) {
        const std::span along = std::span(turned_).subspan((index - begin) * times_.size(), times_.size());
        result(median_of_vector(vectors_[index].number, along));
      }
    }
  }

 private:
  struct Vector {
    MotionVector motion;
    std::uint64_t number = 0;
  };
  /// A step is one image and so many vectors. Of these it is said at once which pages they meet.
  static constexpr std::uint64_t step_vectors = 1024;
  /// As many values as there are in a line of the processor's cache.
  static constexpr std::uint64_t turned_vectors = 16;

  std::span<const Vector> vectors_of(std::uint64_t part) const {
    const std::span all = std::span(vectors_);
    return all.subspan(part * step_vectors, std::min(step_vectors, all.size() - part * step_vectors));
  }

  void go_through_images() {
    const std::uint64_t parts = (vectors_.size() + step_vectors - 1) / step_vectors;
    const std::uint64_t steps = parts * times_.size();
    announced_bytes_.assign(steps, 0);
    std::uint64_t announced = 0;
    std::uint64_t ahead = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (; announced < steps && ahead < options_.lookahead_bytes; ++announced) {
        announced_bytes_[announced] = announce(announced / parts, vectors_of(announced % parts));
        ahead += announced_bytes_[announced];
      }
      gather(step / parts, vectors_of(step % parts),
             values_.data() + step / parts * vectors_.size() + step % parts * step_vectors);
      ahead -= announced_bytes_[step];
    }
  }
  /// Says which pages of an image will be touched, each once. Returns how many bytes these are.
  std::uint64_t announce(std::uint64_t image, std::span<const Vector> vectors) {
    pages_.clear();
    for (const Vector& vector : vectors) {
      if (const std::uint64_t pixel = pixel_at(vector.motion, times_[image], plan_.shape); pixel != outside_image) {
        pages_.push_back(cube_.page_of(image, pixel));
      }
    }
    std::sort(pages_.begin(), pages_.end());
    pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
    cube_.prefetch(image, pages_);
    return pages_.size() * cube_.page_size_bytes();
  }
  void gather(std::uint64_t image, std::span<const Vector> vectors, float* values) const {
    for (std::uint64_t index = 0; index < vectors.size(); ++index) {
      const std::uint64_t pixel = pixel_at(vectors[index].motion, times_[image], plan_.shape);
      values[index] = pixel == outside_image ? no_value : cube_.pixel(image, pixel) - sky_.levels[image];
    }
  }
  /// From image after image to vector after vector.
  void turn(std::uint64_t begin, std::uint64_t count) {
    turned_.resize(turned_vectors * times_.size());
    for (std::uint64_t image = 0; image < times_.size(); ++image) {
      for (std::uint64_t index = 0; index < count; ++index) {
        turned_[index * times_.size() + image] = values_[image * vectors_.size() + begin + index];
      }
    }
  }
  VectorMedian median_of_vector(std::uint64_t vector, std::span<float> values) const {
    const auto end = std::remove_if(values.begin(), values.end(), [](float value) { return std::isnan(value); });
    const auto pixels = static_cast<std::size_t>(end - values.begin());
    VectorMedian median{vector, static_cast<std::uint32_t>(pixels), median_of(values.first(pixels)), 0};
    // Of few pixels little can be said, however bright they are.
    if (2 * pixels >= times_.size()) {
      median.significance = static_cast<float>(median.flux / sky_.noise_of_median(pixels));
    }
    return median;
  }

  const Cube& cube_;
  const SearchPlan& plan_;
  const std::vector<double>& times_;
  const Sky& sky_;
  const SearchOptions& options_;
  std::vector<Vector> vectors_;
  std::vector<float> values_;  ///< Image after image, of each a value for every vector.
  std::vector<float> turned_;  ///< The same of a few vectors, vector after vector.
  std::vector<std::uint64_t> pages_;
  std::vector<std::uint64_t> announced_bytes_;  ///< Of each step.
};

/// Goes through all vectors of the plan. The result does not depend on the number of threads.
template <typename Cube>
SearchResult search_vectors(const Cube& cube, const SearchPlan& plan, const std::vector<double>& times, const Sky& sky,
                            const SearchOptions& options, ThreadTeam& team, ProgressDisplay& progress) {
  SearchResult all;
  all.best = BestMedians(plan.around_objects());
  const std::uint64_t stride = plan.size() / std::max<std::uint64_t>(options.sampled_medians, 1) + 1;
  all.sample.resize((plan.size() + stride - 1) / stride);
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  team.run([&](std::uint32_t) {
    VectorFlight<Cube> flight(cube, plan, times, sky, options);
    BestMedians best(plan.around_objects());
    for (;;) {
      const std::uint64_t first = next.fetch_add(options.in_flight);
      if (first >= plan.size()) {
        break;
      }
      const std::uint64_t count = std::min(options.in_flight, plan.size() - first);
      flight.fly(first, count, [&](const VectorMedian& median) {
        if (median.vector % stride == 0) {
          all.sample[median.vector / stride] = median;
        }
        if (median.significance >= options.threshold) {
          best.add(median);
        }
      });
      progress.add(count);
    }
    const std::lock_guard lock(mutex);
    all.best.add(best);
  });
  return all;
}

}  // namespace tiermap
