// Opens remote: URLs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/memory_protocol.hpp"
#include "cluster/remote/remote_url.hpp"
#include "store/new_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

class RemoteStore;

/// Throws StoreError in one line: what cannot be reached, who may not, what is not there, is in use, or is another
/// layout.
std::unique_ptr<Store> open_remote(const StoreUrl& url, OpenMode mode, const NewStore& made);

/// A new data set that is gone from all its servers, however who makes it ends, until RemoteStore::keep(). Throws
/// StoreError.
std::unique_ptr<RemoteStore> create_unkept_remote(const StoreUrl& url, std::uint64_t bytes);

/// A data set on all servers of `target`, or on none. Throws StoreError.
void create_remote(const RemoteTarget& target, std::uint64_t bytes);
void drop_remote(const RemoteTarget& target);

/// What one server says of a data set, without attaching it.
struct RemotePart {
  std::string server;
  std::optional<DataSetLine> line;
  std::string failure;  ///< Why there is no line.
};
/// Of all servers of `target`, in their order. Throws StoreError if none of them has it.
std::vector<RemotePart> look_at_remote(const RemoteTarget& target);

}  // namespace tiermap
