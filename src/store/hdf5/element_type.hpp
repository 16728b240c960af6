// What the type of a dataset's elements is, in the words of ElementLayout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/hdf5/library.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

struct Hdf5ElementType {
  ElementLayout layout;  ///< Without what the shape says.
  std::vector<std::uint64_t>
      subarray;  ///< Of a type that is itself an array: its extents, the layout being of one item.
};

/// Throws StoreError, in which `place` names the dataset, for elements that are not in it: strings and sequences of any
/// length, and references.
Hdf5ElementType hdf5_element_type(const Hdf5Call& hdf5, hid_t type, const std::string& place);

}  // namespace tiermap
