// Files that libhdf5 itself writes and reads, for what is to be compared with them.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace tiermap {

/// How a dataset is laid out.
struct Form {
  std::vector<hsize_t> shape;
  hid_t type = H5T_NATIVE_FLOAT;
  std::vector<hsize_t> chunk = {};  ///< Contiguous where there is none.
  bool deflate = false;             ///< After a shuffle.
  bool checksum = false;
  bool compact = false;
  bool growing = false;  ///< Without a limit.
};

inline std::size_t bytes_of(const Form& form) {
  std::size_t bytes = H5Tget_size(form.type);
  for (const hsize_t extent : form.shape) {
    bytes *= extent;
  }
  return bytes;
}

inline std::vector<char> random_bytes(std::size_t bytes, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<char> made(bytes);
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
    const std::uint32_t word = random() & 0x03030303U;  // So that deflate has something to do.
    std::memcpy(made.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return made;
}

class WrittenFile {
 public:
  /// Objects begin at multiples of `alignment`. `newest`: in the newest format there is, which marks files that are
  /// open.
  explicit WrittenFile(const std::string& path, hsize_t alignment = 1, bool newest = false) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_alignment(access, 1024, alignment);
    if (newest) {
      H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    }
    id_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
  }
  ~WrittenFile() { EXPECT_GE(H5Fclose(id_), 0); }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  hid_t id() const { return id_; }

  /// Without data it is made and not written. Groups on the way are made.
  void add(const std::string& name, const Form& form, const void* data) const {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t properties = properties_of(form);
    const std::vector<hsize_t> limits(form.shape.size(), H5S_UNLIMITED);
    const int dimensions = static_cast<int>(form.shape.size());
    const hid_t space = form.shape.empty()
                            ? H5Screate(H5S_SCALAR)
                            : H5Screate_simple(dimensions, form.shape.data(), form.growing ? limits.data() : nullptr);
    const hid_t dataset = H5Dcreate2(id_, name.c_str(), form.type, space, links, properties, H5P_DEFAULT);
    EXPECT_GE(dataset, 0) << name;
    if (data != nullptr) {
      EXPECT_GE(H5Dwrite(dataset, form.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0) << name;
    }
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(properties);
    H5Pclose(links);
  }

  void add_group(const std::string& name) const {
    H5Gclose(H5Gcreate2(id_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }

 private:
  static hid_t properties_of(const Form& form) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (!form.chunk.empty()) {
      H5Pset_chunk(properties, static_cast<int>(form.chunk.size()), form.chunk.data());
    }
    if (form.deflate) {
      H5Pset_shuffle(properties);
      H5Pset_deflate(properties, 4);
    }
    if (form.checksum) {
      H5Pset_fletcher32(properties);
    }
    if (form.compact) {
      H5Pset_layout(properties, H5D_COMPACT);
    }
    return properties;
  }

  hid_t id_ = H5I_INVALID_HID;
};

/// All of a dataset, as libhdf5 reads it.
inline std::vector<char> dataset_bytes(const std::string& path, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_GE(file, 0) << path;
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset);
  const hid_t type = H5Dget_type(dataset);
  std::vector<char> bytes(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type));
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0) << name;
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(dataset);
  EXPECT_GE(H5Fclose(file), 0);
  return bytes;
}

}  // namespace tiermap
