#include "median/sky.hpp"

#include <algorithm>
#include <cmath>

#include "command_line/backing.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t pieces = 16;
constexpr std::uint64_t piece_pixels = 1024;

/// Pixels that have a value, from places all over the image.
std::vector<float> sample_image(Store& cube, const CubeShape& shape, std::uint64_t image) {
  const std::uint64_t pixels = shape.image_pixels();
  const std::uint64_t count = std::min(pixels, piece_pixels);
  std::vector<float> sample;
  std::vector<float> piece(count);
  for (std::uint64_t index = 0; index < pieces; ++index) {
    const std::uint64_t first = (pixels - count) / pieces * index;
    read_fully(cube, piece.data(), count * sizeof(float), (image * pixels + first) * sizeof(float));
    std::copy_if(piece.begin(), piece.end(), std::back_inserter(sample),
                 [](float value) { return !std::isnan(value); });
  }
  return sample;
}

}  // namespace

float median_of(std::span<float> values) noexcept {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Sky measure_sky(Store& cube, const CubeShape& shape, ThreadTeam& team) {
  // Half of the values of a normal distribution are no further from its middle than this, in standard deviations.
  constexpr double half_of_all = 0.6744897501960817;
  Sky sky;
  sky.levels.resize(shape.images);
  std::vector<float> deviations(shape.images);
  team.for_each(shape.images, [&](std::uint64_t image) {
    std::vector<float> sample = sample_image(cube, shape, image);
    const float level = median_of(sample);
    for (float& value : sample) {
      value = std::abs(value - level);
    }
    sky.levels[image] = level;
    deviations[image] = median_of(sample);
  });
  const double noise = median_of(deviations) / half_of_all;
  // Images without any noise: whatever is above the sky is no chance.
  sky.noise = noise > 0 ? noise : 1;
  return sky;
}

}  // namespace tiermap
