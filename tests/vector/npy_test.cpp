// .npy files: what numpy writes is read as it is meant, what is no such file is refused in one line.
#include "store/npy_header.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <complex>
#include <filesystem>
#include <fstream>

#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

/// As numpy pads it: to a multiple of 64 bytes, with a line's end.
std::string npy_file(const std::string& header, int version = 1) {
  const std::size_t prefix = version == 1 ? 10 : 12;
  std::string text = header;
  text.append(63 - (prefix + text.size()) % 64, ' ');
  text += '\n';
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  for (std::size_t at = 0; at < prefix - 8; ++at) {
    file += static_cast<char>(text.size() >> (8 * at) & 0xff);
  }
  return file + text;
}

std::string entries(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

NpyHeader parse(const std::string& descr, const std::string& shape) {
  return parse_npy_header(npy_file(entries(descr, shape)), "array.npy");
}

std::string refusal(const std::string& file) {
  try {
    parse_npy_header(file, "array.npy");
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), EINVAL);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "it was taken";
  return "";
}

TEST(NpyHeaderTest, TypesOfNumpy) {
  struct Case {
    const char* descr;
    char kind;
    std::uint64_t bytes;
    bool swapped;
  };
  for (const Case& type :
       {Case{"'<f8'", 'f', 8, false}, Case{"'|b1'", 'b', 1, false}, Case{"'>i2'", 'i', 2, true},
        Case{"'>i1'", 'i', 1, false}, Case{"'<U5'", 'U', 20, false}, Case{"'<M8[ns]'", 'M', 8, false},
        Case{"\"<c16\"", 'c', 16, false}, Case{"[('x', '<f4'), ('y', '>f8', (2, 3))]", '\0', 52, true},
        Case{"[('a', [('b', '|u1'), ('', '|V3')], 2)]", '\0', 8, false}}) {
    const NpyHeader header = parse(type.descr, "(3, 5)");
    EXPECT_EQ(header.elements.kind, type.kind) << type.descr;
    EXPECT_EQ(header.elements.bytes, type.bytes) << type.descr;
    EXPECT_EQ(header.elements.swapped, type.swapped) << type.descr;
    EXPECT_EQ(header.data_bytes, 15 * type.bytes) << type.descr;
    EXPECT_EQ(header.data_offset % 64, 0U);
  }
}

TEST(NpyHeaderTest, ShapesAndVersions) {
  EXPECT_EQ(parse("'<f8'", "()").data_bytes, 8U);
  EXPECT_EQ(parse("'<f8'", "(0, 7)").data_bytes, 0U);
  EXPECT_EQ(parse("'<f8'", "(3, 7)").elements.shape, (std::vector<std::uint64_t>{3, 7}));
  EXPECT_EQ(parse("'<f8'", "(7L,)").data_bytes, 56U);
  for (const int version : {1, 2, 3}) {
    const NpyHeader header = parse_npy_header(npy_file(entries("'<f4'", "(3,)", "True"), version), "array.npy");
    EXPECT_EQ(header.data_bytes, 12U);
    EXPECT_TRUE(header.fortran_order);
    EXPECT_EQ(header.elements.shape, std::vector<std::uint64_t>{3});
  }
}

TEST(NpyHeaderTest, FortranOrderIsAnotherOneWhereThereAreRowsAndColumns) {
  const auto elements = [](const char* shape) {
    return parse_npy_header(npy_file(entries("'<f4'", shape, "True")), "array.npy").elements;
  };
  EXPECT_TRUE(elements("(5, 3)").shape.empty());
  EXPECT_EQ(elements("(5, 3)").row_bytes, 4U);
  EXPECT_EQ(elements("(5, 1)").shape, (std::vector<std::uint64_t>{5, 1}));
  EXPECT_EQ(elements("(1, 3)").shape, (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(elements("(1, 3)").row_bytes, 12U);
}

TEST(NpyHeaderTest, RefusesWhatIsNone) {
  EXPECT_NE(refusal("short").find("array.npy: is no .npy file"), std::string::npos);
  EXPECT_NE(refusal(npy_file(entries("'<f8'", "(3,)"), 9)).find("version 9.0"), std::string::npos);
  std::string minor = npy_file(entries("'<f8'", "(3,)"));
  minor[7] = 5;
  EXPECT_NE(refusal(minor).find("version 1.5"), std::string::npos);
  EXPECT_NE(refusal(npy_file(entries("'|O'", "(3,)"))).find("Python objects"), std::string::npos);
  for (const char* header : {"{}", "", "{'descr': '<f8'", "{'shape': (3,), 'descr': '<f8'}", "[1, 2]"}) {
    refusal(npy_file(header));
  }
  for (const char* descr : {"'<q8'", "'<f'", "'f8x'", "7", "[('x',)]", "['<f8']", "'<f99999999999999999999'"}) {
    refusal(npy_file(entries(descr, "(3,)")));
  }
  for (const char* shape :
       {"(-3,)", "('x',)", "(4294967296, 4294967296)", "((((((((((1,),),),),),),),),),)", "(3", "3"}) {
    refusal(npy_file(entries("'<f8'", shape)));
  }
  std::string cut = npy_file(entries("'<f8'", "(3,)"));
  refusal(cut.substr(0, cut.size() - 5));
}

class NpyVectorTest : public testing::Test {
 protected:
  NpyVectorTest() {
    std::ofstream file(path_, std::ios::binary);
    file << npy_file(entries("'<f8'", "(1000, 3)"));
    for (int number = 0; number < 3000; ++number) {
      const double value = number;
      file.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "array.npy";
  const std::string url_ = "npy:" + path_;
  VectorOptions small_{.budget_bytes = 1 << 20};
};

TEST_F(NpyVectorTest, ElementsAreReadAndWrittenInPlace) {
  auto vector = Vector<double>::open(url_, small_);
  ASSERT_EQ(vector.size(), 3000U);
  EXPECT_EQ(vector[0], 0);
  EXPECT_EQ(vector.view(1000, 3)(999, 2), 2999);
  vector[5] = -5;
  vector.close();
  EXPECT_EQ(Vector<double>::open_read_only(url_, small_)[5], -5);
  using Row = std::array<double, 3>;
  const auto rows = Vector<Row>::open_read_only(url_, small_);
  ASSERT_EQ(rows.size(), 1000U);
  EXPECT_EQ(rows[999][1], 2998);
}

TEST_F(NpyVectorTest, ElementsOfAnotherTypeAreRefused) {
  const auto refused = [&](auto element) {
    try {
      Vector<decltype(element)>::open(url_, small_);
    } catch (const StoreError& error) {
      return std::string(error.what());
    }
    return std::string("it was taken");
  };
  EXPECT_NE(refused(float{}).find("holds elements of type <f8, of 8 bytes, and not f4: open"), std::string::npos);
  EXPECT_NE(refused(std::int64_t{}).find("and not i8"), std::string::npos);
  EXPECT_NE(refused(std::array<char, 3>{}).find("not of 3 bytes"), std::string::npos);
  EXPECT_THROW(Vector<double>::create("npy:" + (directory_ / "new.npy"), 5, small_), StoreError);
  EXPECT_THROW(Vector<double>::open("npy:" + (directory_ / "missing.npy"), small_), StoreError);
}

/// Of a vector of such elements over an array of two of this type; empty where it is taken.
template <typename T>
std::string refusal_of(const std::string& path, const std::string& type) {
  std::ofstream(path, std::ios::binary) << npy_file(entries(type, "(2,)")) << std::string(2 * sizeof(T), '\0');
  try {
    static_cast<void>(Vector<T>::open_read_only("npy:" + path));
    return "";
  } catch (const StoreError& error) {
    return error.what();
  }
}

TEST_F(NpyVectorTest, NumbersOfAnotherKindAreRefusedThoughTheyAreOfTheSameSize) {
  const std::string path = directory_ / "other.npy";
  EXPECT_NE(refusal_of<double>(path, "'>f8'").find("byte order of other machines"), std::string::npos);
  EXPECT_NE(refusal_of<double>(path, "'<c8'").find("of type <c8, of 8 bytes, and not f8"), std::string::npos);
  EXPECT_NE(refusal_of<std::int64_t>(path, "'<c8'").find("and not i8"), std::string::npos);
  EXPECT_NE(refusal_of<double>(path, "'<M8[ns]'").find("of type <M8[ns], of 8 bytes, and not f8"), std::string::npos);
  EXPECT_EQ(refusal_of<std::complex<float>>(path, "'<c8'"), "");
  EXPECT_EQ(refusal_of<std::int64_t>(path, "'<M8[ns]'"), "");
}

TEST_F(NpyVectorTest, AFileThatWasCutIsRefused) {
  std::filesystem::resize_file(path_, 5000);
  EXPECT_THROW(Vector<double>::open(url_, small_), StoreError);
}

}  // namespace
}  // namespace tiermap
