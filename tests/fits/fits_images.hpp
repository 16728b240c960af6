// FITS images for tests, written by cfitsio.
#pragma once

#include <fitsio.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tiermap::test {

/// One image of any kind.
struct ImageSpecification {
  int bits = 16;
  long width = 8;
  long height = 8;
  double scale = 1;
  double zero = 0;
  std::optional<LONGLONG> blank = std::nullopt;
  int comments = 0;           ///< Lines that make the header longer.
  bool in_extension = false;  ///< The first part of the file is empty.
  std::optional<double> day = std::nullopt;
};

template <typename Number>
std::vector<Number> random_numbers(std::size_t count, std::uint64_t seed, const std::optional<LONGLONG>& blank) {
  std::mt19937_64 random(seed);
  std::vector<Number> numbers(count);
  for (std::size_t index = 0; index < count; ++index) {
    if constexpr (std::is_floating_point_v<Number>) {
      numbers[index] =
          static_cast<Number>(std::ldexp(static_cast<double>(random() % 2000) - 1000, static_cast<int>(index % 40)));
      if (index % 17 == 3) {
        numbers[index] =
            index % 2 == 0 ? std::numeric_limits<Number>::quiet_NaN() : -std::numeric_limits<Number>::infinity();
      }
    } else {
      numbers[index] = static_cast<Number>(random());
      if (blank.has_value() && index % 13 == 5) {
        numbers[index] = static_cast<Number>(*blank);
      }
    }
  }
  return numbers;
}

/// Numbers of any size, as they are to stand in the file.
inline void write_image(const std::string& path, const ImageSpecification& image, std::uint64_t seed) {
  fitsfile* file = nullptr;
  int status = 0;
  std::array<long, 2> sides = {image.width, image.height};
  fits_create_diskfile(&file, path.c_str(), &status);
  if (image.in_extension) {
    fits_create_img(file, 8, 0, nullptr, &status);
  }
  fits_create_img(file, image.bits, 2, sides.data(), &status);
  for (int line = 0; line < image.comments; ++line) {
    fits_write_comment(file, "a line that makes the header longer", &status);
  }
  double scale = image.scale;
  double zero = image.zero;
  if (scale != 1 || zero != 0) {
    fits_update_key(file, TDOUBLE, "BSCALE", &scale, nullptr, &status);
    fits_update_key(file, TDOUBLE, "BZERO", &zero, nullptr, &status);
  }
  if (image.blank.has_value()) {
    LONGLONG blank = *image.blank;
    fits_update_key(file, TLONGLONG, "BLANK", &blank, nullptr, &status);
  }
  if (image.day.has_value()) {
    double day = *image.day;
    fits_update_key(file, TDOUBLE, "MJD-OBS", &day, nullptr, &status);
  }
  fits_set_bscale(file, 1, 0, &status);
  const auto count = static_cast<std::size_t>(image.width * image.height);
  const auto write = [&](int type, auto numbers) {
    fits_write_img(file, type, 1, static_cast<LONGLONG>(count), numbers.data(), &status);
  };
  switch (image.bits) {
    case 8:
      write(TBYTE, random_numbers<unsigned char>(count, seed, image.blank));
      break;
    case 16:
      write(TSHORT, random_numbers<short>(count, seed, image.blank));
      break;
    case 32:
      write(TINT, random_numbers<int>(count, seed, image.blank));
      break;
    case 64:
      write(TLONGLONG, random_numbers<LONGLONG>(count, seed, image.blank));
      break;
    case -32:
      write(TFLOAT, random_numbers<float>(count, seed, image.blank));
      break;
    default:
      write(TDOUBLE, random_numbers<double>(count, seed, image.blank));
  }
  fits_close_file(file, &status);
  ASSERT_EQ(status, 0) << path;
}

/// One of every kind.
inline std::vector<ImageSpecification> every_kind_of_image(long width, long height) {
  return {
      {.bits = 8, .width = width, .height = height},
      {.bits = 16, .width = width, .height = height, .scale = 1, .zero = 32768, .blank = -32768, .comments = 50},
      {.bits = 16, .width = width, .height = height},
      {.bits = 32, .width = width, .height = height, .scale = 0.25, .zero = -7, .blank = 99, .in_extension = true},
      {.bits = -32, .width = width, .height = height, .comments = 100},
      {.bits = -64, .width = width, .height = height, .scale = 2, .zero = 1e9},
      {.bits = 8, .width = width, .height = height, .scale = -1.5, .zero = 3, .blank = 255, .comments = 7},
      {.bits = 64, .width = width, .height = height, .scale = 1e-9, .zero = 0, .blank = 0},
      {.bits = -64, .width = width, .height = height, .in_extension = true},
      {.bits = 16, .width = width, .height = height, .scale = 0.1, .zero = 0.3},
  };
}

/// All pixels as cfitsio itself gives them: not a number where there is no value.
inline std::vector<float> read_image(const std::string& path) {
  fitsfile* file = nullptr;
  int status = 0;
  std::array<long, 2> sides{};
  fits_open_image(&file, path.c_str(), READONLY, &status);
  fits_get_img_size(file, 2, sides.data(), &status);
  std::vector<float> pixels(static_cast<std::size_t>(sides[0] * sides[1]));
  float nothing = std::numeric_limits<float>::quiet_NaN();
  int any = 0;
  fits_read_img(file, TFLOAT, 1, static_cast<LONGLONG>(pixels.size()), &nothing, pixels.data(), &any, &status);
  fits_close_file(file, &status);
  EXPECT_EQ(status, 0) << path;
  return pixels;
}

/// HDUs: 0 nothing; 1 SCI, 3 pixels of 1; 2 SCI,2, 3 pixels of 2; 3 a table CAT; 4 without a name, 2 x 2 pixels of 4;
/// 5 an image without pixels.
inline void write_parts_of_many_kinds(const std::string& path) {
  fitsfile* file = nullptr;
  int status = 0;
  fits_create_diskfile(&file, path.c_str(), &status);
  fits_create_img(file, 8, 0, nullptr, &status);
  const auto add = [&](const char* name, LONGLONG version, std::vector<long> sides, short value) {
    fits_create_img(file, 16, static_cast<int>(sides.size()), sides.data(), &status);
    if (name != nullptr) {
      fits_update_key(file, TSTRING, "EXTNAME", const_cast<char*>(name), nullptr, &status);
      fits_update_key(file, TLONGLONG, "EXTVER", &version, nullptr, &status);
    }
    std::vector<short> pixels(4, value);
    fits_write_img(file, TSHORT, 1, sides.size() == 1 ? 3 : 4, pixels.data(), &status);
  };
  add("SCI", 1, {3}, 1);
  add("SCI", 2, {3}, 2);
  std::array<char, 2> column = {'X', 0};
  std::array<char, 3> form = {'1', 'J', 0};
  std::array<char*, 1> columns = {column.data()};
  std::array<char*, 1> forms = {form.data()};
  fits_create_tbl(file, BINARY_TBL, 5, 1, columns.data(), forms.data(), nullptr, "CAT", &status);
  add(nullptr, 1, {2, 2}, 4);
  std::array<long, 2> none = {0, 5};
  fits_create_img(file, 16, 2, none.data(), &status);
  fits_close_file(file, &status);
  ASSERT_EQ(status, 0);
}

/// Gives a number of the header another value.
inline void change_key(const std::string& path, const char* keyword, double value) {
  fitsfile* file = nullptr;
  int status = 0;
  fits_open_diskfile(&file, path.c_str(), READWRITE, &status);
  fits_update_key(file, TDOUBLE, keyword, &value, nullptr, &status);
  fits_close_file(file, &status);
  ASSERT_EQ(status, 0) << path;
}

}  // namespace tiermap::test
