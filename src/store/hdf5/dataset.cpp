#include "store/hdf5/dataset.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <numeric>

#include "store/hdf5/element_type.hpp"
#include "store/hdf5/hyperslab.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

class DatasetReader {
 public:
  DatasetReader(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name)
      : hdf5_(hdf5), file_(file), place_(file.path() + ": dataset " + in_one_line(name)) {
    found_.name = name;
  }

  Hdf5Dataset describe(bool written) {
    const Hdf5Id object(hdf5_, hdf5_->H5Oopen(file_.id(), found_.name.c_str(), H5P_DEFAULT));
    require_dataset(object.get());
    dataset_ = object.get();
    require_this_file();
    take_elements();
    const Hdf5Id properties(hdf5_, hdf5_->H5Dget_create_plist(dataset_));
    take_layout(properties.get());
    require_filters(properties.get(), written);
    return std::move(found_);
  }

 private:
  [[noreturn]] void refuse(int error_number, const std::string& problem) const {
    throw StoreError(error_number, place_ + " " + problem);
  }

  void require_dataset(hid_t object) const {
    if (object < 0) {
      const std::string why = hdf5_.failure().text;
      const std::string list = list_hdf5_datasets(hdf5_, file_.id(), "/");
      const bool missing = why.find("doesn't exist") != std::string::npos || why.find("not found") != std::string::npos;
      refuse(ENOENT, missing ? "is not there: choose " + list
                             : "cannot be opened (" + why + "): check the file by h5ls, or choose " + list);
    }
    const H5I_type_t type = hdf5_->H5Iget_type(object);
    if (type == H5I_GROUP) {
      refuse(EISDIR, "is a group: choose " + list_hdf5_datasets(hdf5_, object, found_.name));
    }
    if (type != H5I_DATASET) {
      refuse(EINVAL, "is a type without elements: choose " + list_hdf5_datasets(hdf5_, file_.id(), "/"));
    }
  }

  /// A link may lead to another file, which is not the one that is locked here.
  void require_this_file() const {
    const std::string path = path_of(dataset_);
    if (path != path_of(file_.id())) {
      refuse(ENOTSUP, "is a link to another file: open it there, in " + in_one_line(path));
    }
  }

  /// As libhdf5 was told it.
  std::string path_of(hid_t object) const {
    std::array<char, 4096> path = {};
    hdf5_->H5Fget_name(object, path.data(), path.size());
    return path.data();
  }

  void multiply(std::uint64_t& bytes, std::uint64_t factor) const {
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > largest_file_bytes) {
      refuse(EFBIG, "has a shape larger than any file: check the file by h5ls");
    }
  }

  void take_elements() {
    const Hdf5Id type(hdf5_, hdf5_->H5Dget_type(dataset_));
    const Hdf5Id space(hdf5_, hdf5_->H5Dget_space(dataset_));
    if (!type.valid() || !space.valid()) {
      refuse(EINVAL, "has a damaged header (" + hdf5_.failure().text + "): check the file by h5ls");
    }
    const Hdf5ElementType element = hdf5_element_type(hdf5_, type.get(), place_);
    found_.item_bytes = hdf5_->H5Tget_size(type.get());
    take_shape(space.get());
    found_.elements = element.layout;
    std::vector<std::uint64_t>& shape = found_.elements.shape;
    shape = found_.shape;
    shape.insert(shape.end(), element.subarray.begin(), element.subarray.end());
    found_.bytes = found_.item_bytes;
    for (const std::uint64_t extent : found_.shape) {
      multiply(found_.bytes, extent);
    }
    if (found_.bytes == 0) {
      refuse(ENODATA, "has no elements: write some before it is opened here");
    }
    if (shape.empty()) {
      shape = {1};  // A single value, which has a type: where no shape is told none is known.
    }
    found_.elements.row_bytes = found_.bytes / shape[0];
  }

  void take_shape(hid_t space) {
    if (hdf5_->H5Sget_simple_extent_type(space) == H5S_NULL) {
      refuse(ENODATA, "has no elements and no shape: write some before it is opened here");
    }
    std::array<hsize_t, most_dimensions> extents = {};
    const int dimensions = hdf5_->H5Sget_simple_extent_ndims(space);
    hdf5_->H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    found_.shape.assign(extents.begin(), extents.begin() + std::max(dimensions, 0));
  }

  void take_layout(hid_t properties) {
    if (hdf5_->H5Pget_external_count(properties) > 0) {
      std::array<char, 4096> path = {};
      off_t offset = 0;
      hsize_t bytes = 0;
      hdf5_->H5Pget_external(properties, 0, path.size() - 1, path.data(), &offset, &bytes);
      refuse(ENOTSUP, "lies in other files, from " + in_one_line(path.data()) + "@" + std::to_string(offset) +
                          " on: open those by concat:, or copy it into one file by h5repack -l CONTI");
    }
    switch (hdf5_->H5Pget_layout(properties)) {
      case H5D_VIRTUAL:
        refuse(ENOTSUP,
               "is virtual, made of parts of other datasets: open those, or copy it into one file by h5repack "
               "-l CONTI");
      case H5D_CONTIGUOUS:
        take_offset();
        break;
      case H5D_CHUNKED: {
        std::array<hsize_t, most_dimensions> extents = {};
        const int dimensions = hdf5_->H5Pget_chunk(properties, most_dimensions, extents.data());
        found_.chunk.assign(extents.begin(), extents.begin() + std::max(dimensions, 0));
        break;
      }
      default:  // Compact ones are small, and libhdf5's.
        break;
    }
  }

  /// Of one that nobody has written to yet there is none: libhdf5 knows what it is filled with.
  void take_offset() {
    const haddr_t offset = hdf5_->H5Dget_offset(dataset_);
    if (offset != HADDR_UNDEF && hdf5_->H5Dget_storage_size(dataset_) == found_.bytes) {
      found_.offset = offset;
    }
  }

  void require_filters(hid_t properties, bool written) const {
    const int filters = hdf5_->H5Pget_nfilters(properties);
    for (int filter = 0; filter < filters; ++filter) {
      std::array<char, 256> name = {};
      std::size_t values = 0;
      const H5Z_filter_t number = hdf5_->H5Pget_filter2(properties, static_cast<unsigned>(filter), nullptr, &values,
                                                        nullptr, name.size() - 1, name.data(), nullptr);
      const std::string filter_name = std::to_string(number) + " (" + in_one_line(name.data()) + ")";
      unsigned use = 0;
      if (hdf5_->H5Zfilter_avail(number) <= 0) {
        refuse(ENOTSUP, "needs HDF5's filter " + filter_name +
                            ", which is not installed: set HDF5_PLUGIN_PATH to a folder that has it, or write the "
                            "dataset again by h5repack -f GZIP=4");
      }
      hdf5_->H5Zget_filter_info(number, &use);
      if (written && (use & H5Z_FILTER_CONFIG_ENCODE_ENABLED) == 0) {
        refuse(ENOTSUP, "needs HDF5's filter " + filter_name +
                            ", which can only read here: open it read-only, or write the dataset again by h5repack "
                            "-f GZIP=4");
      }
    }
  }

  const Hdf5Call& hdf5_;
  const Hdf5File& file_;
  const std::string place_;
  hid_t dataset_ = H5I_INVALID_HID;
  Hdf5Dataset found_;
};

class DatasetList {
 public:
  explicit DatasetList(const Hdf5Call& hdf5) : hdf5_(hdf5) {}

  void add_below(hid_t group, const std::string& name, int depth) {
    H5G_info_t info = {};
    if (hdf5_->H5Gget_info(group, &info) < 0) {
      return;
    }
    for (hsize_t link = 0; link < info.nlinks && !full(); ++link) {
      std::array<char, 1024> text = {};
      H5L_info_t link_info = {};
      // Others lead to what is listed in its own place, or to other files.
      if (hdf5_->H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, link, text.data(), text.size(),
                                    H5P_DEFAULT) < 0 ||
          hdf5_->H5Lget_info(group, text.data(), &link_info, H5P_DEFAULT) < 0 || link_info.type != H5L_TYPE_HARD) {
        continue;
      }
      ++seen_;
      const Hdf5Id object(hdf5_, hdf5_->H5Oopen(group, text.data(), H5P_DEFAULT));
      add(object.get(), (name == "/" ? name : name + "/") + text.data(), depth);
    }
  }

  std::string text() const {
    return names_.empty() ? "another file, this has none" : "among " + names_ + (full() ? " and others" : "");
  }

 private:
  static constexpr int most_depth = 16;  // A group may be its own member.

  bool full() const { return count_ >= 20 || seen_ >= 10'000; }

  void add(hid_t object, const std::string& name, int depth) {
    const H5I_type_t type = object < 0 ? H5I_BADID : hdf5_->H5Iget_type(object);
    if (type == H5I_DATASET) {
      names_ += (names_.empty() ? "" : ", ") + in_one_line(name);
      ++count_;
    } else if (type == H5I_GROUP && depth < most_depth) {
      add_below(object, name, depth + 1);
    }
  }

  const Hdf5Call& hdf5_;
  std::string names_;
  int count_ = 0;
  int seen_ = 0;
};

}  // namespace

std::uint64_t Hdf5Dataset::chunk_bytes() const {
  return std::accumulate(chunk.begin(), chunk.end(), chunk.empty() ? 0 : item_bytes, std::multiplies<>());
}

std::uint64_t Hdf5Dataset::chunks_in_a_row() const {
  std::uint64_t chunks = 1;
  for (std::size_t dimension = 1; dimension < chunk.size() && chunks < bytes; ++dimension) {
    chunks *= (shape[dimension] + chunk[dimension] - 1) / chunk[dimension];
  }
  return chunks;
}

Hdf5Dataset describe_hdf5_dataset(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name, bool written) {
  return DatasetReader(hdf5, file, name).describe(written);
}

std::uint64_t hdf5_header_address(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name) {
  H5G_stat_t found = {};
  if (hdf5->H5Gget_objinfo(file.id(), name.c_str(), true, &found) < 0) {
    throw StoreError(EINVAL, file.path() + ": dataset " + in_one_line(name) + " cannot be found (" +
                                 hdf5.failure().text + "): check the file by h5ls");
  }
  return found.objno[0];  // All of it where a long has 64 bits.
}

std::string list_hdf5_datasets(const Hdf5Call& hdf5, hid_t group, const std::string& name) {
  DatasetList list(hdf5);
  list.add_below(group, name, 0);
  return list.text();
}

}  // namespace tiermap
