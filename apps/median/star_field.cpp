#include "median/star_field.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "median/cfitsio_file.hpp"
#include "median/sky.hpp"
#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr double sky_level = 1000;
constexpr double sky_noise = 20;
/// A point of light is spread by so many pixels (standard deviation), and drawn so far.
constexpr double spread = 1.5;
constexpr double reach = 6;
/// Each square of so many pixels has one star.
constexpr std::uint64_t star_square = 48;
constexpr std::uint64_t bad_pixels_one_in = 1024;
constexpr std::uint64_t band_rows = 64;
/// What cfitsio writes as BLANK, or not a number.
constexpr float blank_mark = -1;
constexpr double brightest = 65534;

// Each use has random numbers of its own.
constexpr std::uint64_t star_seed = 0x73746172;
constexpr std::uint64_t object_seed = 0x6f626a65;
constexpr std::uint64_t time_seed = 0x74696d65;
constexpr std::uint64_t bad_pixel_seed = 0x62616470;

double spot(double x, double y) {
  return std::exp(-(x * x + y * y) / (2 * spread * spread));
}

struct Star {
  double x = 0;
  double y = 0;
  double peak = 0;
};

Star star_of(std::uint64_t seed, std::uint64_t column, std::uint64_t row) {
  const std::uint64_t own = mix_word(seed ^ star_seed) + (row << 32U | column);
  constexpr auto side = static_cast<double>(star_square);
  // Few are bright.
  return {(static_cast<double>(column) + random_fraction(own, 0)) * side,
          (static_cast<double>(row) + random_fraction(own, 1)) * side,
          std::min(30000.0, 40 / (random_fraction(own, 2) + 1e-6))};
}

/// Normal, very nearly: the sum of four even ones.
double noise_of(std::uint64_t word) {
  double sum = 0;
  for (int part = 0; part < 4; ++part) {
    sum += static_cast<double>(word >> (16 * part) & 0xffffU);
  }
  return (sum / 65535 - 2) * std::sqrt(3.0);
}

struct Band {
  std::uint64_t width;
  std::uint64_t first_row;
  std::uint64_t rows;
  std::vector<float>& pixels;

  void add_spot(double x, double y, double peak) const {
    const auto from = [](double at) { return static_cast<std::int64_t>(std::ceil(at - reach)); };
    const auto to = [](double at) { return static_cast<std::int64_t>(std::floor(at + reach)); };
    const auto top = static_cast<std::int64_t>(first_row);
    const std::int64_t last_row = std::min(to(y), top + static_cast<std::int64_t>(rows) - 1);
    const std::int64_t last_column = std::min(to(x), static_cast<std::int64_t>(width) - 1);
    for (std::int64_t row = std::max(from(y), top); row <= last_row; ++row) {
      for (std::int64_t column = std::max<std::int64_t>(from(x), 0); column <= last_column; ++column) {
        pixels[static_cast<std::uint64_t>(row - top) * width + static_cast<std::uint64_t>(column)] +=
            static_cast<float>(peak * spot(static_cast<double>(column) - x, static_cast<double>(row) - y));
      }
    }
  }
};

}  // namespace

StarField::StarField(const CubeShape& shape, int bits, std::uint64_t objects, const SpeedRange& speeds,
                     std::uint64_t seed)
    : shape_(shape), bits_(bits), seed_(seed) {
  for (std::uint64_t image = 0; image < shape.images; ++image) {
    // Every minute, but not to the second.
    days_.push_back(59000 + (static_cast<double>(image) + 0.6 * random_fraction(seed ^ time_seed, image)) / 1440);
  }
  times_ = times_of(days_);
  std::uint64_t attempt = 0;
  while (objects_.size() < objects) {
    place_object(speeds, attempt);
  }
}

void StarField::place_object(const SpeedRange& speeds, std::uint64_t& attempt) {
  constexpr std::uint64_t most_attempts = 100'000;
  for (; attempt < most_attempts; ++attempt) {
    const MotionVector motion = random_motion(seed_ ^ object_seed, attempt, shape_, speeds);
    std::uint64_t seen = 0;
    for (const double time : times_) {
      const double x = motion.x + motion.speed_x * time;
      const double y = motion.y + motion.speed_y * time;
      const bool inside =
          x >= 0 && y >= 0 && x < static_cast<double>(shape_.width) - 1 && y < static_cast<double>(shape_.height) - 1;
      seen += inside && !is_near_star(x, y) ? 1U : 0U;
    }
    const bool alone = std::none_of(objects_.begin(), objects_.end(), [&](const KnownObject& other) {
      return motions_are_near(other.motion, motion, times_.back(), 4 * reach);
    });
    // A star in one image of ten does not change a median much.
    if (alone && 10 * seen >= 9 * times_.size()) {
      Sky sky;
      sky.noise = sky_noise;
      objects_.push_back({motion, object_significance * sky.noise_of_median(times_.size())});
      ++attempt;
      return;
    }
  }
  throw OptionError(
      fmt::format("in {} images of {} x {} no more than {} objects find a place that they do not leave: choose a "
                  "larger --width and --height, a smaller --fastest, or fewer --objects",
                  shape_.images, shape_.width, shape_.height, objects_.size()));
}

bool StarField::is_near_star(double x, double y) const {
  const auto column = static_cast<std::uint64_t>(x) / star_square;
  const auto row = static_cast<std::uint64_t>(y) / star_square;
  for (std::uint64_t near_row = row - std::min<std::uint64_t>(row, 1); near_row <= row + 1; ++near_row) {
    for (std::uint64_t near = column - std::min<std::uint64_t>(column, 1); near <= column + 1; ++near) {
      const Star star = star_of(seed_, near, near_row);
      if (std::hypot(star.x - x, star.y - y) <= reach) {
        return true;
      }
    }
  }
  return false;
}

std::uint64_t StarField::file_bytes() const noexcept {
  constexpr std::uint64_t beside = 4 * 2880;  // Header, and what is empty at its end and at that of the pixels.
  return shape_.images * (shape_.image_pixels() * static_cast<std::uint64_t>(bits_ < 0 ? -bits_ : bits_) / 8 + beside);
}

void StarField::write(const std::string& directory, ThreadTeam& team, ProgressDisplay& progress) const {
  progress.restart("generating", shape_.images);
  const auto write_one = [&](std::uint64_t image) {
    write_image(fmt::format("{}/image-{:05}.fits", directory, image), image);
    progress.add(1);
  };
  if (fits_is_reentrant() != 0) {
    team.for_each(shape_.images, write_one);
    return;
  }
  for (std::uint64_t image = 0; image < shape_.images; ++image) {
    write_one(image);
  }
}

void StarField::write_image(const std::string& path, std::uint64_t image) const {
  CfitsioFile file = CfitsioFile::create(path);
  file.check();
  std::array<long, 2> sides = {static_cast<long>(shape_.width), static_cast<long>(shape_.height)};
  fits_create_img(file.handle(), bits_ == 16 ? USHORT_IMG : bits_, 2, sides.data(), file.status());
  double day = days_[image];
  fits_update_key(file.handle(), TDOUBLE, "MJD-OBS", &day, "day of the exposure", file.status());
  if (bits_ > 0) {
    LONGLONG blank = bits_ == 16 ? -32768 : -2147483648LL;
    fits_update_key(file.handle(), TLONGLONG, "BLANK", &blank, "bad pixels", file.status());
    fits_set_imgnull(file.handle(), blank, file.status());
  }
  if (image == 0 && !objects_.empty()) {
    auto count = static_cast<LONGLONG>(objects_.size());
    fits_update_key(file.handle(), TLONGLONG, object_count_keyword, &count, "moving objects: x, y, speed, peak",
                    file.status());
    for (std::uint64_t index = 0; index < objects_.size(); ++index) {
      const auto& [motion, peak] = objects_[index];
      const std::array values = {motion.x, motion.y, motion.speed_x, motion.speed_y, peak};
      const std::vector<std::string> keywords = object_keywords(index + 1);
      for (std::size_t which = 0; which < values.size(); ++which) {
        double value = values[which];
        fits_update_key(file.handle(), TDOUBLE, keywords[which].c_str(), &value, nullptr, file.status());
      }
    }
  }
  std::vector<float> band;
  for (std::uint64_t row = 0; row < shape_.height; row += band_rows) {
    draw_band(image, row, std::min(band_rows, shape_.height - row), band);
    float mark = blank_mark;
    fits_write_imgnull(file.handle(), TFLOAT, static_cast<LONGLONG>(row * shape_.width) + 1,
                       static_cast<LONGLONG>(band.size()), band.data(), &mark, file.status());
    file.check();
  }
  file.close();
}

void StarField::draw_band(std::uint64_t image, std::uint64_t first_row, std::uint64_t rows,
                          std::vector<float>& band) const {
  band.assign(shape_.width * rows, 0);
  const Band drawn{shape_.width, first_row, rows, band};
  constexpr auto above = static_cast<std::uint64_t>(reach) + 1;
  const std::uint64_t first_square = (first_row - std::min(first_row, above)) / star_square;
  for (std::uint64_t row = first_square; row <= (first_row + rows + above) / star_square; ++row) {
    for (std::uint64_t column = 0; column <= shape_.width / star_square; ++column) {
      const Star star = star_of(seed_, column, row);
      drawn.add_spot(star.x, star.y, star.peak);
    }
  }
  for (const auto& [motion, peak] : objects_) {
    drawn.add_spot(motion.x + motion.speed_x * times_[image], motion.y + motion.speed_y * times_[image], peak);
  }
  // No night is as dark as another.
  const double level = sky_level + 50 * random_fraction(seed_ ^ time_seed, shape_.images + image);
  const std::uint64_t first = first_row * shape_.width;
  const std::uint64_t own = mix_word(seed_ + image);
  for (std::uint64_t index = 0; index < band.size(); ++index) {
    const double value =
        level + static_cast<double>(band[index]) + sky_noise * noise_of(random_word(own, first + index));
    const bool bad = random_word(seed_ ^ bad_pixel_seed, first + index) % bad_pixels_one_in == 0;
    band[index] = bad ? blank_mark : static_cast<float>(std::round(std::clamp(value, 0.0, brightest)));
  }
}

double StarField::share_seen(const MotionVector& motion, const std::vector<double>& times) {
  double sum = 0;
  for (const double time : times) {
    const double x = motion.x + motion.speed_x * time;
    const double y = motion.y + motion.speed_y * time;
    sum += spot(x - std::floor(x + 0.5), y - std::floor(y + 0.5));
  }
  return sum / static_cast<double>(times.size());
}

}  // namespace tiermap
