#include "median/detection.hpp"

#include <algorithm>
#include <tuple>

namespace tiermap {
namespace {

/// Two vectors that meet one object, each at its edge, may be so far apart.
constexpr double same_object_pixels = 4;

bool is_better(const VectorMedian& one, const VectorMedian& other) noexcept {
  return std::tuple(-one.significance, one.vector) < std::tuple(-other.significance, other.vector);
}

}  // namespace

void BestMedians::add(const VectorMedian& median) {
  if (median.vector < always_kept_) {
    known_.push_back(median);
    return;
  }
  medians_.push_back(median);
  if (medians_.size() >= 2 * most) {
    drop_worst();
  }
}

void BestMedians::add(const BestMedians& others) {
  medians_.insert(medians_.end(), others.medians_.begin(), others.medians_.end());
  known_.insert(known_.end(), others.known_.begin(), others.known_.end());
  drop_worst();
}

void BestMedians::drop_worst() {
  if (medians_.size() > most) {
    std::nth_element(medians_.begin(), medians_.begin() + most, medians_.end(), is_better);
    medians_.resize(most);
  }
}

std::vector<VectorMedian> BestMedians::sorted() const {
  std::vector<VectorMedian> medians = medians_;
  std::sort(medians.begin(), medians.end(), is_better);
  medians.resize(std::min(medians.size(), most));
  medians.insert(medians.end(), known_.begin(), known_.end());
  std::sort(medians.begin(), medians.end(), is_better);
  return medians;
}

std::vector<Detection> detections_of(const BestMedians& best, const SearchPlan& plan) {
  std::vector<Detection> detections;
  for (const VectorMedian& median : best.sorted()) {
    const MotionVector motion = plan[median.vector];
    const bool known = std::any_of(detections.begin(), detections.end(), [&](const Detection& detection) {
      return motions_are_near(detection.motion, motion, plan.duration, same_object_pixels);
    });
    if (!known) {
      detections.push_back({median, motion});
    }
  }
  return detections;
}

const Detection* find_object(const std::vector<Detection>& detections, const KnownObject& object, double duration) {
  const auto found = std::find_if(detections.begin(), detections.end(), [&](const Detection& detection) {
    return motions_are_near(detection.motion, object.motion, duration, SearchPlan::around_pixels);
  });
  return found == detections.end() ? nullptr : &*found;
}

}  // namespace tiermap
