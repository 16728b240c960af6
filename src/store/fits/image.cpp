#include "store/fits/image.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_listed = 20;

[[noreturn]] void refuse_image(const FitsFile& file, const std::string& why, int error_number = EINVAL) {
  throw StoreError(error_number, file.path() + " " + why);
}

bool has_pixels(const std::vector<std::uint64_t>& axes) {
  return std::find(axes.begin(), axes.end(), 0U) == axes.end();
}

/// "0, 1 (SCI), 4 (SCI,2)": the images that are there, for messages.
std::string list_images(FitsFile& file) {
  std::string list;
  std::size_t images = 0;
  for (int part = 0, parts = file.parts(); part < parts; ++part) {
    if (file.go_to(part) != FitsPart::image || !has_pixels(file.axes())) {
      continue;
    }
    if (++images > most_listed) {
      return list + " and others";
    }
    const std::string name = in_one_line(file.text("EXTNAME", ""));
    const std::int64_t version = file.integer("EXTVER").value_or(1);
    list += (list.empty() ? "" : ", ") + std::to_string(part) +
            (name.empty() ? "" : " (" + name + (version == 1 ? "" : "," + std::to_string(version)) + ")");
  }
  return list;
}

[[noreturn]] void refuse_part(FitsFile& file, const std::string& what, int error_number) {
  const std::string list = list_images(file);
  refuse_image(file, what + (list.empty() ? ": leave it out, it holds no image" : ": choose among the images " + list),
               error_number);
}

bool same_letters(std::string_view one, std::string_view other) {
  const auto upper = [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 32) : letter;
  };
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [&](char first, char second) { return upper(first) == upper(second); });
}

bool read_integer(std::string_view text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Goes to the part of this name.
FitsPart go_to_named(FitsFile& file, const std::string& wanted, int& part) {
  std::string_view name = wanted;
  std::int64_t number = 0;
  const int parts = file.parts();
  if (read_integer(name, number)) {
    if (number < 0 || number >= parts) {
      refuse_part(file, "has no HDU " + in_one_line(wanted) + ", of " + std::to_string(parts), ENOENT);
    }
    part = static_cast<int>(number);
    return file.go_to(part);
  }
  std::int64_t version = 0;  // Any.
  if (const std::size_t comma = name.rfind(','); comma != std::string_view::npos) {
    if (read_integer(name.substr(comma + 1), version)) {
      name = name.substr(0, comma);
    }
  }
  for (part = 0; part < parts; ++part) {
    const FitsPart kind = file.go_to(part);
    const bool is_version = version == 0 || file.integer("EXTVER").value_or(1) == version;
    if (is_version && same_letters(file.text("EXTNAME", ""), name)) {
      return kind;
    }
  }
  refuse_part(file, "has no HDU " + in_one_line(wanted), ENOENT);
}

/// Goes to the first part that has pixels, or says that it is one.
FitsPart go_to_first(FitsFile& file, int& part) {
  const int parts = file.parts();
  for (part = 0; part < parts; ++part) {
    const FitsPart kind = file.go_to(part);
    if (kind == FitsPart::image || kind == FitsPart::compressed_image) {
      return kind;
    }
  }
  refuse_image(file, "holds no image: leave it out");
}

PixelFormat read_format(FitsFile& file) {
  PixelFormat format;
  format.bits = file.bits_per_pixel();
  format.scale = file.number("BSCALE", 1);
  format.zero = file.number("BZERO", 0);
  if (format.scale == 0 || !std::isfinite(format.scale) || !std::isfinite(format.zero)) {
    refuse_image(file, "has BSCALE " + std::to_string(format.scale) + " and BZERO " + std::to_string(format.zero) +
                           ", which give no pixel a value: mend its header");
  }
  if (format.bits > 0) {
    format.blank = file.integer("BLANK");
  }
  return format;
}

}  // namespace

std::uint64_t FitsImage::pixels() const noexcept {
  std::uint64_t count = 1;
  for (const std::uint64_t side : axes) {
    count *= side;
  }
  return count;
}

std::string FitsImage::axes_text() const {
  std::string text;
  for (const std::uint64_t side : axes) {
    text += (text.empty() ? "" : " x ") + std::to_string(side);
  }
  return text;
}

FitsImage find_fits_image(FitsFile& file, const std::string& part) {
  FitsImage image;
  image.path = file.path();
  image.store = file.store();
  const FitsPart kind = part.empty() ? go_to_first(file, image.part) : go_to_named(file, part, image.part);
  const std::string which = "has in HDU " + std::to_string(image.part) + " ";
  if (kind == FitsPart::compressed_image) {
    refuse_image(file, which + "a compressed image, whose pixels are in no place of their own: unpack it with funpack",
                 ENOTSUP);
  }
  if (kind == FitsPart::table) {
    refuse_part(file, which + "a table, not an image", ENOTSUP);
  }
  if (kind == FitsPart::nothing) {
    refuse_part(file, which + "no pixels", EINVAL);
  }
  image.axes = file.axes();
  image.format = read_format(file);
  image.data_at = file.data_offset();
  std::uint64_t bytes = image.format.bytes();
  bool too_many = false;
  for (const std::uint64_t side : image.axes) {
    too_many = too_many || __builtin_mul_overflow(bytes, side, &bytes);
  }
  if (!has_pixels(image.axes)) {
    refuse_part(file, which + "an image of " + image.axes_text() + " pixels", EINVAL);
  }
  // cfitsio looks for the pixels behind so many numbers, other programs before them: an image is to have none.
  if (const std::int64_t others = file.integer("PCOUNT").value_or(0); others != 0) {
    refuse_image(file, which + "an image with PCOUNT " + std::to_string(others) +
                           ", numbers that are none of its pixels: write it without");
  }
  if (too_many || image.data_at > file.bytes() || bytes > file.bytes() - image.data_at) {
    refuse_image(file, "is cut off: an image of " + image.axes_text() + " pixels ends past its " +
                           std::to_string(file.bytes()) + " bytes: copy it again");
  }
  return image;
}

}  // namespace tiermap
