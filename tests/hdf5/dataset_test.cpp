// Datasets of every layout: read and written as one array in row-major order, as libhdf5 itself reads and writes them.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>
#include <thread>

#include "hdf5/hdf5_file.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/region.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

struct NamedForm {
  const char* name;
  Form form;
  const char* options = "";
};

void PrintTo(const NamedForm& form, std::ostream* stream) {
  *stream << form.name;
}

/// Types are there only once libhdf5 is at work, which is after the tests are named.
hid_t packed_fields() {
  const hid_t type = H5Tcreate(H5T_COMPOUND, 13);
  H5Tinsert(type, "id", 0, H5T_STD_U64LE);
  H5Tinsert(type, "mass", 8, H5T_IEEE_F32LE);
  H5Tinsert(type, "kind", 12, H5T_STD_U8LE);
  return type;
}

std::vector<NamedForm> forms() {
  const hsize_t extents[] = {5};
  return {
      {"contiguous", {{30'001}}},
      {"contiguous_3d", {{17, 22, 31}, H5T_IEEE_F64LE}},
      {"chunked", {{30'001}, H5T_IEEE_F32LE, {1000}}},
      {"filtered", {{30'001}, H5T_IEEE_F32LE, {4096}, true}},
      {"checked", {{200, 201}, H5T_STD_I16LE, {64, 50}, true, true}},
      {"edges_3d", {{17, 22, 31}, H5T_IEEE_F64LE, {5, 6, 7}, true}},
      {"edges_4d", {{7, 11, 13, 17}, H5T_STD_U8LE, {3, 4, 5, 6}}},
      {"little_memory", {{17, 22, 31}, H5T_IEEE_F64LE, {5, 6, 7}, true}, "?decoded=4KiB"},
      {"growing", {{9000, 3}, H5T_IEEE_F64LE, {512, 3}, false, false, false, true}},
      {"one_chunk", {{300, 300}, H5T_IEEE_F32LE, {300, 300}, true}},
      {"fields", {{9001}, packed_fields(), {100}, true}},
      {"arrays", {{900}, H5Tarray_create2(H5T_IEEE_F64LE, 1, extents), {64}}},
      {"compact", {{1000}, H5T_STD_I32LE, {}, false, false, true}},
      {"single", {{}, H5T_IEEE_F64LE}},
  };
}

class Hdf5DatasetTest : public testing::TestWithParam<NamedForm> {
 protected:
  Hdf5DatasetTest() { WrittenFile(path_).add("/group/data", GetParam().form, expected_.data()); }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file.h5";
  const std::string url_ = "hdf5:" + directory_.encoded() + "/file.h5:/group/data" + GetParam().options;
  std::vector<char> expected_ = random_bytes(bytes_of(GetParam().form));
};

TEST_P(Hdf5DatasetTest, IsReadAsItWasWritten) {
  const auto store = open_store(url_, OpenMode::read_only);
  EXPECT_FALSE(store->writable());
  EXPECT_EQ(store->write("x", 1, 0), -EROFS);
  expect_equal(*store, expected_);
  random_work(*store, expected_, 0, expected_.size(), 40, 1);
}

TEST_P(Hdf5DatasetTest, IsThereForLibhdf5WhenItWasWritten) {
  {
    const auto store = open_store(url_, OpenMode::read_write);
    random_work(*store, expected_, 0, expected_.size(), 40, 2);
    expect_equal(*store, expected_);
  }
  EXPECT_EQ(dataset_bytes(path_, "/group/data"), expected_);
  {
    const auto store = open_store(url_, OpenMode::read_write);
    const std::vector<char> last = random_bytes(expected_.size(), 3);
    ASSERT_EQ(store->write(last.data(), last.size(), 0), static_cast<std::int64_t>(last.size()));
    EXPECT_EQ(store->write("x", 1, last.size()), -ENOSPC);
    EXPECT_EQ(store->flush(), 0);
    expected_ = last;
  }
  EXPECT_EQ(dataset_bytes(path_, "/group/data"), expected_);
}

TEST_P(Hdf5DatasetTest, ThreadsWriteBesideEachOther) {
  {
    const auto store = open_store(url_, OpenMode::read_write);
    const std::uint64_t parts = std::min<std::uint64_t>(expected_.size(), 4);
    std::vector<std::thread> workers;
    for (std::uint64_t part = 0; part < parts; ++part) {
      workers.emplace_back([&, part] {
        random_work(*store, expected_, expected_.size() * part / parts, expected_.size() * (part + 1) / parts, 15,
                    10 + part);
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
  }
  EXPECT_EQ(dataset_bytes(path_, "/group/data"), expected_);
}

TEST_P(Hdf5DatasetTest, SaysWhatItsElementsAre) {
  const auto layout = open_store(url_, OpenMode::read_only)->element_layout();
  ASSERT_TRUE(layout.has_value());
  std::uint64_t bytes = layout->bytes;
  for (const std::uint64_t extent : layout->shape) {
    bytes *= extent;
  }
  EXPECT_EQ(bytes, expected_.size());
  EXPECT_EQ(layout->row_bytes * (layout->shape.empty() ? 1 : layout->shape[0]), expected_.size());
}

INSTANTIATE_TEST_SUITE_P(Forms, Hdf5DatasetTest, testing::ValuesIn(forms()),
                         [](const auto& form) { return std::string(form.param.name); });

class Hdf5PlaceTest : public testing::Test {
 protected:
  std::string url(const std::string& name) const { return "hdf5:" + directory_.encoded() + "/file.h5:" + name; }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file.h5";
};

TEST_F(Hdf5PlaceTest, AContiguousDatasetIsAPieceOfTheFile) {
  const Form form{{1 << 18}};
  WrittenFile(path_, 4096).add("aligned", form, random_bytes(bytes_of(form)).data());
  const auto store = open_store(url("aligned"), OpenMode::read_write);
  Extent extent;
  ASSERT_TRUE(store->locate_read(0, 1 << 20, extent));
  EXPECT_EQ(extent.bytes, 1U << 20);
  EXPECT_EQ(extent.offset % 4096, 0U);
  EXPECT_TRUE(store->locate_write(4096, 8192, extent));
}

TEST_F(Hdf5PlaceTest, WhatWasNeverWrittenIsWhatItIsFilledWith) {
  {
    const WrittenFile file(path_);
    file.add("contiguous", {{5000}}, nullptr);
    file.add("chunked", {{5000}, H5T_IEEE_F32LE, {1000}, true}, nullptr);
  }
  for (const char* name : {"contiguous", "chunked"}) {
    std::vector<char> expected(20'000);
    expect_equal(*open_store(url(name), OpenMode::read_only), expected);
    {
      const auto store = open_store(url(name), OpenMode::read_write);
      ASSERT_EQ(store->write("here", 4, 9999), 4);
    }
    std::memcpy(expected.data() + 9999, "here", 4);
    expect_equal(*open_store(url(name), OpenMode::read_only), expected);
    EXPECT_EQ(dataset_bytes(path_, name), expected);
  }
}

TEST_F(Hdf5PlaceTest, ElementsBehindOtherBytesAreFound) {
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(creation, 1024);
  const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  const hsize_t count = 1000;
  const hid_t space = H5Screate_simple(1, &count, nullptr);
  const hid_t dataset = H5Dcreate2(file, "x", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<char> expected = random_bytes(8000);
  H5Dwrite(dataset, H5T_IEEE_F64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, expected.data());
  H5Dclose(dataset);
  H5Sclose(space);
  H5Fclose(file);
  H5Pclose(creation);
  expect_equal(*open_store(url("x"), OpenMode::read_only), expected);
}

TEST_F(Hdf5PlaceTest, DatasetsOfOneFileAreOpenAtOnceInWhateverOrder) {
  const Form contiguous{{20'000}};
  const Form chunked{{20'000}, H5T_IEEE_F32LE, {1000}, true};
  std::vector<char> expected = random_bytes(80'000);
  {
    const WrittenFile file(path_, 1, true);
    file.add("positions", contiguous, expected.data());
    file.add("masses", chunked, expected.data());
    file.add("labels", chunked, expected.data());
  }
  const auto positions = open_store(url("positions"), OpenMode::read_only);
  const auto masses = open_store(url("masses"), OpenMode::read_only);
  expect_equal(*masses, expected);
  std::vector<char> written = expected;
  {
    const auto labels = open_store(url("labels"), OpenMode::read_write);  // Opens the file again under the others.
    random_work(*labels, written, 0, written.size(), 20, 4);
    expect_equal(*masses, expected);
    expect_equal(*positions, expected);
  }
  expect_equal(*open_store(url("labels"), OpenMode::read_only), written);
}

TEST_F(Hdf5PlaceTest, AFileThatWasRenamedWhileItWasOpenIsOpenedAgainByTheNameThatItHas) {
  const Form form{{20'000}, H5T_IEEE_F32LE, {1000}, true};
  const auto make = [&](const std::vector<char>& bytes) {
    const WrittenFile file(path_);
    file.add("masses", form, bytes.data());
    file.add("labels", form, bytes.data());
  };
  std::vector<char> expected = random_bytes(80'000);
  make(expected);
  const auto masses = open_store(url("masses"), OpenMode::read_only);
  const std::string renamed = directory_ / "renamed.h5";
  std::filesystem::rename(path_, renamed);
  const std::vector<char> of_the_next = random_bytes(80'000, 2);
  make(of_the_next);
  const std::vector<char> before = expected;
  {
    const auto labels = open_store("hdf5:" + directory_.encoded() + "/renamed.h5:labels", OpenMode::read_write);
    expect_equal(*labels, expected);
    random_work(*labels, expected, 0, expected.size(), 5, 7);
    expect_equal(*masses, before);
  }
  EXPECT_EQ(dataset_bytes(renamed, "labels"), expected);
  EXPECT_EQ(dataset_bytes(path_, "labels"), of_the_next);
}

TEST_F(Hdf5PlaceTest, ADatasetHasOneWriterByWhicheverOfItsNames) {
  const std::vector<char> expected = random_bytes(80'000);
  {
    const WrittenFile file(path_);
    file.add("contiguous", {{20'000}}, expected.data());
    file.add("chunked", {{20'000}, H5T_IEEE_F32LE, {1000}, true}, expected.data());
    file.add("other", {{20'000}, H5T_IEEE_F32LE, {1000}, true}, expected.data());
    for (const std::string name : {"contiguous", "chunked"}) {
      H5Lcreate_hard(file.id(), name.c_str(), file.id(), (name + "_too").c_str(), H5P_DEFAULT, H5P_DEFAULT);
      H5Lcreate_soft(name.c_str(), file.id(), (name + "_also").c_str(), H5P_DEFAULT, H5P_DEFAULT);
    }
  }
  for (const std::string name : {"contiguous", "chunked"}) {
    auto first = Vector<float>::open(url(name));
    for (const std::string& again : {name, name + "_too", name + "_also"}) {
      try {
        Vector<float>::open(url(again));
        ADD_FAILURE() << again;
      } catch (const StoreError& error) {
        EXPECT_EQ(error.code().value(), EBUSY) << error.what();
      }
      EXPECT_NO_THROW(Vector<float>::open_read_only(url(again)));
    }
    EXPECT_NO_THROW(Vector<float>::open(url("other")));
    first[3] = 7;
    first.close();
    EXPECT_EQ(Vector<float>::open(url(name + "_too"))[3], 7);
  }
}

TEST_F(Hdf5PlaceTest, ADatasetOfATypeWithANameIsReadWhileAnotherIsWritten) {
  const std::vector<char> expected = random_bytes(80'000);
  {
    const WrittenFile file(path_);
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    ASSERT_GE(H5Tcommit2(file.id(), "mass", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), 0);
    for (const char* name : {"masses", "more"}) {
      file.add(name, {{20'000}, type, {1000}, true}, expected.data());
    }
    H5Tclose(type);
  }
  const auto masses = open_store(url("masses"), OpenMode::read_only);
  const auto more = open_store(url("more"), OpenMode::read_write);
  ASSERT_EQ(more->write("here", 4, 0), 4);
  expect_equal(*masses, expected);
}

TEST_F(Hdf5PlaceTest, NamesMayHaveAnyCharacter) {
  const std::string path = directory_ / "odd: name?.h5";
  const Form form{{10}};
  WrittenFile(path).add("/a b:c%/d", form, random_bytes(40).data());
  const std::string file = "hdf5://" + directory_.encoded() + "/odd%3A%20name%3F.h5";
  EXPECT_EQ(open_store(file + ":/a b%3Ac%25/d", OpenMode::read_only)->size_bytes(), 40U);
  EXPECT_EQ(open_store(file + ":a%20b%3Ac%25/d?decoded=1MiB&max_reads=3", OpenMode::read_only)->max_reads_in_flight(),
            3U);
}

/// Gadget's snapshots: positions of particles, N x 3, in a tenth or a fifth of their memory and by several threads.
template <typename Number>
void sum_particles(const std::string& url, std::size_t count) {
  using Position = std::array<Number, 3>;
  VectorOptions options;
  options.budget_bytes = 512 << 10;
  options.page_size_bytes = 16 << 10;
  auto positions = Vector<Position>::open(url, options);
  ASSERT_EQ(positions.size(), count);
  std::array<double, 4> sums = {};
  std::vector<std::thread> workers;
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    workers.emplace_back([&, rank] {
      for (Position& position : positions.span(positions.partition(rank, sums.size()))) {
        sums[rank] += static_cast<double>(position[0] + position[1] + position[2]);
        position[1] = -1;
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  const double last = static_cast<double>(3 * count - 1);
  EXPECT_EQ(sums[0] + sums[1] + sums[2] + sums[3], last * (last + 1) / 2);
  positions.close();
}

template <typename Number>
void page_particles(const std::string& path, const std::string& url, const Form& form) {
  std::vector<Number> numbers(form.shape[0] * 3);
  std::iota(numbers.begin(), numbers.end(), Number{0});
  WrittenFile(path).add("/PartType1/Coordinates", form, numbers.data());
  sum_particles<Number>(url, form.shape[0]);
  const std::vector<char> bytes = dataset_bytes(path, "/PartType1/Coordinates");
  std::memcpy(static_cast<void*>(numbers.data()), bytes.data(), bytes.size());
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    ASSERT_EQ(numbers[index], index % 3 == 1 ? Number{-1} : static_cast<Number>(index));
  }
}

TEST_F(Hdf5PlaceTest, SnapshotsOfParticlesArePaged) {
  const std::string where = url("/PartType1/Coordinates");
  page_particles<double>(path_, where, {{200'000, 3}, H5T_IEEE_F64LE});
  page_particles<double>(path_, where + "?decoded=1MiB", {{200'000, 3}, H5T_IEEE_F64LE, {8192, 3}, true});
  page_particles<float>(path_, where, {{200'000, 3}, H5T_IEEE_F32LE, {10'000, 1}, true});
}

TEST_F(Hdf5PlaceTest, ASingleValueIsAnArrayOfOne) {
  const double value = 3.5;
  WrittenFile(path_).add("single", {{}, H5T_IEEE_F64LE}, &value);
  const auto layout = open_store(url("single"), OpenMode::read_only)->element_layout();
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->shape, std::vector<std::uint64_t>{1});
  EXPECT_EQ(layout->bytes, sizeof value);
  EXPECT_EQ(layout->row_bytes, sizeof value);
  EXPECT_EQ(Vector<double>::open_read_only(url("single"))[0], value);
}

TEST_F(Hdf5PlaceTest, AVectorOfAnotherTypeIsRefused) {
  WrittenFile(path_).add("x", {{100, 3}, H5T_IEEE_F32BE}, random_bytes(1200).data());
  EXPECT_THROW(Vector<float>::open_read_only(url("x")), StoreError);
  WrittenFile(path_).add("x", {{100, 3}, H5T_IEEE_F32LE}, random_bytes(1200).data());
  EXPECT_THROW(Vector<double>::open_read_only(url("x")), StoreError);
  EXPECT_THROW(Vector<std::int32_t>::open_read_only(url("x")), StoreError);
  EXPECT_EQ(Vector<float>::open_read_only(url("x")).size(), 300U);
  EXPECT_EQ((Vector<std::array<float, 3>>::open_read_only(url("x")).size()), 100U);
  EXPECT_THROW(Vector<float>::create(url("new"), 5), StoreError);
}

}  // namespace
}  // namespace tiermap
