// hdf5:///directory/file.h5:/group/dataset
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Throws StoreError.
std::unique_ptr<Store> open_hdf5(const StoreUrl& url, OpenMode mode, const NewStore& made);

/// Where a dataset is in its file, by whichever of its names.
struct Hdf5Location {
  std::uint64_t header = 0;             ///< Of no other dataset.
  std::optional<std::uint64_t> offset;  ///< Of one that lies there one element after the other.
  std::uint64_t bytes = 0;
};

/// Throws StoreError.
Hdf5Location locate_hdf5_dataset(const StoreUrl& url);

}  // namespace tiermap
