// FITS files that lie in a store, an object in S3 above all: every image is what it is in a file, its headers take few
// requests, and what is wrong is said in one line.
#ifdef TIERMAP_HAS_S3
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "fits/fits_images.hpp"
#include "s3/strict_server.hpp"
#include "store/fits/headers.hpp"
#include "store/opening_refusal.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap::test {
namespace {

class FitsInStoreTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.runs()) << "python3 does not run tests/s3/strict_server.py"; }

  void upload() { server_.load("image.fits", read_file(path_)); }
  std::string url(const std::string& part, const std::string& options = "") const {
    return "fits:" + server_.url("image.fits" + part, options);
  }
  std::string file_url(const std::string& rest) const { return "fits:" + directory_.encoded() + "/image.fits" + rest; }
  std::string refusal(const std::string& part, int error_number, const std::string& options = "") const {
    return refusal_of_opening(url(part, options), error_number);
  }
  static std::vector<char> all_of(Store& store) {
    std::vector<char> bytes(store.size_bytes());
    EXPECT_EQ(store.read(bytes.data(), bytes.size(), 0), static_cast<std::int64_t>(bytes.size()));
    return bytes;
  }
  /// Wherever reads begin and end.
  static void expect_same(Store& store, Store& local) {
    const std::vector<char> expected = all_of(local);
    expect_equal(store, expected);
    EXPECT_EQ(store.element_layout()->shape, local.element_layout()->shape);
    EXPECT_EQ(store.element_layout()->type, local.element_layout()->type);
    std::mt19937_64 random(expected.size());
    for (int round = 0; round < 20; ++round) {
      const std::uint64_t offset = random() % expected.size();
      const std::uint64_t bytes = std::min<std::uint64_t>(random() % 5000, expected.size() - offset);
      std::vector<char> piece(bytes);
      ASSERT_EQ(store.read(piece.data(), bytes, offset), static_cast<std::int64_t>(bytes));
      ASSERT_EQ(std::memcmp(piece.data(), expected.data() + offset, bytes), 0);
    }
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "image.fits";
  StrictServer server_;
};

TEST_F(FitsInStoreTest, EveryKindOfImageIsWhatItIsInAFile) {
  std::uint64_t seed = 0;
  for (const ImageSpecification& image : every_kind_of_image(157, 131)) {
    std::filesystem::remove(path_);
    write_image(path_, image, ++seed);
    upload();
    SCOPED_TRACE(std::to_string(image.bits) + " bits, image " + std::to_string(seed));
    for (const char* const type : {"", "float32", "float64"}) {
      const std::string option = *type == '\0' ? "" : std::string("type=") + type;
      const auto local = open_store(file_url(option.empty() ? "" : "?" + option), OpenMode::read_only);
      const auto store = open_store(url("", option), OpenMode::read_only);
      EXPECT_EQ(store->name(), url("", option));
      EXPECT_FALSE(store->writable());
      EXPECT_EQ(store->write("x", 1, 0), -EROFS);
      expect_same(*store, *local);
      expect_same(
          *open_store("fits:file://" + directory_.encoded() + "/image.fits" + (option.empty() ? "" : "?") + option,
                      OpenMode::read_only),
          *local);
    }
  }
}

TEST_F(FitsInStoreTest, AnyHduIsFoundAndOthersAreRefused) {
  write_parts_of_many_kinds(path_);
  upload();
  for (const char* const part : {"", ":1", ":SCI", ":sci,1", ":SCI,2", ":SCI%2C2", ":2", ":4"}) {
    SCOPED_TRACE(part);
    expect_same(*open_store(url(part), OpenMode::read_only), *open_store(file_url(part), OpenMode::read_only));
  }
  const std::string object = server_.url("image.fits");
  const char* const images = "choose among the images 1 (SCI), 2 (SCI,2), 4";
  expect_said(refusal(":3", ENOTSUP), {object.c_str(), "has in HDU 3 a table, not an image", images});
  expect_said(refusal(":0", EINVAL), {"no pixels", images});
  expect_said(refusal(":5", EINVAL), {"an image of 0 x 5 pixels"});
  expect_said(refusal(":6", ENOENT), {"has no HDU 6, of 6", images});
  expect_said(refusal(":ERR", ENOENT), {object.c_str(), "has no HDU ERR", images});
  expect_said(refusal(":1:2", EINVAL), {"more than one colon", "%3A"});
  expect_said(refusal(":1", EINVAL, "type=int32"), {"'int32'", "float32 or float64"});
  expect_said(refusal(":1", EINVAL, "direct=off"), {"option 'direct' is unknown to s3"});
  expect_said(refusal_of_opening(url(":1"), EROFS, OpenMode::read_write), {"only read", "open it read-only"});
  expect_said(refusal_of_opening("fits:" + server_.url("*.fits"), ENOTSUP), {"patterns are of files", "%2A"});
  expect_said(refusal_of_opening("fits:" + server_.url("none.fits"), ENOENT), {"NoSuchKey"});
}

TEST_F(FitsInStoreTest, HeadersAreReadByFewRequestsAndPixelsByNone) {
  write_image(path_, {.bits = -64, .width = 1000, .height = 500, .comments = 200, .in_extension = true}, 1);
  upload();
  server_.counts();
  const auto store = open_store(url(":1"), OpenMode::read_only);
  EXPECT_LE(server_.counts()["get"], 3);
  std::vector<char> page(1 << 20);
  EXPECT_EQ(store->read(page.data(), page.size(), 1 << 20), 1 << 20);
  EXPECT_EQ(server_.counts()["get"], 1);
}

TEST_F(FitsInStoreTest, FilesThatAreNoneOrCutOff) {
  for (const std::string& content : {std::string(), std::string("\x1f\x8b and so on"), std::string("SIMPLEX and so on"),
                                     std::string("SIMPL"), "SIMPLE  = and so on" + std::string(9000, ' ')}) {
    server_.load("image.fits", content);
    expect_said(refusal("", EINVAL), {server_.url("image.fits").c_str()});
  }
  write_image(path_, {.width = 100, .height = 100}, 1);
  const std::string whole = read_file(path_);
  for (const std::uint64_t bytes : {22'879U, 10'000U, 2880U}) {
    server_.load("image.fits", whole.substr(0, bytes));
    expect_said(refusal("", EINVAL), {"is cut off", "100 x 100"});
  }
  server_.load("image.fits", whole.substr(0, 2000));
  expect_said(refusal("", EINVAL), {server_.url("image.fits").c_str()});
}

TEST_F(FitsInStoreTest, HeadersThatLieAreNoHarm) {
  write_parts_of_many_kinds(path_);
  const std::string whole = read_file(path_);
  std::mt19937 random(7);
  const char* const keywords[] = {"BITPIX  =", "NAXIS   =", "NAXIS1  =", "PCOUNT  =", "GCOUNT  =", "END      "};
  const char* const values[] = {"-1", "0", "9223372036854775807", "99999999999999999999", "1000", "T", "-64", "''"};
  for (int round = 0; round < 300; ++round) {
    std::string content = whole;
    const char* const keyword = keywords[random() % std::size(keywords)];
    std::vector<std::size_t> places;
    for (std::size_t at = content.find(keyword); at != std::string::npos; at = content.find(keyword, at + 1)) {
      places.push_back(at);
    }
    const std::string value = values[random() % std::size(values)];
    content.replace(places[random() % places.size()] + 10, 20, std::string(20 - value.size(), ' ') + value);
    write_file(path_, content);
    for (const char* const part : {":1", ":2", ":SCI,2", ":4"}) {
      std::vector<char> there;
      std::vector<char> local;
      try {
        there = all_of(*open_store("fits:file://" + directory_.encoded() + "/image.fits" + part, OpenMode::read_only));
        local = all_of(*open_store(file_url(part), OpenMode::read_only));
      } catch (const StoreError&) {  // What cfitsio makes of such a file is its own affair.
        there.clear();
      }
      EXPECT_TRUE(there.empty() || there == local) << keyword << value << part;
    }
  }
}

TEST_F(FitsInStoreTest, AnObjectThatChangesIsNotReadAnyFurther) {
  write_image(path_, {.bits = 32, .width = 1000, .height = 500}, 1);
  upload();
  const auto store = open_store(url(""), OpenMode::read_only);
  std::vector<char> page(4096);
  EXPECT_EQ(store->read(page.data(), page.size(), 4096), 4096);
  server_.load("image.fits", read_file(path_) + "x");
  testing::internal::CaptureStderr();
  EXPECT_EQ(store->read(page.data(), page.size(), 4096), -ESTALE);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("open it again"), std::string::npos);
}

TEST_F(FitsInStoreTest, AVectorLargerThanMemory) {
  write_image(path_, {.bits = 16, .width = 2000, .height = 1000, .zero = 32768}, 1);
  upload();
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  options.page_size_bytes = 64 << 10;
  const auto pixels = Vector<std::uint16_t>::open_read_only(url(""), options);
  const auto local = Vector<std::uint16_t>::open_read_only(file_url(""), options);
  ASSERT_EQ(pixels.size(), 2'000'000U);
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), local.begin(), local.end()));
  EXPECT_THROW(Vector<float>::open_read_only(url(""), options), StoreError);
  EXPECT_THROW(Vector<std::uint16_t>::open(url(""), options), StoreError);
}

}  // namespace
}  // namespace tiermap::test
#endif
