// Images of stars that stand still, noise, and objects that move and are too faint to be seen in any one image. What is
// in a pixel depends on the seed and its place alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "median/image_directory.hpp"
#include "median/search_plan.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

/// Writes images as a camera does: numbers without sign, which FITS keeps in 16 bits with BZERO 32768, or other kinds.
class StarField {
 public:
  /// A median along an object's own vector is so many standard deviations above the sky; a single pixel is not.
  static constexpr double object_significance = 12;

  /// Throws OptionError if such objects find no place in such images.
  StarField(const CubeShape& shape, int bits, std::uint64_t objects, const SpeedRange& speeds, std::uint64_t seed);

  /// Bytes that the files will have, about.
  std::uint64_t file_bytes() const noexcept;
  /// Writes image-00000.fits and so on. Throws StoreError.
  void write(const std::string& directory, ThreadTeam& team, ProgressDisplay& progress) const;

  /// Which part of its peak a thing shows, on average, in the pixels that are nearest to it.
  static double share_seen(const MotionVector& motion, const std::vector<double>& times);

 private:
  void place_object(const SpeedRange& speeds, std::uint64_t& attempt);
  bool is_near_star(double x, double y) const;
  void write_image(const std::string& path, std::uint64_t image) const;
  void draw_band(std::uint64_t image, std::uint64_t first_row, std::uint64_t rows, std::vector<float>& band) const;

  CubeShape shape_;
  int bits_;
  std::uint64_t seed_;
  std::vector<double> days_;
  std::vector<double> times_;
  std::vector<KnownObject> objects_;
};

}  // namespace tiermap
