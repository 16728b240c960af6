// Which image a URL means, and FITS files and URLs that are wrong: one line that says what and what to do.
#include <fitsio.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "fits/fits_images.hpp"
#include "store/opening_refusal.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap::test {
namespace {

class FitsOpeningTest : public testing::Test {
 protected:
  FitsOpeningTest() { testing::internal::CaptureStderr(); }
  ~FitsOpeningTest() override { EXPECT_EQ(testing::internal::GetCapturedStderr(), ""); }

  std::string url(const std::string& rest) const { return "fits:" + directory_.encoded() + "/" + rest; }

  std::string refusal(const std::string& rest, int error_number, OpenMode mode = OpenMode::read_only) const {
    return refusal_of_opening(url(rest), error_number, mode);
  }
  void write_parts() const { write_parts_of_many_kinds(directory_ / "parts.fits"); }

  const TemporaryDirectory directory_;
};

TEST_F(FitsOpeningTest, AnImageIsChosenByNumberAndByName) {
  write_parts();
  const std::pair<const char*, short> choices[] = {{"", 1},       {":1", 1},       {":SCI", 1}, {":sci,1", 1},
                                                   {":SCI,2", 2}, {":SCI%2C2", 2}, {":2", 2},   {":4", 4}};
  for (const auto& [part, value] : choices) {
    const auto pixels = Vector<short>::open_read_only(url(std::string("parts.fits") + part));
    EXPECT_EQ(pixels.size(), value == 4 ? 4U : 3U) << part;
    EXPECT_EQ(pixels[0], value) << part;
  }
  auto second = Vector<short>::open(url("parts.fits:2"));
  second[1] = 77;
  second.close();
  EXPECT_EQ(Vector<short>::open_read_only(url("parts.fits:SCI,2"))[1], 77);
  EXPECT_EQ(Vector<short>::open_read_only(url("parts.fits:SCI"))[1], 1);
}

TEST_F(FitsOpeningTest, AnImageHasOneWriterByWhateverName) {
  write_parts();
  auto first = Vector<short>::open(url("parts.fits"));
  for (const char* name : {"parts.fits:1", "parts.fits:SCI", "parts.fits:sci,1", "*.fits"}) {
    try {
      Vector<short>::open(url(name));
      ADD_FAILURE() << name;
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), EBUSY) << error.what();
    }
  }
  EXPECT_THROW(Vector<std::byte>::open(directory_ / "parts.fits"), StoreError);
  auto second = Vector<short>::open(url("parts.fits:2"));
  first[0] = 77;
  first.close();
  EXPECT_EQ(Vector<short>::open(url("parts.fits:SCI"))[0], 77);
}

/// An image of one pixel that has so many dimensions, as a part of a file.
std::string part_of_dimensions(int dimensions, const std::string& first_card) {
  std::string header;
  const auto add = [&](const std::string& card) { header += card + std::string(80 - card.size(), ' '); };
  add(first_card);
  add("BITPIX  =                   16");
  const std::string count = std::to_string(dimensions);
  add("NAXIS   = " + std::string(20 - count.size(), ' ') + count);
  for (int axis = 1; axis <= dimensions; ++axis) {
    const std::string number = std::to_string(axis);
    add("NAXIS" + number + std::string(3 - number.size(), ' ') + "=                    1");
  }
  add("END");
  header.resize((header.size() + 2879) / 2880 * 2880, ' ');
  return header + std::string(2880, '\0');
}

// cfitsio takes up to 999, as the standard says, and writes past the end of what it has for them.
TEST_F(FitsOpeningTest, MoreDimensionsThanCfitsioHasRoomFor) {
  const std::string first = "SIMPLE  =                    T";
  write_file(directory_ / "most.fits", part_of_dimensions(99, first));
  EXPECT_EQ(Vector<std::int16_t>::open_read_only(url("most.fits")).size(), 1U);
  write_file(directory_ / "many.fits", part_of_dimensions(200, first));
  write_file(directory_ / "cut.fits", part_of_dimensions(999, first).substr(0, 20'000));
  write_file(directory_ / "second.fits",
             part_of_dimensions(1, first) + part_of_dimensions(300, "XTENSION= 'IMAGE   '          "));
  for (const std::string& folder : {url(""), "fits:file://" + directory_.encoded() + "/"}) {
    expect_said(refusal_of_opening(folder + "many.fits", EINVAL),
                {"many.fits has in HDU 0 200 dimensions, and cfitsio takes 99: leave it out"});
    expect_said(refusal_of_opening(folder + "cut.fits", EINVAL), {"has in HDU 0 999 dimensions"});
    expect_said(refusal_of_opening(folder + "second.fits:1", EINVAL), {"has in HDU 1 300 dimensions"});
  }
}

TEST_F(FitsOpeningTest, PartsThatAreNoImages) {
  write_parts();
  const char* const images = "choose among the images 1 (SCI), 2 (SCI,2), 4";
  expect_said(refusal("parts.fits:3", ENOTSUP), {"parts.fits has in HDU 3 a table, not an image", images});
  expect_said(refusal("parts.fits:CAT", ENOTSUP), {"a table", images});
  expect_said(refusal("parts.fits:0", EINVAL), {"no pixels", images});
  expect_said(refusal("parts.fits:5", EINVAL), {"an image of 0 x 5 pixels", images});
  EXPECT_TRUE(refusal("parts.fits:5", EINVAL).ends_with(images)) << "an image without pixels is none to choose";
  expect_said(refusal("parts.fits:6", ENOENT), {"has no HDU 6, of 6", images});
  expect_said(refusal("parts.fits:-1", ENOENT), {"has no HDU -1"});
  expect_said(refusal("parts.fits:ERR", ENOENT), {"has no HDU ERR", images});
  expect_said(refusal("parts.fits:SCI,3", ENOENT), {"has no HDU SCI,3", images});
  expect_said(refusal("parts.fits:1:2", EINVAL), {"more than one colon", "%3A"});
  expect_said(refusal("parts.fits:1?shape=3", EINVAL), {"option 'shape' is unknown to fits", "type"});
}

TEST_F(FitsOpeningTest, FilesThatAreNone) {
  expect_said(refusal("a.fits", ENOENT), {"a.fits cannot be opened: No such file"});
  expect_said(refusal("*.fits", ENOENT), {"no file matches"});
  write_file(directory_ / "a.fits", "");
  expect_said(refusal("a.fits", EINVAL), {"a.fits is empty"});
  write_file(directory_ / "a.fits", "\x1f\x8b and so on");
  expect_said(refusal("a.fits", EINVAL), {"gunzip"});
  write_file(directory_ / "a.fits", "SIMPLEX and so on");
  expect_said(refusal("a.fits", EINVAL), {"a.fits is no FITS file"});
  write_file(directory_ / "a.fits", "SIMPLE  = and so on" + std::string(9000, ' '));
  expect_said(refusal("a.fits", EINVAL), {"a.fits is no FITS image"});
  expect_said(refusal("", EISDIR), {"Is a directory"});
}

TEST_F(FitsOpeningTest, FilesThatAreCutOff) {
  write_image(directory_ / "a.fits", {.width = 100, .height = 100}, 1);
  for (const std::uint64_t bytes : {22'879U, 10'000U, 2880U}) {
    std::filesystem::resize_file(directory_ / "a.fits", bytes);
    expect_said(refusal("a.fits", EINVAL), {"a.fits is cut off", "100 x 100"});
  }
  std::filesystem::resize_file(directory_ / "a.fits", 2000);
  expect_said(refusal("a.fits", EINVAL), {"a.fits is cut off: its 2000 bytes end within its header: copy it again"});
}

TEST_F(FitsOpeningTest, FilesThatAreCutOffInALongHeader) {
  const auto card = [](std::string text) { return text.append(80 - text.size(), ' '); };
  std::string header = card("SIMPLE  =                    T") + card("BITPIX  =                   16") +
                       card("NAXIS   =                    2") + card("NAXIS1  =                  100") +
                       card("NAXIS2  =                  100");
  while (header.size() < 3000) {
    header += card("COMMENT one more");
  }
  for (const std::size_t bytes : {2880U, 3000U}) {
    write_file(directory_ / "a.fits", header.substr(0, bytes));
    expect_said(refusal("a.fits", EINVAL),
                {"a.fits is cut off", "bytes end within its header", std::to_string(bytes).c_str()});
  }
}

TEST_F(FitsOpeningTest, AKeywordWhoseValueCannotBeTakenIsNamed) {
  write_image(directory_ / "a.fits", {.bits = 16, .scale = 2}, 1);
  std::string bytes = read_file(directory_ / "a.fits");
  const std::size_t at = bytes.find("BSCALE  =");
  ASSERT_NE(at, std::string::npos);
  write_file(directory_ / "a.fits", bytes.replace(at, 80, "BSCALE  =                1E400" + std::string(50, ' ')));
  expect_said(refusal("a.fits", EINVAL), {"a.fits has a BSCALE that cannot be taken (", "): mend its header"});
}

// Of such an image programs take different bytes for its pixels.
TEST_F(FitsOpeningTest, ImagesWithNumbersBeforeTheirPixels) {
  write_image(directory_ / "a.fits", {.bits = 16}, 1);
  std::string bytes = read_file(directory_ / "a.fits");
  bytes.replace(bytes.find("COMMENT "), 80, "PCOUNT  =                    0" + std::string(50, ' '));
  write_file(directory_ / "a.fits", bytes);
  EXPECT_EQ(open_store(url("a.fits"), OpenMode::read_only)->size_bytes(), 128U);
  bytes[bytes.find("PCOUNT  =") + 29] = '5';
  write_file(directory_ / "a.fits", bytes);
  expect_said(refusal("a.fits", EINVAL), {"a.fits has in HDU 0 an image with PCOUNT 5", ": write it without"});
}

TEST_F(FitsOpeningTest, ImagesOfMorePixelsThanCanBeCounted) {
  write_image(directory_ / "a.fits", {.bits = 16}, 1);
  std::string bytes = read_file(directory_ / "a.fits");
  for (const char* side : {"NAXIS1  =           4294967296", "NAXIS2  =           4294967296"}) {
    bytes.replace(bytes.find(std::string(side).substr(0, 9)), 30, side);
  }
  write_file(directory_ / "a.fits", bytes);
  expect_said(refusal("a.fits", EINVAL), {"a.fits is cut off: an image of 4294967296 x 4294967296 pixels"});
}

TEST_F(FitsOpeningTest, CompressedImages) {
  write_image(directory_ / "a.fits", {.width = 100, .height = 100}, 1);
  fitsfile* from = nullptr;
  fitsfile* to = nullptr;
  int status = 0;
  fits_open_diskfile(&from, (directory_ / "a.fits").c_str(), READONLY, &status);
  fits_create_diskfile(&to, (directory_ / "b.fits").c_str(), &status);
  fits_set_compression_type(to, RICE_1, &status);
  fits_img_compress(from, to, &status);
  fits_close_file(to, &status);
  fits_close_file(from, &status);
  ASSERT_EQ(status, 0);
  expect_said(refusal("b.fits", ENOTSUP), {"b.fits has in HDU 1 a compressed image", "funpack"});
  expect_said(refusal("b.fits:1", ENOTSUP), {"funpack"});
}

TEST_F(FitsOpeningTest, TypesThatDoNotFit) {
  write_image(directory_ / "a.fits", {.bits = 16, .zero = 32768}, 1);
  write_image(directory_ / "b.fits", {.bits = 16}, 1);
  write_image(directory_ / "c.fits", {.bits = 16, .scale = 0}, 1);
  write_image(directory_ / "wide.fits", {.bits = 16, .width = 9}, 1);
  expect_said(refusal("a.fits?type=int32", EINVAL), {"'int32'", "float32 or float64", "uint16"});
  expect_said(refusal("[ab].fits", EINVAL),
              {"b.fits has pixels of type int16, and", "a.fits of uint16", "type=float64"});
  EXPECT_EQ(open_store(url("[ab].fits?type=float64"), OpenMode::read_only)->size_bytes(), 1024U);
  expect_said(refusal("c.fits", EINVAL), {"BSCALE 0"});
  expect_said(refusal("[bw]*.fits", EINVAL), {"wide.fits has 9 x 8 pixels, and", "b.fits has 8 x 8"});
  try {
    Vector<short>::open_read_only(url("a.fits"));
    ADD_FAILURE() << "short for uint16";
  } catch (const StoreError& error) {
    expect_said(error.what(), {"a.fits holds elements of type uint16, of 2 bytes, and not i2"});
  }
  using Row = std::array<std::uint16_t, 8>;
  EXPECT_EQ(Vector<Row>::open_read_only(url("a.fits")).size(), 8U);
}

TEST_F(FitsOpeningTest, WhatCannotBeWritten) {
  write_image(directory_ / "scaled.fits", {.bits = 16, .scale = 0.5}, 1);
  write_image(directory_ / "a.fits", {}, 1);
  expect_said(refusal("scaled.fits", ENOTSUP, OpenMode::read_write), {"BITPIX 16 as float32", "open it read-only"});
  expect_said(refusal("a.fits?type=float32", ENOTSUP, OpenMode::read_write), {"open it read-only"});
  expect_said(refusal("new.fits", ENOTSUP, OpenMode::create), {"not made here", "cfitsio or astropy"});
  expect_said(refusal("new.fits", ENOENT, OpenMode::open_or_create), {"new.fits cannot be opened"});
  EXPECT_FALSE(std::filesystem::exists(directory_ / "new.fits"));
  std::filesystem::create_hard_link(directory_ / "a.fits", directory_ / "also.fits");
  expect_said(refusal("a*.fits", EINVAL, OpenMode::read_write), {"two of the names are one file"});
  EXPECT_EQ(open_store(url("a*.fits"), OpenMode::read_only)->size_bytes(), 256U);
  EXPECT_EQ(open_store(url("a.fits"), OpenMode::read_only)->write("xy", 2, 0), -EROFS);
}

}  // namespace
}  // namespace tiermap::test
