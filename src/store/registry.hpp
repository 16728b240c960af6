// From a URL's scheme to the function that opens such stores.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Filled first, then only read: open() is thread-safe, add() is not.
class StoreRegistry {
 public:
  using Opener = std::function<std::unique_ptr<Store>(const StoreUrl& url, OpenMode mode, const NewStore& made)>;

  /// `scheme` in lower case; "" is for plain paths. Replaces an earlier opener of that scheme.
  void add(std::string scheme, Opener opener);

  /// Throws StoreError, which names the URL and the remedy; ENOTSUP for an unknown scheme.
  std::unique_ptr<Store> open(std::string_view url, OpenMode mode, const NewStore& made) const;

 private:
  std::map<std::string, Opener> openers_;
};

/// The stores of this folder: file, sparse, concat, memory, npy, hdf5, fits, csv, s3 and plain paths.
StoreRegistry plain_stores();

/// open_store() (tiermap/store.hpp) of one that is refused, before it is made, if its elements are not wanted.
std::unique_ptr<Store> open_store(std::string_view url, OpenMode mode, const NewStore& made);

}  // namespace tiermap
