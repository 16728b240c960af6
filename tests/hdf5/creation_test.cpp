// Datasets that are made here: libhdf5 reads what was written, nothing else in the file changes, and what cannot be
// made is refused before anything is.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <numeric>

#include "hdf5/hdf5_file.hpp"
#include "store/file_size_limit.hpp"
#include "store/opening_refusal.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/error.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

class Hdf5CreationTest : public testing::Test {
 protected:
  std::string url(const std::string& name) const { return "hdf5:" + directory_.encoded() + "/file.h5:" + name; }

  static std::string refusal(const std::string& url, int error_number, std::uint64_t bytes = 0,
                             OpenMode mode = OpenMode::create) {
    return refusal_of_opening(url, error_number, mode, bytes);
  }
  template <typename T>
  std::vector<T> read_by_libhdf5(const std::string& name) const {
    const std::vector<char> bytes = dataset_bytes(path_, name);
    std::vector<T> elements(bytes.size() / sizeof(T));
    std::memcpy(elements.data(), bytes.data(), bytes.size());
    return elements;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file.h5";
};

TEST_F(Hdf5CreationTest, OfElementsThatAreNotWantedNothingIsMade) {
  const std::string made = url("/group/u?shape=40&type=float32");
  EXPECT_THROW(Vector<double>::create(made), StoreError);
  EXPECT_THROW(Vector<std::int32_t>::create(made, 40), StoreError);
  EXPECT_THROW((Vector<std::array<float, 3>>::open_or_create(made)), StoreError);
  EXPECT_THROW(Vector<float>::create(made, 40, {.budget_bytes = 1}), OptionError);
  EXPECT_THROW(Vector<float>::create(made, 40, {.page_size_bytes = 5000}), OptionError);
  EXPECT_FALSE(std::filesystem::exists(path_));
  Vector<double>::create(url("/other?shape=2&type=float64")).close();
  const auto bytes = std::filesystem::file_size(path_);
  EXPECT_THROW(Vector<double>::create(made), StoreError);
  EXPECT_EQ(std::filesystem::file_size(path_), bytes);
  Vector<float>::create(made, 40).close();  // The name is free.
  // A row is an element, too.
  EXPECT_EQ((Vector<std::array<float, 3>>::create(url("/rows?shape=5,3&type=float32"), 5).size()), 5U);
}

TEST_F(Hdf5CreationTest, ADatasetHasOneWriter) {
  auto first = Vector<float>::create(url("/u?shape=40&type=float32"));
  auto other = Vector<float>::create(url("/v?shape=40&type=float32"));
  for (const char* name : {"/u", "u", "//u", "/./u", "/u/"}) {
    EXPECT_THROW(Vector<float>::open(url(name)), StoreError) << name;
  }
  EXPECT_NO_THROW(Vector<float>::open_read_only(url("/u")));
  first.close();
  EXPECT_NO_THROW(Vector<float>::open(url("/u")));
}

TEST_F(Hdf5CreationTest, WhatIsWrittenIsWhatLibhdf5Reads) {
  const std::string made = url("/step_0010/u?shape=40,50,60&type=float32");
  {
    auto cells = Vector<float>::create(made, 120'000, {.budget_bytes = 1 << 20});
    EXPECT_EQ(cells.size(), 120'000U);
    EXPECT_EQ(cells[70'000], 0);
    std::iota(cells.begin(), cells.end(), 1.0F);
    cells.close();
  }
  // Beside it, while it is open: by the size alone, and then by the shape alone.
  const auto first = Vector<float>::open_read_only(made);
  auto second = Vector<std::int64_t>::create(url("/step_0010/count?type=int64"), 3);
  auto third = Vector<double>::create(url("/mean?type=float64&shape=2,2"));
  second[2] = -5;
  third[3] = 0.5;
  second.close();
  third.close();
  EXPECT_EQ(first[99], 100);
  EXPECT_EQ(read_by_libhdf5<std::int64_t>("/step_0010/count"), (std::vector<std::int64_t>{0, 0, -5}));
  EXPECT_EQ(read_by_libhdf5<double>("/mean"), (std::vector<double>{0, 0, 0, 0.5}));
  const std::vector<float> cells = read_by_libhdf5<float>("/step_0010/u");
  ASSERT_EQ(cells.size(), 120'000U);
  EXPECT_EQ(cells[119'999], 120'000);
  const auto layout = open_store(made, OpenMode::read_only)->element_layout();
  EXPECT_EQ(layout->shape, (std::vector<std::uint64_t>{40, 50, 60}));
  EXPECT_EQ(layout->type, "<f4");
}

TEST_F(Hdf5CreationTest, IsInPlaceAndPastThePageCache) {
  const auto store = open_store(url("/x?type=uint8&shape=2000000"), OpenMode::create);
  Extent extent;
  ASSERT_TRUE(store->locate_write(0, 1 << 20, extent));
  EXPECT_EQ(extent.offset % 4096, 0U);
}

TEST_F(Hdf5CreationTest, ANewVectorIsNotReadBeforeItIsWritten) {
  CacheOptions options;
  options.budget_bytes = 16 << 20;
  Cache cache(options);
  if (cache.fault_mode() == FaultMode::kernel) {
    GTEST_SKIP() << "the kernel reads what it maps";
  }
  VectorOptions through;
  through.cache = &cache;
  auto cells = Vector<float>::create(url("/x?type=float32"), 1 << 20, through);
  std::fill(cells.begin(), cells.end(), 2.0F);
  EXPECT_EQ(cache.statistics()[Counter::read_bytes], 0U);
  cells.close();
  EXPECT_EQ(read_by_libhdf5<float>("/x"), std::vector<float>(1 << 20, 2.0F));
}

TEST_F(Hdf5CreationTest, WhatIsThereIsHeldAgainstTheUrl) {
  const std::string made = url("/x?type=int16&shape=30,20");
  open_store(made, OpenMode::open_or_create);
  EXPECT_EQ(open_store(made, OpenMode::open_or_create)->size_bytes(), 1200U);
  expect_said(refusal(made, EEXIST), {"/x is there", "open it"});
  expect_said(refusal(url("/x?shape=600"), EINVAL, 0, OpenMode::read_only), {"shape 30,20, not 600"});
  expect_said(refusal(url("/x?type=uint16"), EINVAL, 0, OpenMode::read_only), {"<i2, not uint16"});
  expect_said(refusal(url("/x/y?type=int16"), EINVAL, 20), {"cannot be made", "another name"});
  EXPECT_EQ(read_by_libhdf5<std::int16_t>("/x"), std::vector<std::int16_t>(600));
}

TEST_F(Hdf5CreationTest, RoomThatSomethingElseHadIsCleared) {
  {
    const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_file_space_strategy(creation, H5F_FSPACE_STRATEGY_FSM_AGGR, 1, 1);
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT);
    const std::vector<char> ones(100'000, 1);
    const hsize_t count = ones.size();
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    for (const char* name : {"old", "kept"}) {
      const hid_t dataset = H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Dwrite(dataset, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones.data());
      H5Dclose(dataset);
    }
    H5Ldelete(file, "old", H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(creation);
    H5Fclose(file);
  }
  Vector<std::uint8_t>::create(url("/new?type=uint8"), 90'000).close();
  EXPECT_EQ(read_by_libhdf5<std::uint8_t>("/new"), std::vector<std::uint8_t>(90'000));
  EXPECT_EQ(read_by_libhdf5<std::uint8_t>("/kept"), std::vector<std::uint8_t>(100'000, 1));
}

TEST_F(Hdf5CreationTest, WhatCannotBeMadeLeavesNothing) {
  expect_said(refusal(url("/x"), EINVAL, 400), {"what type", "?type=float32&shape=64,64,64", "uint64"});
  expect_said(refusal(url("/x?type=complex64"), EINVAL, 400), {"type 'complex64' is unknown", "float64"});
  expect_said(refusal(url("/x?type=float32"), EINVAL), {"0 bytes", "shape="});
  expect_said(refusal(url("/x?type=float32"), EINVAL, 10), {"10 bytes", "float32"});
  expect_said(refusal(url("/x?type=float32&shape=3"), EINVAL, 16), {"takes 12 bytes", "16"});
  for (const char* shape : {"0", "3,", ",3", "3,-1", "x", "1 2", "99999999999999999999"}) {
    expect_said(refusal(url("/x?type=float32&shape=" + std::string(shape)), EINVAL), {"extents of 1 and more"});
  }
  expect_said(refusal(url("/x?type=int8&shape=4294967296,4294967296"), EFBIG), {"larger than any file"});
  expect_said(refusal(url("?type=int8&shape=3"), EINVAL), {"no name of a dataset"});
  expect_said(refusal(url("/?type=int8&shape=3"), EINVAL), {"no name of a dataset"});
  expect_said(refusal("hdf5:" + directory_.encoded() + "/no/file.h5:/x?type=int8&shape=3", ENOENT),
              {"cannot be created", "folder"});
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  write_file(path_, "some text");
  expect_said(refusal(url("/x?type=int8&shape=3"), EINVAL), {"no HDF5 file"});
  EXPECT_EQ(std::filesystem::file_size(path_), 9U);
}

TEST_F(Hdf5CreationTest, WhereThereIsNoRoomForAFileNoneIsLeft) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "what libhdf5 keeps of a file that it could not make is never freed, of which LeakSanitizer tells";
#endif
  {
    const FileSizeLimit full(0);
    refusal(url("/x?type=int8&shape=3"), EFBIG);
    EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  }
  Vector<std::int8_t>::create(url("/x?type=int8"), 3).close();
}

}  // namespace
}  // namespace tiermap
