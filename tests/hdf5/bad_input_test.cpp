// HDF5 files and names that are wrong: one line that says what and what to do, nothing made, nothing printed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "hdf5/hdf5_file.hpp"
#include "store/file_descriptor.hpp"
#include "store/opening_refusal.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"

namespace tiermap {
namespace {

class Hdf5BadInputTest : public testing::Test {
 protected:
  Hdf5BadInputTest() { testing::internal::CaptureStderr(); }
  ~Hdf5BadInputTest() override { EXPECT_EQ(testing::internal::GetCapturedStderr(), ""); }

  std::string url(const std::string& name) const { return "hdf5:" + directory_.encoded() + "/file.h5:" + name; }

  /// What opening says.
  static std::string refusal(const std::string& url, int error_number, OpenMode mode = OpenMode::read_only) {
    return refusal_of_opening(url, error_number, mode);
  }

  void write_numbers() const {
    const std::vector<char> numbers = random_bytes(1200);
    const WrittenFile file(path_);
    file.add("/PartType1/Coordinates", {{100, 3}}, numbers.data());
    file.add("/PartType1/Masses", {{300}, H5T_IEEE_F32LE, {10}, true}, numbers.data());
    file.add("/PartType0/Density", {{300}}, numbers.data());
    file.add_group("/empty");
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file.h5";
};

TEST_F(Hdf5BadInputTest, NamesOfNothing) {
  write_numbers();
  expect_said(refusal(url("/PartType1/Position"), ENOENT),
              {"file.h5: dataset /PartType1/Position is not there", "/PartType0/Density", "/PartType1/Masses"});
  expect_said(refusal(url("/PartType1/Masses/x"), ENOENT), {"choose among"});
  expect_said(refusal(url("PartType1"), EISDIR),
              {"/PartType1 is a group", "choose among /PartType1/Coordinates, /PartType1/Masses"});
  EXPECT_EQ(refusal(url("/PartType1"), EISDIR).find("Density"), std::string::npos);
  expect_said(refusal(url("/"), EISDIR), {"is a group", "among /PartType0/Density"});
  expect_said(refusal(url("/empty"), EISDIR), {"choose another file, this has none"});
  expect_said(refusal(url(""), EINVAL), {"names no dataset", "among /PartType0/Density"});
  expect_said(refusal("hdf5:" + directory_.encoded() + "/file.h5", EINVAL), {"names no dataset"});
  expect_said(refusal(url("/a:b"), EINVAL), {"more than one colon", "%3A"});
  expect_said(refusal("hdf5::/x", EINVAL), {"no file before the colon"});
  expect_said(refusal("hdf5://file.h5:/x", EINVAL), {"stands where a host would", "hdf5:///directory/file.h5:/group"});
  expect_said(refusal(url("/x?page=3"), EINVAL), {"option 'page'", "decoded"});
  expect_said(refusal(url("/PartType1/Masses?decoded=39"), EINVAL), {"decoded 39", "at least 40"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(Hdf5BadInputTest, WhatCannotBeMade) {
  write_numbers();
  expect_said(refusal(url("/new"), EINVAL, OpenMode::create), {"what type of numbers", "type=float32"});
  expect_said(refusal(url("/new"), ENOENT, OpenMode::open_or_create), {"is not there"});
}

TEST_F(Hdf5BadInputTest, NamesThatAreTooLong) {
  const std::string name = "hdf5:" + directory_.encoded() + "/" + std::string(300, 'x') + ":/new?type=float32&shape=3";
  expect_said(refusal(name, ENAMETOOLONG, OpenMode::create), {"cannot be looked at: File name too long"});
}

TEST_F(Hdf5BadInputTest, FilesThatAreNone) {
  expect_said(refusal(url("/x"), ENOENT), {"file.h5 cannot be opened", "check the path"});
  for (const char* content : {"", "some text", "\x89HDF\r\n\x1a\n and no more"}) {
    write_file(path_, content);
    expect_said(refusal(url("/x"), EINVAL), {"file.h5 is no HDF5 file", "h5ls"});
  }
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  refusal(url("/x"), EISDIR);
}

/// Opens it, says why that fails, and ends the program.
[[noreturn]] void end_by_opening(const std::string& url) {
  try {
    open_store(url, OpenMode::read_only);
  } catch (const StoreError& error) {
    std::cerr << error.what() << '\n';
  }
  std::exit(0);  // NOLINT(concurrency-mt-unsafe): it is alone.
}

// libhdf5 keeps something of such a header, and tells of that when the program ends.
TEST(Hdf5DamagedHeaderTest, IsOneLineAlsoAtTheEndOfTheProgram) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "what libhdf5 keeps of such a header is never freed, of which LeakSanitizer tells";
#endif
  const TemporaryDirectory directory;
  const std::string path = directory / "file.h5";
  WrittenFile(path).add("x", {{100, 3}, H5T_IEEE_F32LE, {10, 3}, true}, random_bytes(1200).data());
  std::string content = read_file(path);
  const std::string chunk("\x0a\0\0\0\x03\0\0\0\x04\0\0\0", 12);
  ASSERT_NE(content.find(chunk), std::string::npos);
  content[content.find(chunk) + 3] = '\x8a';
  write_file(path, content);
  const std::string url = "hdf5:" + directory.encoded() + "/file.h5:/x";
  EXPECT_EXIT(end_by_opening(url), testing::ExitedWithCode(0), "^[^\n]*file.h5: dataset /x cannot be opened [^\n]*\n$");
}

TEST_F(Hdf5BadInputTest, FilesThatWereCut) {
  write_numbers();
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  expect_said(refusal(url("/PartType1/Coordinates"), EINVAL), {"file.h5 cannot be opened", "shorter than it says"});
}

TEST_F(Hdf5BadInputTest, FilesThatOthersHaveOpen) {
  write_numbers();
  const FileDescriptor other(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  expect_said(refusal(url("/PartType1/Masses"), EBUSY), {"another program has it open", "HDF5_USE_FILE_LOCKING"});
  ASSERT_EQ(::flock(other.get(), LOCK_SH), 0);
  const auto reader = open_store(url("/PartType0/Density"), OpenMode::read_only);
  const auto masses = open_store(url("/PartType1/Masses"), OpenMode::read_only);
  expect_said(refusal(url("/PartType1/Masses"), EBUSY, OpenMode::read_write), {"another program has it open"});
  char byte = 0;
  EXPECT_EQ(masses->read(&byte, 1, 0), 1);  // Those that are open stay so.
  // And who has it open here keeps others from writing.
  EXPECT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), -1);
}

TEST_F(Hdf5BadInputTest, FilesThatNobodyClosed) {
  {
    const WrittenFile file(path_, 1, true);
    file.add("x", {{10}}, random_bytes(40).data());
    H5Fflush(file.id(), H5F_SCOPE_GLOBAL);
    std::filesystem::copy_file(path_, directory_ / "copy.h5");
  }
  expect_said(refusal("hdf5:" + directory_.encoded() + "/copy.h5:/x", EBUSY), {"h5clear -s"});
}

TEST_F(Hdf5BadInputTest, DatasetsThatAreNotServed) {
  {
    const WrittenFile file(path_);
    file.add("empty", {{0, 3}}, nullptr);
    file.add("growing", {{0}, H5T_IEEE_F32LE, {10}, false, false, false, true}, nullptr);
    const hid_t none = H5Screate(H5S_NULL);
    H5Dclose(H5Dcreate2(file.id(), "null", H5T_IEEE_F32LE, none, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    file.add("names", {{3}, text}, nullptr);
    file.add("references", {{3}, H5T_STD_REF_OBJ}, nullptr);
    const hid_t named = H5Tcopy(H5T_IEEE_F32LE);
    H5Tcommit2(file.id(), "type", named, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Tclose(named);
    const hsize_t count = 100;
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t external = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(external, "raw.bin", 16, 400);
    H5Dclose(H5Dcreate2(file.id(), "external", H5T_IEEE_F32LE, space, H5P_DEFAULT, external, H5P_DEFAULT));
    const hid_t parts = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(parts, space, "other.h5", "x", space);
    H5Dclose(H5Dcreate2(file.id(), "virtual", H5T_IEEE_F32LE, space, H5P_DEFAULT, parts, H5P_DEFAULT));
    H5Lcreate_external("other.h5", "/x", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/nowhere", file.id(), "dangling", H5P_DEFAULT, H5P_DEFAULT);
  }
  expect_said(refusal(url("empty"), ENODATA), {"/empty has no elements"});
  expect_said(refusal(url("growing"), ENODATA), {"/growing has no elements"});
  expect_said(refusal(url("null"), ENODATA), {"/null has no elements and no shape"});
  expect_said(refusal(url("names"), ENOTSUP), {"/names holds strings of any length"});
  expect_said(refusal(url("references"), ENOTSUP), {"/references holds references"});
  expect_said(refusal(url("type"), EINVAL), {"/type is a type without elements"});
  expect_said(refusal(url("external"), ENOTSUP), {"raw.bin@16", "concat:", "h5repack"});
  expect_said(refusal(url("virtual"), ENOTSUP), {"is virtual", "h5repack"});
  expect_said(refusal(url("dangling"), ENOENT), {"choose among"});
  expect_said(refusal(url("link"), ENOENT), {"choose among"});
  WrittenFile(directory_ / "other.h5").add("x", {{100}}, random_bytes(400).data());
  expect_said(refusal(url("link"), ENOTSUP), {"is a link to another file", "other.h5"});
}

TEST_F(Hdf5BadInputTest, FilesThatMayNotBeWritten) {
  write_numbers();
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may write every file";
  }
  std::filesystem::permissions(path_, std::filesystem::perms::owner_read);
  for (const char* name : {"/PartType1/Coordinates", "/PartType1/Masses"}) {
    open_store(url(name), OpenMode::read_only);
    expect_said(refusal(url(name), EACCES, OpenMode::read_write),
                {"cannot be opened for writing", "open it read-only"});
  }
}

constexpr H5Z_filter_t own_filter = 300;

/// A filter that this process has for as long as a test wants: it copies, or says that it cannot.
std::size_t copy_or_fail(unsigned, std::size_t, const unsigned[], std::size_t bytes, std::size_t*, void**) {
  return bytes;
}

TEST_F(Hdf5BadInputTest, FiltersThatAreNotThere) {
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, own_filter, 1, 1, "own", nullptr, nullptr, copy_or_fail};
  ASSERT_GE(H5Zregister(&filter), 0);
  const hsize_t count = 100;
  {
    const WrittenFile file(path_);
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 1, &count);
    H5Pset_filter(properties, own_filter, 0, 0, nullptr);
    const hid_t dataset = H5Dcreate2(file.id(), "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Dwrite(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, random_bytes(400).data());
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
  }
  EXPECT_EQ(open_store(url("x"), OpenMode::read_write)->size_bytes(), 400U);
  ASSERT_GE(H5Zunregister(own_filter), 0);
  expect_said(refusal(url("x"), ENOTSUP), {"filter 300 (own)", "HDF5_PLUGIN_PATH", "h5repack"});
}

}  // namespace
}  // namespace tiermap
