// The cube of images as a store: every pixel is what cfitsio reads, whatever the image's kind, wherever a page begins
// and however many files it spans.
#include <cerrno>
#include <cstring>

#include "apps/fits_images.hpp"
#include "apps/program_fixture.hpp"
#include "median/cube.hpp"
#include "median/fits_cube_store.hpp"
#include "median/fits_image.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap::test {
namespace {

class FitsCubeTest : public ProgramTest {
 protected:
  /// Writes images, and remembers what cfitsio reads from them.
  void make_images(const std::vector<ImageSpecification>& specifications) {
    for (const ImageSpecification& specification : specifications) {
      const std::string image = path("work/" + std::to_string(10 + pixels_of_.size()) + ".fits");
      write_image(image, specification, pixels_of_.size());
      pixels_of_.push_back(read_image(image));
      all_.insert(all_.end(), pixels_of_.back().begin(), pixels_of_.back().end());
    }
  }
  std::string cube() const { return path("work"); }

  /// One of every kind.
  static std::vector<ImageSpecification> every_kind(long width, long height) {
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

  static bool same(float one, float other) { return one == other || (std::isnan(one) && std::isnan(other)); }
  void expect_pixels(const float* pixels, std::uint64_t first, std::uint64_t count) const {
    for (std::uint64_t index = 0; index < count; ++index) {
      ASSERT_TRUE(same(pixels[index], all_[first + index])) << first + index;
    }
  }

  std::vector<std::vector<float>> pixels_of_;
  std::vector<float> all_;
};

TEST_F(FitsCubeTest, AnyPieceIsWhatCfitsioReads) {
  make_images(every_kind(37, 53));
  FitsCubeStore store(read_fits_directory(cube()));
  ASSERT_EQ(store.size_bytes(), all_.size() * sizeof(float));
  EXPECT_FALSE(store.writable());
  std::vector<std::byte> expected(store.size_bytes());
  std::memcpy(expected.data(), all_.data(), expected.size());
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t offset = random() % (store.size_bytes() + 10);
    const std::uint64_t bytes = random() % (round % 2 == 0 ? 30 : store.size_bytes());
    std::vector<std::byte> piece(bytes, std::byte{77});
    const std::uint64_t there = std::min(bytes, store.size_bytes() - std::min(offset, store.size_bytes()));
    ASSERT_EQ(store.read(piece.data(), bytes, offset), static_cast<std::int64_t>(there)) << seed;
    // Not a number has several forms.
    for (std::uint64_t index = 0; index < there; ++index) {
      if (!std::isnan(all_[(offset + index) / sizeof(float)])) {
        ASSERT_EQ(piece[index], expected[offset + index]) << seed << " " << offset << " " << bytes;
      }
    }
  }
}

TEST_F(FitsCubeTest, PagesSpanFilesAndFilesSpanPages) {
  for (const auto& [width, height] : {std::pair(3L, 1L), std::pair(37L, 53L), std::pair(301L, 299L)}) {
    pixels_of_.clear();
    all_.clear();
    std::filesystem::remove_all(cube());
    std::filesystem::create_directory(cube());
    make_images(every_kind(width, height));
    for (const std::uint64_t page : {4096U, 65536U, 2U << 20U}) {
      CacheOptions options;
      options.budget_bytes = 8 * page;
      Cache cache(options);
      RegionOptions region_options;
      region_options.access = Access::read_only;
      region_options.page_size_bytes = page;
      const Region region = cache.map(std::make_shared<FitsCubeStore>(read_fits_directory(cube())), region_options);
      ASSERT_EQ(region.size(), all_.size() * sizeof(float));
      expect_pixels(region.as_span<const float>().data(), 0, all_.size());
    }
  }
}

TEST_F(FitsCubeTest, RawPixelsAreTheSame) {
  make_images(every_kind(37, 53));
  const RawCube raw(read_fits_directory(cube()), Advice::random);
  for (std::uint64_t image = 0; image < pixels_of_.size(); ++image) {
    for (std::uint64_t index = 0; index < pixels_of_[image].size(); ++index) {
      ASSERT_TRUE(same(raw.pixel(image, index), pixels_of_[image][index])) << image << " " << index;
    }
  }
}

TEST_F(FitsCubeTest, WhatIsCutOffLaterCannotBeRead) {
  make_images({{.width = 100, .height = 100}, {.width = 100, .height = 100}});
  FitsCubeStore store(read_fits_directory(cube()));
  std::filesystem::resize_file(path("work/11.fits"), 10000);
  std::vector<float> pixels(20000);
  EXPECT_EQ(store.read(pixels.data(), 40000, 0), 40000);
  expect_pixels(pixels.data(), 0, 10000);
  EXPECT_EQ(store.read(pixels.data(), 80000, 0), -EIO);
}

TEST_F(FitsCubeTest, TimesAreThoseOfTheHeaders) {
  make_images({{.day = 59000}, {.day = 59000.5}, {.day = 59002}});
  EXPECT_EQ(read_fits_directory(cube()).times, (std::vector<double>{0, 0.5, 2}));
  make_images({{}});
  EXPECT_EQ(read_fits_directory(cube()).times, (std::vector<double>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace tiermap::test
