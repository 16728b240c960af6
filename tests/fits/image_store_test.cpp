// Images as a store: every pixel is what cfitsio reads, whatever the image's kind, wherever a page begins and however
// many files it spans; and what is written is what cfitsio reads then.
#include <fitsio.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "fits/fits_images.hpp"
#include "store/fits/image_store.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"
#include "tiermap/vector.hpp"

namespace tiermap::test {
namespace {

class FitsImageStoreTest : public testing::Test {
 protected:
  /// Writes images, and remembers what cfitsio reads from them.
  void make_images(const std::vector<ImageSpecification>& specifications) {
    for (const ImageSpecification& specification : specifications) {
      const std::string image = directory_ / (std::to_string(10 + count_) + ".fits");
      write_image(image, specification, count_++);
      const std::vector<float> pixels = read_image(image);
      all_.insert(all_.end(), pixels.begin(), pixels.end());
    }
  }
  std::string url(const std::string& rest) const { return "fits:" + directory_.encoded() + "/" + rest; }
  std::unique_ptr<Store> as_floats() const { return open_store(url("*.fits?type=float32"), OpenMode::read_only); }

  static bool same(float one, float other) { return one == other || (std::isnan(one) && std::isnan(other)); }
  void expect_pixels(const float* pixels, std::uint64_t first, std::uint64_t count) const {
    for (std::uint64_t index = 0; index < count; ++index) {
      ASSERT_TRUE(same(pixels[index], all_[first + index])) << first + index;
    }
  }

  const TemporaryDirectory directory_;
  std::uint64_t count_ = 0;
  std::vector<float> all_;
};

TEST_F(FitsImageStoreTest, AnyPieceIsWhatCfitsioReads) {
  make_images(every_kind_of_image(37, 53));
  const std::unique_ptr<Store> store = as_floats();
  ASSERT_EQ(store->size_bytes(), all_.size() * sizeof(float));
  EXPECT_FALSE(store->writable());
  EXPECT_EQ(store->element_layout()->shape, (std::vector<std::uint64_t>{count_, 53, 37}));
  EXPECT_EQ(store->element_layout()->row_bytes, 53U * 37 * 4);
  std::vector<std::byte> expected(store->size_bytes());
  std::memcpy(expected.data(), all_.data(), expected.size());
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t offset = random() % (store->size_bytes() + 10);
    const std::uint64_t bytes = random() % (round % 2 == 0 ? 30 : store->size_bytes());
    std::vector<std::byte> piece(bytes, std::byte{77});
    const std::uint64_t there = std::min(bytes, store->size_bytes() - std::min(offset, store->size_bytes()));
    ASSERT_EQ(store->read(piece.data(), bytes, offset), static_cast<std::int64_t>(there)) << seed;
    // Not a number has several forms.
    for (std::uint64_t index = 0; index < there; ++index) {
      if (!std::isnan(all_[(offset + index) / sizeof(float)])) {
        ASSERT_EQ(piece[index], expected[offset + index]) << seed << " " << offset << " " << bytes;
      }
    }
  }
}

TEST_F(FitsImageStoreTest, PagesSpanFilesAndFilesSpanPages) {
  for (const auto& [width, height] : {std::pair(3L, 1L), std::pair(37L, 53L), std::pair(301L, 299L)}) {
    all_.clear();
    count_ = 0;
    make_images(every_kind_of_image(width, height));
    for (const std::uint64_t page : {4096U, 65536U, 2U << 20U}) {
      CacheOptions options;
      options.budget_bytes = 8 * page;
      Cache cache(options);
      RegionOptions region_options;
      region_options.access = Access::read_only;
      region_options.page_size_bytes = page;
      const Region region = cache.map(std::shared_ptr<Store>(as_floats()), region_options);
      ASSERT_EQ(region.size(), all_.size() * sizeof(float));
      expect_pixels(region.as_span<const float>().data(), 0, all_.size());
    }
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      std::filesystem::remove(entry);
    }
  }
}

TEST_F(FitsImageStoreTest, WhatIsCutOffLaterCannotBeRead) {
  make_images({{.width = 100, .height = 100}, {.width = 100, .height = 100}});
  const std::unique_ptr<Store> store = as_floats();
  std::filesystem::resize_file(directory_ / "11.fits", 10000);
  std::vector<float> pixels(20000);
  EXPECT_EQ(store->read(pixels.data(), 40000, 0), 40000);
  expect_pixels(pixels.data(), 0, 10000);
  EXPECT_EQ(store->read(pixels.data(), 80000, 0), 40000);
  EXPECT_EQ(store->read(pixels.data(), 40000, 40000), -EIO);
}

/// An image as cfitsio writes and reads it in a type of C.
template <typename Number>
struct Native {
  int image_type;  ///< Of a new image, unsigned ones with BZERO.
  int data_type;
  const char* name;

  std::string path(const TemporaryDirectory& directory) const { return directory / (std::string(name) + ".fits"); }
  void write(const std::string& to, const std::vector<Number>& numbers) const {
    fitsfile* file = nullptr;
    int status = 0;
    std::array<long, 3> sides = {7, 11, static_cast<long>(numbers.size() / 77)};
    fits_create_diskfile(&file, to.c_str(), &status);
    fits_create_img(file, image_type, 3, sides.data(), &status);
    std::vector<Number> copy = numbers;
    fits_write_img(file, data_type, 1, static_cast<LONGLONG>(copy.size()), copy.data(), &status);
    fits_close_file(file, &status);
    ASSERT_EQ(status, 0) << name;
  }
  std::vector<Number> read(const std::string& from, std::size_t count) const {
    fitsfile* file = nullptr;
    int status = 0;
    std::vector<Number> numbers(count);
    fits_open_diskfile(&file, from.c_str(), READONLY, &status);
    fits_read_img(file, data_type, 1, static_cast<LONGLONG>(count), nullptr, numbers.data(), nullptr, &status);
    fits_close_file(file, &status);
    EXPECT_EQ(status, 0) << name;
    return numbers;
  }
};

template <typename Work>
void for_each_native(Work&& work) {
  work(Native<std::uint8_t>{BYTE_IMG, TBYTE, "uint8"});
  work(Native<std::int8_t>{SBYTE_IMG, TSBYTE, "int8"});
  work(Native<std::int16_t>{SHORT_IMG, TSHORT, "int16"});
  work(Native<std::uint16_t>{USHORT_IMG, TUSHORT, "uint16"});
  work(Native<std::int32_t>{LONG_IMG, TINT, "int32"});
  work(Native<std::uint32_t>{ULONG_IMG, TUINT, "uint32"});
  work(Native<std::int64_t>{LONGLONG_IMG, TLONGLONG, "int64"});
  work(Native<std::uint64_t>{ULONGLONG_IMG, TULONGLONG, "uint64"});
  work(Native<float>{FLOAT_IMG, TFLOAT, "float32"});
  work(Native<double>{DOUBLE_IMG, TDOUBLE, "float64"});
}

template <typename Number>
std::vector<Number> numbers_of_all_sizes(std::size_t count) {
  std::vector<Number> numbers = random_numbers<Number>(count, count, std::nullopt);
  numbers[0] = std::numeric_limits<Number>::max();
  numbers[1] = std::numeric_limits<Number>::lowest();
  numbers[2] = 0;
  return numbers;
}

TEST_F(FitsImageStoreTest, PixelsAreTheNumbersThatTheyWereWrittenAs) {
  for_each_native([&]<typename Number>(const Native<Number>& native) {
    const std::vector<Number> numbers = numbers_of_all_sizes<Number>(77 * 13);
    native.write(native.path(directory_), numbers);
    const auto pixels = Vector<Number>::open_read_only(url(std::string(native.name) + ".fits"));
    ASSERT_EQ(pixels.size(), numbers.size()) << native.name;
    EXPECT_EQ(std::memcmp(pixels.span().data(), numbers.data(), numbers.size() * sizeof(Number)), 0) << native.name;
    const std::unique_ptr<Store> store = open_store(url(std::string(native.name) + ".fits"), OpenMode::read_only);
    EXPECT_EQ(store->element_layout()->type, native.name);
    EXPECT_EQ(store->element_layout()->shape, (std::vector<std::uint64_t>{13, 11, 7}));
  });
}

TEST_F(FitsImageStoreTest, WhatIsWrittenIsWhatCfitsioReads) {
  for_each_native([&]<typename Number>(const Native<Number>& native) {
    std::vector<Number> numbers = numbers_of_all_sizes<Number>(77 * 500);
    native.write(native.path(directory_), numbers);
    const std::string header = read_file(native.path(directory_)).substr(0, 2880);
    {
      auto pixels = Vector<Number>::open(url(std::string(native.name) + ".fits"),
                                         {.budget_bytes = 128 << 10, .page_size_bytes = 4096});
      std::mt19937_64 random(numbers.size());
      for (int change = 0; change < 1000; ++change) {
        const std::size_t at = random() % numbers.size();
        numbers[at] = pixels[at] = numbers[random() % numbers.size()];
      }
      pixels.sync();
      pixels.close();
    }
    const std::vector<Number> read = native.read(native.path(directory_), numbers.size());
    EXPECT_EQ(std::memcmp(read.data(), numbers.data(), numbers.size() * sizeof(Number)), 0) << native.name;
    EXPECT_EQ(read_file(native.path(directory_)).substr(0, 2880), header) << native.name;
  });
}

TEST_F(FitsImageStoreTest, NotANumberKeepsItsBits) {
  const Native<float> native{FLOAT_IMG, TFLOAT, "float32"};
  native.write(native.path(directory_), std::vector<float>(77));
  const std::uint32_t bits = 0x7fa12345;  // A signalling one, which arithmetic would change.
  {
    const std::unique_ptr<Store> store = open_store(url("float32.fits"), OpenMode::read_write);
    EXPECT_EQ(store->write(&bits, 4, 40), 4);
    EXPECT_EQ(store->flush(), 0);
  }
  const std::unique_ptr<Store> store = open_store(url("float32.fits"), OpenMode::read_only);
  std::uint32_t read = 0;
  EXPECT_EQ(store->read(&read, 4, 40), 4);
  EXPECT_EQ(read, bits);
}

TEST_F(FitsImageStoreTest, RandomWorkOfManyThreadsOnManyFilesMatchesAnArray) {
  const Native<std::uint16_t> native{USHORT_IMG, TUSHORT, "uint16"};
  constexpr std::size_t pixels = 77 * 1000;
  for (const char* name : {"a.fits", "b.fits", "c.fits"}) {
    native.write(directory_ / name, std::vector<std::uint16_t>(pixels));
  }
  std::vector<char> expected(3 * pixels * sizeof(std::uint16_t));
  {
    const std::unique_ptr<Store> store = open_store(url("*.fits"), OpenMode::read_write);
    constexpr std::uint64_t threads = 4;
    std::vector<std::thread> workers;
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      // Borders lie in the middle of pixels.
      const std::uint64_t begin = thread * 115'501;
      const std::uint64_t end = thread + 1 == threads ? expected.size() : begin + 115'501;
      workers.emplace_back([&, begin, end, thread] { random_work(*store, expected, begin, end, 200, thread); });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
    expect_equal(*store, expected);
    EXPECT_EQ(store->flush(), 0);
    EXPECT_EQ(store->write("x", 1, expected.size()), -ENOSPC);
  }
  std::size_t at = 0;
  for (const char* name : {"a.fits", "b.fits", "c.fits"}) {
    const std::vector<std::uint16_t> read = native.read(directory_ / name, pixels);
    EXPECT_EQ(std::memcmp(read.data(), expected.data() + at, 2 * pixels), 0) << name;
    at += 2 * pixels;
  }
}

TEST_F(FitsImageStoreTest, ScaledPixelsAreFloatsThatHaveRoomForThem) {
  write_image(directory_ / "small.fits", {.bits = 16, .scale = 0.5, .zero = 3, .blank = 7}, 1);
  write_image(directory_ / "large.fits", {.bits = 32, .scale = 0.25, .zero = 1e9}, 1);
  write_image(directory_ / "moved.fits", {.bits = 8, .zero = 100}, 1);
  const auto small = Vector<float>::open_read_only(url("small.fits"));
  const std::vector<float> expected = read_image(directory_ / "small.fits");
  for (std::size_t at = 0; at < expected.size(); ++at) {
    EXPECT_TRUE(same(small[at], expected[at])) << at;
  }
  const auto large = Vector<double>::open_read_only(url("large.fits"));
  const std::vector<int> stored = random_numbers<int>(64, 1, std::nullopt);
  for (std::size_t at = 0; at < stored.size(); ++at) {
    EXPECT_EQ(large[at], 0.25 * stored[at] + 1e9) << at;
  }
  EXPECT_EQ(open_store(url("moved.fits"), OpenMode::read_only)->element_layout()->type, "float32");
}

}  // namespace
}  // namespace tiermap::test
