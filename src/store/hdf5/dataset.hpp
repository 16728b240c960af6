// What an HDF5 file says of one of its datasets, checked before a store is made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/hdf5/file.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

struct Hdf5Dataset {
  std::string name;  ///< From the root of the file.
  ElementLayout elements;
  std::vector<std::uint64_t> shape;     ///< Of items; empty for a single one.
  std::uint64_t item_bytes = 0;         ///< What libhdf5 reads one of: an element, or an array of them.
  std::uint64_t bytes = 0;              ///< Of all of it.
  std::optional<std::uint64_t> offset;  ///< Where it lies in the file as it is, one item after the other.
  std::vector<std::uint64_t> chunk;     ///< Extents; empty where there are none.

  std::uint64_t chunk_bytes() const;
  /// The chunks of all indices but the first: what one row, or a few that follow each other, may lie in.
  std::uint64_t chunks_in_a_row() const;
};

/// Throws StoreError that names the file, the dataset and the remedy: for what is not there, naming what is; for what
/// is no dataset or has no elements; for elements, a layout or filters that are not served. For one that is to be
/// `written` the filters have to be there for that.
Hdf5Dataset describe_hdf5_dataset(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name, bool written);

/// Where in the file what bears this name, and may have others by links, is described.
std::uint64_t hdf5_header_address(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name);

/// "/group/one, /group/two and others": the datasets below a group, for messages.
std::string list_hdf5_datasets(const Hdf5Call& hdf5, hid_t group, const std::string& name);

}  // namespace tiermap
