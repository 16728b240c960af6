// A directory of images: when they were taken, their pixels where the files are mapped as they are, which medians are
// right, and what is found among many that are brighter.

#include "median/image_directory.hpp"

#include <filesystem>
#include <string>

#include "apps/program_fixture.hpp"
#include "fits/fits_images.hpp"
#include "median/cube.hpp"
#include "median/search_check.hpp"
#include "median/vector_search.hpp"

namespace tiermap::test {
namespace {

class ImageDirectoryTest : public ProgramTest {
 protected:
  /// Writes images, and remembers what cfitsio reads from them.
  void make_images(const std::vector<ImageSpecification>& specifications) {
    for (const ImageSpecification& specification : specifications) {
      const std::string image = path("work/" + std::to_string(10 + pixels_of_.size()) + ".fits");
      write_image(image, specification, pixels_of_.size());
      pixels_of_.push_back(read_image(image));
    }
  }
  std::string cube() const { return path("work"); }

  /// In an image of floats.
  static void write_pixel(const std::string& image, std::uint64_t pixel, float value) {
    fitsfile* file = nullptr;
    int status = 0;
    fits_open_diskfile(&file, image.c_str(), READWRITE, &status);
    fits_write_img(file, TFLOAT, static_cast<LONGLONG>(pixel) + 1, 1, &value, &status);
    fits_close_file(file, &status);
    ASSERT_EQ(status, 0) << image;
  }

  static bool same(float one, float other) { return one == other || (std::isnan(one) && std::isnan(other)); }
  std::vector<std::vector<float>> pixels_of_;
};

TEST_F(ImageDirectoryTest, RawPixelsAreTheSame) {
  make_images(every_kind_of_image(37, 53));
  const RawCube raw(read_fits_directory(cube()), Advice::random);
  for (std::uint64_t image = 0; image < pixels_of_.size(); ++image) {
    for (std::uint64_t index = 0; index < pixels_of_[image].size(); ++index) {
      ASSERT_TRUE(same(raw.pixel(image, index), pixels_of_[image][index])) << image << " " << index;
    }
  }
}

TEST_F(ImageDirectoryTest, EndingsMayBeInUpperCase) {
  make_images({{}, {}, {}});
  const std::string first = read_fits_directory(cube()).images.front().path;
  const std::string renamed = first.substr(0, first.size() - 5) + ".FITS";
  std::filesystem::rename(first, renamed);
  const FitsDirectory directory = read_fits_directory(cube());
  EXPECT_EQ(directory.images.size(), 3U);
  EXPECT_EQ(directory.images.front().path, renamed);
}

TEST_F(ImageDirectoryTest, TimesAreThoseOfTheHeaders) {
  make_images({{.day = 59000}, {.day = 59000.5}, {.day = 59002}});
  EXPECT_EQ(read_fits_directory(cube()).times, (std::vector<double>{0, 0.5, 2}));
  make_images({{}});
  EXPECT_EQ(read_fits_directory(cube()).times, (std::vector<double>{0, 1, 2, 3}));
}

// As where cameras write the largest number that there is for a pixel that they could not read.
TEST_F(ImageDirectoryTest, AMedianIsWrongHoweverBrightOtherPixelsAre) {
  make_images({{.bits = -32}, {.bits = -32}, {.bits = -32}});
  const FitsDirectory directory = read_fits_directory(cube());
  SearchPlan plan;
  plan.shape = directory.shape;
  plan.duration = 2;
  plan.speeds = {0, 0};
  plan.random_vectors = 1;
  const Sky sky{{0, 0, 0}, 1};
  for (std::size_t image = 0; image < directory.images.size(); ++image) {
    const MotionVector motion = plan[0];
    const std::uint64_t pixel = pixel_at(motion, directory.times[image], plan.shape);
    ASSERT_NE(pixel, outside_image);
    write_pixel(directory.images[image].path, pixel, image == 0 ? 1e30F : 10.0F * static_cast<float>(image));
  }
  EXPECT_EQ(find_wrong_median(directory, plan, sky, {{0, 3, 20, 0}}), "");
  EXPECT_NE(find_wrong_median(directory, plan, sky, {{0, 3, 21, 0}}), "");
  EXPECT_NE(find_wrong_median(directory, plan, sky, {{0, 2, 20, 0}}), "");
}

/// Images of 64 x 64 pixels, all of them bright but those of one corner.
struct BrightCube {
  static constexpr std::uint64_t side = 64;
  static constexpr std::uint64_t corner = 16;

  static float pixel(std::uint64_t /*image*/, std::uint64_t index) noexcept {
    return index / side < corner && index % side < corner ? 20.0F : 1000.0F;
  }
  static std::uint64_t page_size_bytes() noexcept { return 4096; }
  static std::uint64_t page_of(std::uint64_t image, std::uint64_t /*index*/) noexcept { return image; }
  static void prefetch(std::uint64_t /*image*/, std::span<const std::uint64_t> /*pages*/) noexcept {}
};

TEST_F(ImageDirectoryTest, AKnownObjectIsFoundHoweverManyVectorsAreBrighter) {
  const std::vector<double> times{0, 1, 2};
  SearchPlan plan;
  plan.shape = {times.size(), BrightCube::side, BrightCube::side};
  plan.speeds = {0, 0};
  plan.objects = {{{6, 6, 0, 0}, 20}};
  plan.duration = times.back();
  plan.random_vectors = 3 * BestMedians::most;
  SearchOptions options;
  options.in_flight = 1000;
  ThreadTeam team(2);
  ProgressDisplay progress("searching", 0);
  const SearchResult result = search_vectors(BrightCube(), plan, times, {{0, 0, 0}, 1}, options, team, progress);
  EXPECT_NE(find_object(detections_of(result.best, plan), plan.objects.front(), plan.duration), nullptr);
}

}  // namespace
}  // namespace tiermap::test
