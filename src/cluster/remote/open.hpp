// Opens remote: URLs.
#pragma once

#include <memory>

#include "cluster/remote/remote_url.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Throws StoreError in one line: what cannot be reached, who may not, what is not there, is in use, or is another
/// layout.
std::unique_ptr<Store> open_remote(const StoreUrl& url, OpenMode mode, std::uint64_t create_bytes);

/// A data set on all servers of `target`, or on none. Throws StoreError.
void create_remote(const RemoteTarget& target, std::uint64_t bytes);
void drop_remote(const RemoteTarget& target);

}  // namespace tiermap
