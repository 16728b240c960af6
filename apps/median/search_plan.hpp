// Which vectors are gone through: the index-th is the same whoever asks, on every system and with any number of
// threads.
#pragma once

#include <cstdint>
#include <vector>

#include "median/image_directory.hpp"

namespace tiermap {

/// How fast something may move, in pixels an image.
struct SpeedRange {
  double slowest = 0.5;
  double fastest = 3;
};

/// Anywhere in the first image, in any direction, at any of these speeds. The index-th of a seed.
MotionVector random_motion(std::uint64_t seed, std::uint64_t index, const CubeShape& shape, const SpeedRange& speeds);

/// A number from 0 to below 1: the index-th of a seed.
double random_fraction(std::uint64_t seed, std::uint64_t index) noexcept;

/// Whether two vectors are at most `pixels` apart, at the beginning and after `duration`, in either direction.
bool motions_are_near(const MotionVector& one, const MotionVector& other, double duration, double pixels) noexcept;

/// Vectors around each known object, none of them exactly its own, then vectors at random.
struct SearchPlan {
  /// Of each object. The volume around its true vector is so large that some of them, but only some, meet it.
  static constexpr std::uint64_t vectors_around = 512;
  static constexpr double around_pixels = 2;

  CubeShape shape;
  SpeedRange speeds;
  std::vector<KnownObject> objects;
  double duration = 0;  ///< When the last image was taken.
  std::uint64_t random_vectors = 0;
  std::uint64_t seed = 0;

  /// The first so many are around known objects.
  std::uint64_t around_objects() const noexcept { return objects.size() * vectors_around; }
  std::uint64_t size() const noexcept { return around_objects() + random_vectors; }
  MotionVector operator[](std::uint64_t index) const;
};

/// The pixel that something is nearest to at a time, counted row after row; outside_image if there is none.
inline constexpr std::uint64_t outside_image = ~std::uint64_t{0};
inline std::uint64_t pixel_at(const MotionVector& motion, double time, const CubeShape& shape) noexcept {
  const double x = motion.x + motion.speed_x * time + 0.5;
  const double y = motion.y + motion.speed_y * time + 0.5;
  if (x >= 0 && y >= 0 && x < static_cast<double>(shape.width) && y < static_cast<double>(shape.height)) {
    return static_cast<std::uint64_t>(y) * shape.width + static_cast<std::uint64_t>(x);
  }
  return outside_image;
}

}  // namespace tiermap
