// Types of elements: what h5py and numpy make of them is what ElementLayout says, and what is elsewhere is refused.
#include "store/hdf5/element_type.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

ElementLayout layout_of(hid_t type) {
  load_hdf5("a test");
  const Hdf5Call hdf5;
  return hdf5_element_type(hdf5, type, "x.h5: dataset /x").layout;
}

hid_t with_precision(hid_t type, std::size_t bits) {
  H5Tset_precision(type, bits);
  return type;
}

hid_t text_of(std::size_t bytes) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, bytes);
  return type;
}

hid_t enumeration(std::initializer_list<const char*> names) {
  const hid_t type = H5Tenum_create(H5T_STD_I8LE);
  char value = 0;
  for (const char* name : names) {
    H5Tenum_insert(type, name, &value);
    ++value;
  }
  return type;
}

hid_t compound(std::initializer_list<std::pair<const char*, hid_t>> members) {
  std::size_t bytes = 0;
  for (const auto& [name, type] : members) {
    bytes += H5Tget_size(type);
  }
  const hid_t made = H5Tcreate(H5T_COMPOUND, bytes);
  std::size_t offset = 0;
  for (const auto& [name, type] : members) {
    H5Tinsert(made, name, offset, type);
    offset += H5Tget_size(type);
  }
  return made;
}

TEST(ElementTypeTest, TypesOfNumpy) {
  struct Case {
    hid_t type;
    char kind;
    std::uint64_t bytes;
    bool swapped;
    const char* name;
  };
  for (const Case& type : {Case{H5T_IEEE_F32LE, 'f', 4, false, "<f4"}, Case{H5T_IEEE_F64BE, 'f', 8, true, ">f8"},
                           Case{H5T_NATIVE_LDOUBLE, 'f', 16, false, "<f16"}, Case{H5T_STD_I8BE, 'i', 1, false, "|i1"},
                           Case{H5T_STD_U16BE, 'u', 2, true, ">u2"}, Case{H5T_STD_I64LE, 'i', 8, false, "<i8"},
                           Case{H5T_STD_B32LE, 'u', 4, false, "<u4"},
                           Case{with_precision(H5Tcopy(H5T_STD_U16LE), 12), 'V', 2, false, "<V2"},
                           Case{with_precision(H5Tcopy(H5T_IEEE_F64LE), 64), 'f', 8, false, "<f8"},
                           Case{text_of(5), 'S', 5, false, "<S5"}, Case{H5Tcreate(H5T_OPAQUE, 7), 'V', 7, false, "<V7"},
                           Case{enumeration({"FALSE", "TRUE"}), 'b', 1, false, "|b1"},
                           Case{enumeration({"TRUE", "FALSE"}), 'i', 1, false, "|i1"},
                           Case{enumeration({"dark", "gas", "star"}), 'i', 1, false, "|i1"},
                           Case{compound({{"r", H5T_IEEE_F32LE}, {"i", H5T_IEEE_F32LE}}), 'c', 8, false, "<c8"},
                           Case{compound({{"x", H5T_IEEE_F32LE}, {"y", H5T_IEEE_F64LE}}), '\0', 12, false, "fields"},
                           Case{compound({{"x", H5T_IEEE_F32LE}, {"y", H5T_IEEE_F64BE}}), '\0', 12, true, "fields"}}) {
    const ElementLayout layout = layout_of(type.type);
    EXPECT_EQ(layout.type, type.name);
    EXPECT_EQ(layout.kind, type.kind) << type.name;
    EXPECT_EQ(layout.bytes, type.bytes) << type.name;
    EXPECT_EQ(layout.swapped, type.swapped) << type.name;
  }
}

TEST(ElementTypeTest, ArraysAreMoreDimensions) {
  const hsize_t extents[] = {2, 3};
  load_hdf5("a test");
  const Hdf5Call hdf5;
  const Hdf5ElementType found = hdf5_element_type(hdf5, H5Tarray_create2(H5T_IEEE_F32LE, 2, extents), "x");
  EXPECT_EQ(found.subarray, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(found.layout.type, "<f4");
  const hid_t in_fields = compound({{"x", H5Tarray_create2(H5T_IEEE_F32BE, 2, extents)}, {"y", H5T_STD_I8LE}});
  EXPECT_EQ(hdf5_element_type(hdf5, in_fields, "x").layout.bytes, 25U);
  EXPECT_TRUE(hdf5_element_type(hdf5, in_fields, "x").layout.swapped);
}

TEST(ElementTypeTest, WhatIsElsewhereIsRefused) {
  const hid_t sequence = H5Tvlen_create(H5T_IEEE_F32LE);
  for (const hid_t type : {sequence, text_of(H5T_VARIABLE), hid_t{H5T_STD_REF_OBJ}, hid_t{H5T_STD_REF_DSETREG},
                           compound({{"n", H5T_STD_I32LE}, {"values", sequence}})}) {
    try {
      layout_of(type);
      ADD_FAILURE() << "it was taken";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), ENOTSUP);
      EXPECT_NE(std::string(error.what()).find("x.h5: dataset /x holds "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("of a fixed length"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tiermap
