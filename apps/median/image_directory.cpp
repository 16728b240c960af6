#include "median/image_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw StoreError(EINVAL, path + " " + why);
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

std::vector<std::string> image_names(const std::string& directory) {
  constexpr std::array endings = {".fits", ".fit", ".fts", ".fz", ".fits.gz", ".fit.gz", ".fts.gz"};
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entries(directory, error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const std::string lower = lower_case(name);
    if (std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return lower.ends_with(ending); })) {
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

/// One that has been looked at, and its day: MJD-OBS, when it was taken, NaN if the header does not say.
struct TakenImage {
  const FitsImage& image;
  double day = 0;
};

void check_goes_with(const FitsImage& first, const TakenImage& previous, const TakenImage& taken) {
  const FitsImage& image = taken.image;
  if (image.axes != first.axes) {
    refuse(image.path, fmt::format("has {} pixels, and {} has {}: leave one of them out", image.axes_text(), first.path,
                                   first.axes_text()));
  }
  if (taken.day < previous.day) {
    refuse(image.path, fmt::format("was taken on day {}, before {} on day {}: name images so that their names are in "
                                   "the order of time",
                                   taken.day, previous.image.path, previous.day));
  }
}

/// Files are whole units of so many bytes, and cfitsio reads no pixel of one that is not whole.
constexpr std::uint64_t unit_bytes = 2880;

/// The first image of a file, which is gone to.
FitsImage find_flat_image(FitsFile& file) {
  FitsImage image = find_fits_image(file, "");
  if (image.axes.size() != 2) {
    refuse(image.path, fmt::format("has an image of {} dimension{}, not of 2: leave it out, or split it into images of "
                                   "2",
                                   image.axes.size(), image.axes.size() == 1 ? "" : "s"));
  }
  const std::uint64_t end = image.data_at + image.data_bytes();
  if (file.bytes() < (end + unit_bytes - 1) / unit_bytes * unit_bytes) {
    refuse(image.path, fmt::format("is cut off: of the last {} bytes, which its pixels do not fill, not all are there: "
                                   "copy it again, or fill them up by truncate -s %{}",
                                   unit_bytes, unit_bytes));
  }
  return image;
}

std::vector<KnownObject> read_objects(FitsFile& file) {
  std::vector<KnownObject> objects;
  const double count = file.number(object_count_keyword, 0);
  for (std::uint64_t index = 1; index <= most_objects && static_cast<double>(index) <= count; ++index) {
    std::vector<double> values;
    for (const std::string& keyword : object_keywords(index)) {
      values.push_back(file.number(keyword.c_str(), std::numeric_limits<double>::quiet_NaN()));
    }
    if (std::any_of(values.begin(), values.end(), [](double value) { return !std::isfinite(value); })) {
      refuse(file.path(),
             fmt::format("has {} {}, but not all of object {}: mend its header", object_count_keyword, count, index));
    }
    objects.push_back({{values[0], values[1], values[2], values[3]}, values[4]});
  }
  return objects;
}

}  // namespace

FitsDirectory read_fits_directory(const std::string& path) {
  FitsDirectory directory;
  directory.path = path;
  std::vector<double> days;
  for (const std::string& name : image_names(path)) {
    FitsFile file((std::filesystem::path(path) / name).string());
    directory.images.push_back(find_flat_image(file));
    days.push_back(file.number("MJD-OBS", std::numeric_limits<double>::quiet_NaN()));
    if (days.size() == 1) {
      directory.objects = read_objects(file);
    } else {
      const std::size_t last = days.size() - 1;
      check_goes_with(directory.images.front(), {directory.images[last - 1], days[last - 1]},
                      {directory.images[last], days[last]});
    }
  }
  const FitsImage& first = directory.images.front();
  directory.shape = {directory.images.size(), first.axes[0], first.axes[1]};
  directory.times = times_of(days);
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
