#include "median/search_plan.hpp"

#include <cmath>
#include <numbers>

#include "parallel/random.hpp"

namespace tiermap {

double random_fraction(std::uint64_t seed, std::uint64_t index) noexcept {
  return static_cast<double>(random_word(seed, index) >> 11U) * 0x1p-53;
}

MotionVector random_motion(std::uint64_t seed, std::uint64_t index, const CubeShape& shape, const SpeedRange& speeds) {
  const auto fraction = [&](std::uint64_t which) { return random_fraction(seed, 4 * index + which); };
  const double speed = speeds.slowest + fraction(0) * (speeds.fastest - speeds.slowest);
  const double direction = 2 * std::numbers::pi * fraction(1);
  return {fraction(2) * static_cast<double>(shape.width) - 0.5, fraction(3) * static_cast<double>(shape.height) - 0.5,
          speed * std::cos(direction), speed * std::sin(direction)};
}

bool motions_are_near(const MotionVector& one, const MotionVector& other, double duration, double pixels) noexcept {
  const double x = one.x - other.x;
  const double y = one.y - other.y;
  return std::abs(x) <= pixels && std::abs(y) <= pixels &&
         std::abs(x + (one.speed_x - other.speed_x) * duration) <= pixels &&
         std::abs(y + (one.speed_y - other.speed_y) * duration) <= pixels;
}

MotionVector SearchPlan::operator[](std::uint64_t index) const {
  if (index >= around_objects()) {
    return random_motion(seed, index - around_objects(), shape, speeds);
  }
  const auto offset = [&](std::uint64_t which) {
    return (2 * random_fraction(~seed, 4 * index + which) - 1) * around_pixels;
  };
  MotionVector motion = objects[index / vectors_around].motion;
  motion.x += offset(0);
  motion.y += offset(1);
  if (duration > 0) {
    motion.speed_x += (offset(2) - offset(0)) / duration;
    motion.speed_y += (offset(3) - offset(1)) / duration;
  }
  return motion;
}

}  // namespace tiermap
