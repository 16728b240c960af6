// Datasets that are made: contiguous, and given their place in the file at once, so that from then on they are read and
// written like a part of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/hdf5/dataset.hpp"
#include "store/new_store.hpp"
#include "store/store_url.hpp"

namespace tiermap {

/// What a URL says of a dataset that is to be made, or to be there: ?type=float32&shape=64,64,64.
struct Hdf5Form {
  std::string type;                  ///< As numpy calls it; empty where the URL says none.
  std::vector<std::uint64_t> shape;  ///< Empty where it says none.
};

/// Throws StoreError (EINVAL) for a type that is none of numpy's plain numbers, and for extents that are none.
Hdf5Form parse_hdf5_form(UrlOptions& options, const StoreUrl& url);

/// Throws StoreError (EINVAL) unless the dataset has the type and the shape that the URL says.
void require_hdf5_form(const Hdf5Form& form, const Hdf5Dataset& dataset, const StoreUrl& url);

/// Whether the file is there and has something of that name. Throws StoreError for a file that is no HDF5 file.
bool has_hdf5_dataset(const DatasetPlace& place, const StoreUrl& url);

/// Makes the dataset, all bytes zero, in a file that is there or is made. Without a shape it has one dimension, with
/// room for `made.bytes()` bytes; with one that is 0 or what the shape takes. Throws StoreError, or what `made` says of
/// the elements, and nothing is made then; EEXIST if the name is taken.
void create_hdf5_dataset(const DatasetPlace& place, Hdf5Form form, const NewStore& made, const StoreUrl& url);

}  // namespace tiermap
