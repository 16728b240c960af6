// A directory of images: when they were taken, and their pixels where the files are mapped as they are.

#include "median/image_directory.hpp"

#include <filesystem>
#include <string>

#include "apps/program_fixture.hpp"
#include "fits/fits_images.hpp"
#include "median/cube.hpp"

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

}  // namespace
}  // namespace tiermap::test
