// URLs of formats whose file lies in a store that has a URL of its own.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// hdf5:s3://bucket/file.h5:/group/dataset?decoded=1GiB&endpoint=http://localhost:9000, taken apart.
struct NestedUrl {
  StoreUrl format;    ///< All of the text, and of the options those of the format.
  std::string store;  ///< s3://bucket/file.h5?endpoint=http://localhost:9000
  std::string part;   ///< Of the file, behind the first colon of its path: still encoded, empty if there is none.

  bool names_part() const noexcept { return !part.empty(); }
};

/// Nothing if it names a file of this machine. Throws StoreError: `with_part` files have parts, and a second colon is
/// refused, as of files of this machine.
std::optional<NestedUrl> parse_nested_url(const StoreUrl& url, std::initializer_list<std::string_view> format_options,
                                          bool with_part);

/// Opens the store, of which a file of a format (`what`) is only read. Throws StoreError, and EROFS for another mode.
std::shared_ptr<Store> open_nested(const NestedUrl& url, OpenMode mode, std::string_view what);

/// Whether a store of this scheme is what a URL names, or what is behind that.
bool leads_to_scheme(std::string_view url, std::string_view scheme);

}  // namespace tiermap
