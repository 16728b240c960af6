#include "median/fits_image.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "median/fits_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw StoreError(EINVAL, path + " " + why);
}

[[noreturn]] void refuse_unreadable(const std::string& path, int number) {
  throw StoreError(number, fmt::format("{} cannot be read: {}: permit it, or leave it out", path,
                                       std::generic_category().message(number)));
}

/// Before cfitsio sees it, which would unpack what is compressed into memory, and wait for a FIFO. Returns its size.
std::uint64_t check_beginning(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    refuse_unreadable(path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    refuse(path, "is no plain file: leave it out");
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    refuse_unreadable(path, errno);
  }
  std::array<char, 9> beginning{};
  const ssize_t got = ::read(descriptor, beginning.data(), beginning.size());
  const int number = errno;
  ::close(descriptor);
  if (got < 0) {
    refuse_unreadable(path, number);
  }
  const std::string_view text(beginning.data(), static_cast<std::size_t>(got));
  if (text.empty()) {
    refuse(path, "is empty: leave it out");
  }
  if (text.starts_with("\x1f\x8b")) {
    refuse(path, "is compressed by gzip: unpack it with gunzip");
  }
  if (text != "SIMPLE  =") {
    refuse(path, "is no FITS file, which begins with SIMPLE: leave it out");
  }
  return static_cast<std::uint64_t>(status.st_size);
}

PixelFormat read_format(FitsFile& file, const std::string& path) {
  PixelFormat format;
  fits_get_img_type(file.handle(), &format.bits, file.status());
  format.scale = file.number("BSCALE", 1);
  format.zero = file.number("BZERO", 0);
  file.check();
  if (format.scale == 0 || !std::isfinite(format.scale) || !std::isfinite(format.zero)) {
    refuse(path, fmt::format("has BSCALE {} and BZERO {}, which give no pixel a value: mend its header", format.scale,
                             format.zero));
  }
  if (format.bits > 0 && file.has("BLANK")) {
    LONGLONG blank = 0;
    fits_read_key(file.handle(), TLONGLONG, "BLANK", &blank, nullptr, file.status());
    format.blank = blank;
  }
  file.check();
  return format;
}

std::vector<std::string> image_names(const std::string& directory) {
  constexpr std::array endings = {".fits", ".fit", ".fts", ".fz", ".fits.gz", ".fit.gz", ".fts.gz"};
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entries(directory, error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); })) {
      names.push_back(name);
    }
  }
  if (error) {
    throw StoreError(error.value(),
                     fmt::format("{} cannot be read: {}: name a directory of FITS images", directory, error.message()));
  }
  if (names.empty()) {
    refuse(directory, "holds no image, whose name ends in .fits, .fit or .fts: name another directory");
  }
  std::sort(names.begin(), names.end());
  return names;
}

void check_goes_with(const FitsImage& first, const FitsImage& previous, const FitsImage& image) {
  if (image.width != first.width || image.height != first.height) {
    refuse(image.path, fmt::format("has {} x {} pixels, and {} has {} x {}: leave one of them out", image.width,
                                   image.height, first.path, first.width, first.height));
  }
  if (image.day < previous.day) {
    refuse(image.path, fmt::format("was taken on day {}, before {} on day {}: name images so that their names are in "
                                   "the order of time",
                                   image.day, previous.path, previous.day));
  }
}

std::vector<KnownObject> read_objects(const std::string& path) {
  std::vector<KnownObject> objects;
  FitsFile file = FitsFile::open(path);
  go_to_image(file, path);
  const double count = file.number(object_count_keyword, 0);
  for (std::uint64_t index = 1; index <= most_objects && static_cast<double>(index) <= count; ++index) {
    std::vector<double> values;
    for (const std::string& keyword : object_keywords(index)) {
      values.push_back(file.number(keyword.c_str(), std::numeric_limits<double>::quiet_NaN()));
    }
    if (std::any_of(values.begin(), values.end(), [](double value) { return !std::isfinite(value); })) {
      refuse(path,
             fmt::format("has {} {}, but not all of object {}: mend its header", object_count_keyword, count, index));
    }
    objects.push_back({{values[0], values[1], values[2], values[3]}, values[4]});
  }
  file.check();
  return objects;
}

}  // namespace

void go_to_image(FitsFile& file, const std::string& path) {
  int parts = 0;
  fits_get_num_hdus(file.handle(), &parts, file.status());
  file.check();
  for (int part = 1; part <= parts; ++part) {
    int type = ANY_HDU;
    int axes = 0;
    fits_movabs_hdu(file.handle(), part, &type, file.status());
    if (fits_is_compressed_image(file.handle(), file.status()) != 0) {
      refuse(path, "is a compressed image, whose pixels are in no place of their own: unpack it with funpack");
    }
    if (type == IMAGE_HDU) {
      fits_get_img_dim(file.handle(), &axes, file.status());
    }
    file.check();
    if (axes != 0) {
      if (axes != 2) {
        refuse(path, fmt::format("has an image of {} dimension{}, not of 2: leave it out, or split it into images of 2",
                                 axes, axes == 1 ? "" : "s"));
      }
      return;
    }
  }
  refuse(path, "holds no image: leave it out");
}

FitsImage read_fits_image(const std::string& path) {
  const std::uint64_t file_bytes = check_beginning(path);
  FitsFile file = FitsFile::open(path);
  file.check();
  go_to_image(file, path);
  FitsImage image;
  image.path = path;
  image.format = read_format(file, path);
  std::array<LONGLONG, 2> sides{};
  LONGLONG header_at = 0;
  LONGLONG data_at = 0;
  LONGLONG data_end = 0;
  fits_get_img_sizell(file.handle(), 2, sides.data(), file.status());
  fits_get_hduaddrll(file.handle(), &header_at, &data_at, &data_end, file.status());
  image.day = file.number("MJD-OBS", std::numeric_limits<double>::quiet_NaN());
  file.check();
  if (sides[0] <= 0 || sides[1] <= 0 || data_at < 0) {
    refuse(path, fmt::format("has an image of {} x {} pixels: leave it out", sides[0], sides[1]));
  }
  image.width = static_cast<std::uint64_t>(sides[0]);
  image.height = static_cast<std::uint64_t>(sides[1]);
  image.data_at = static_cast<std::uint64_t>(data_at);
  const std::uint64_t behind = file_bytes - std::min(file_bytes, image.data_at);
  if (image.width > behind / image.format.bytes() / image.height) {
    refuse(path, fmt::format("is cut off: {} x {} pixels of {} bytes from byte {} on reach past its end at {}: fetch "
                             "it again, or leave it out",
                             image.width, image.height, image.format.bytes(), image.data_at, file_bytes));
  }
  return image;
}

FitsDirectory read_fits_directory(const std::string& path) {
  FitsDirectory directory;
  directory.path = path;
  std::vector<double> days;
  for (const std::string& name : image_names(path)) {
    directory.images.push_back(read_fits_image((std::filesystem::path(path) / name).string()));
    const FitsImage& image = directory.images.back();
    check_goes_with(directory.images.front(), directory.images[directory.images.size() - (days.empty() ? 1 : 2)],
                    image);
    days.push_back(image.day);
  }
  const FitsImage& first = directory.images.front();
  directory.shape = {directory.images.size(), first.width, first.height};
  directory.times = times_of(days);
  directory.objects = read_objects(first.path);
  return directory;
}

void FitsDirectory::make_cold() const {
  for (const FitsImage& image : images) {
    const int descriptor = ::open(image.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
      ::fdatasync(descriptor);
      ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
      ::close(descriptor);
    }
  }
}

std::vector<double> times_of(const std::vector<double>& days) {
  const double mean = (days.back() - days.front()) / static_cast<double>(std::max<std::size_t>(days.size() - 1, 1));
  const bool known = mean > 0 && std::none_of(days.begin(), days.end(), [](double day) { return std::isnan(day); });
  std::vector<double> times;
  for (std::size_t index = 0; index < days.size(); ++index) {
    times.push_back(known ? (days[index] - days.front()) / mean : static_cast<double>(index));
  }
  return times;
}

std::vector<std::string> object_keywords(std::uint64_t index) {
  std::vector<std::string> keywords;
  for (const char* name : {"TMX", "TMY", "TMDX", "TMDY", "TMPEAK"}) {
    keywords.push_back(fmt::format("{}{}", name, index));
  }
  return keywords;
}

}  // namespace tiermap
