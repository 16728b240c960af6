#include "median/search_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "median/cfitsio_file.hpp"
#include "median/star_field.hpp"

namespace tiermap {
namespace {

/// In standard deviations of a median. More than that is no chance.
constexpr double most_deviation = 6;

/// The pixel as cfitsio gives it, by column and row from 1; no_value if it has none that a float can be.
float read_pixel(CfitsioFile& file, const CubeShape& shape, std::uint64_t pixel) {
  std::array<LONGLONG, 2> place = {static_cast<LONGLONG>(pixel % shape.width + 1),
                                   static_cast<LONGLONG>(pixel / shape.width + 1)};
  float nothing = no_value;
  float value = 0;
  int any_nothing = 0;
  fits_read_pixll(file.handle(), TFLOAT, place.data(), 1, &nothing, &value, &any_nothing, file.status());
  if (*file.status() == NUM_OVERFLOW) {
    *file.status() = 0;
    fits_clear_errmsg();
    return no_value;
  }
  return std::isfinite(value) ? value : no_value;
}

}  // namespace

std::string find_wrong_median(const FitsDirectory& directory, const SearchPlan& plan, const Sky& sky,
                              const std::vector<VectorMedian>& medians) {
  std::vector<std::vector<float>> values(medians.size());
  double brightest_sky = 0;
  for (const float level : sky.levels) {
    brightest_sky = std::max(brightest_sky, std::abs(static_cast<double>(level)));
  }
  for (std::uint64_t image = 0; image < directory.images.size(); ++image) {
    CfitsioFile file = CfitsioFile::open(directory.images[image].path);
    fits_movabs_hdu(file.handle(), directory.images[image].part + 1, nullptr, file.status());
    file.check();
    for (std::size_t index = 0; index < medians.size(); ++index) {
      const std::uint64_t pixel = pixel_at(plan[medians[index].vector], directory.times[image], plan.shape);
      const float value = pixel == outside_image ? no_value : read_pixel(file, plan.shape, pixel);
      if (!std::isnan(value)) {
        values[index].push_back(value - sky.levels[image]);
      }
    }
    file.check();
  }
  for (std::size_t index = 0; index < medians.size(); ++index) {
    std::vector<float>& own = values[index];
    std::sort(own.begin(), own.end());
    const std::size_t half = own.size() / 2;
    const float upper = own.empty() ? 0 : own[half];
    const float lower = own.empty() || own.size() % 2 == 1 ? upper : own[half - 1];
    const float median = own.size() % 2 == 1 ? upper : (lower + upper) / 2;
    // The same calculation, so the same result but for the rounding of a compiler that joins two steps into one, which
    // is a share of the pixels in the middle: of others, however bright, there are as many on either side. Both may be
    // infinite: of pixels near the largest float.
    const double rounding =
        1e-6 * (std::abs(static_cast<double>(lower)) + std::abs(static_cast<double>(upper)) + brightest_sky);
    const bool same =
        median == medians[index].flux || std::abs(static_cast<double>(median) - medians[index].flux) <= rounding;
    if (own.size() != medians[index].pixels || !same) {
      return fmt::format("the median along vector {} is {} of {} pixels, and by the pixels that cfitsio reads {} of {}",
                         medians[index].vector, medians[index].flux, medians[index].pixels, median, own.size());
    }
  }
  return {};
}

std::string find_missing_object(const FitsDirectory& directory, const SearchPlan& plan, const Sky& sky,
                                const std::vector<Detection>& detections) {
  for (std::size_t index = 0; index < plan.objects.size(); ++index) {
    const KnownObject& object = plan.objects[index];
    const Detection* const detection = find_object(detections, object, plan.duration);
    if (detection == nullptr) {
      return fmt::format("object {}, which is at {:.1f}, {:.1f} in the first image, is not found", index + 1,
                         object.motion.x, object.motion.y);
    }
    const double expected = object.peak * StarField::share_seen(object.motion, directory.times);
    const double noise = sky.noise_of_median(detection->median.pixels);
    if (std::abs(detection->median.flux - expected) > most_deviation * noise) {
      return fmt::format("object {} shows a flux of {:.2f}, and should show {:.2f}, give or take {:.2f}", index + 1,
                         detection->median.flux, expected, most_deviation * noise);
    }
  }
  return {};
}

}  // namespace tiermap
