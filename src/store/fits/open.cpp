#include "store/fits/open.hpp"

#include <cerrno>
#include <utility>

#include "store/fits/image_store.hpp"
#include "store/matching_files.hpp"
#include "store/nested_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::string_view example = "fits:///directory/image.fits";

/// What `?type=` says, or what the first image naturally is.
PixelTarget choose_target(const std::string& asked, const FitsImage& image, const StoreUrl& url) {
  const PixelType natural = natural_type(image.format);
  for (const PixelType type : {PixelType{'f', 4}, PixelType{'f', 8}}) {
    if (asked == type.name()) {
      return {type, true};
    }
  }
  if (asked.empty() || asked == natural.name()) {
    return {natural, false};
  }
  throw StoreError(EINVAL, "store '" + url.text + "': pixels are not converted to '" + asked + "': choose float32 or " +
                               "float64, or leave type out for " + natural.name());
}

void require_same(const FitsImage& first, const FitsImage& image, const PixelTarget& target) {
  if (image.axes != first.axes) {
    throw StoreError(EINVAL, image.path + " has " + image.axes_text() + " pixels, and " + first.path + " has " +
                                 first.axes_text() + ": leave one of them out");
  }
  if (const PixelType natural = natural_type(image.format); !target.calculated && natural != target.type) {
    throw StoreError(EINVAL, image.path + " has pixels of type " + natural.name() + ", and " + first.path + " of " +
                                 target.type.name() + ": leave one of them out, or say ?type=float64");
  }
}

/// fits:s3://bucket/image.fits:1
std::unique_ptr<Store> open_fits_in(const NestedUrl& nested, OpenMode mode) {
  const StoreUrl& url = nested.format;
  UrlOptions options(url);
  const std::string type_asked = options.text("type");
  options.finish();
  if (has_wildcard(parse_store_url(nested.store).path)) {
    throw StoreError(ENOTSUP, "store '" + url.text +
                                  "': patterns are of files, and this is in a store: name one object, with %2A for a "
                                  "star and %5B for a bracket in its name, or copy them to files");
  }
  const std::string part = percent_decode(nested.part, url.text);
  const std::shared_ptr<Store> store = open_nested(nested, mode, "FITS files");
  FileOptions file_options;
  file_options.max_reads_in_flight = store->max_reads_in_flight();
  std::vector<FitsImage> images;
  {
    FitsFile file(store);
    images.push_back(find_fits_image(file, part));
  }
  const PixelTarget target = choose_target(type_asked, images.front(), url);
  return std::make_unique<FitsImageStore>(images, target, false, false, url.text, file_options);
}

}  // namespace

std::vector<FitsImage> find_fits_images(const StoreUrl& url) {
  const FilePart place = split_at_colon(url, example);
  const std::vector<std::string> paths =
      has_wildcard(place.file) ? matching_files(place.file, url) : std::vector{percent_decode(place.file, url.text)};
  const std::string part = percent_decode(place.part, url.text);
  std::vector<FitsImage> images;
  for (const std::string& path : paths) {
    FitsFile file(path);
    images.push_back(find_fits_image(file, part));
  }
  return images;
}

std::unique_ptr<Store> open_fits(const StoreUrl& url, OpenMode mode, const NewStore&) {
  if (const auto nested = parse_nested_url(url, {"type"}, true)) {
    return open_fits_in(*nested, mode);
  }
  UrlOptions options(url);
  const FileOptions file_options = options.file_options();
  const std::string type_asked = options.text("type");
  options.finish();
  if (mode == OpenMode::create) {
    throw StoreError(ENOTSUP,
                     "store '" + url.text + "': FITS files are not made here: make one with cfitsio or astropy");
  }
  const std::vector<FitsImage> images = find_fits_images(url);
  const PixelTarget target = choose_target(type_asked, images.front(), url);
  for (const FitsImage& image : images) {
    require_same(images.front(), image, target);
  }
  const bool stacked = has_wildcard(split_at_colon(url, example).file);
  const bool writable = mode != OpenMode::read_only;
  return std::make_unique<FitsImageStore>(images, target, stacked, writable, url.text, file_options);
}

}  // namespace tiermap
