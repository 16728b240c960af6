// What the headers of a directory of FITS images say: how large they are, when they were taken and what is in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/fits/image.hpp"

namespace tiermap {

/// Something that moves straight on. Positions are in pixels, the middle of the first one being 0; a time is counted in
/// images, of which the first is taken at 0.
struct MotionVector {
  double x = 0;  ///< At time 0.
  double y = 0;
  double speed_x = 0;  ///< Pixels an image.
  double speed_y = 0;
};

/// An object that is known to be in the images.
struct KnownObject {
  MotionVector motion;
  double peak = 0;  ///< How far its middle is above the sky.
};

/// Images of one size, one behind another.
struct CubeShape {
  std::uint64_t images = 0;
  std::uint64_t width = 0;
  std::uint64_t height = 0;

  std::uint64_t image_pixels() const noexcept { return width * height; }
  /// As native floats.
  std::uint64_t bytes() const noexcept { return images * image_pixels() * sizeof(float); }
};

/// The images of a directory in the order of time, which is that of their names.
struct FitsDirectory {
  std::string path;
  CubeShape shape;
  std::vector<FitsImage> images;     ///< The first one of each file.
  std::vector<double> times;         ///< When each was taken, counted in images.
  std::vector<KnownObject> objects;  ///< What the first image's header says of objects; generated images have some.

  /// Asks the kernel to forget what it holds of the files.
  void make_cold() const;
};

/// Reads the headers of all. Throws StoreError, also if there are none, or they do not go together or have not two
/// dimensions.
FitsDirectory read_fits_directory(const std::string& path);

/// When images were taken, from 0 on, counted in the mean time from one to the next. Evenly if any of the days is NaN.
std::vector<double> times_of(const std::vector<double>& days);

/// The keywords in which a header says of its index-th object (from 1) where it is, how fast, and its peak.
std::vector<std::string> object_keywords(std::uint64_t index);
inline constexpr const char* object_count_keyword = "TMOBJS";
inline constexpr std::uint64_t most_objects = 99;

}  // namespace tiermap
