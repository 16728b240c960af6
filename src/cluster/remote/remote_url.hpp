// What a remote: URL says.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/memory_protocol.hpp"
#include "cluster/wire/wire.hpp"
#include "store/store_url.hpp"

namespace tiermap {

/// remote://host:port,host:port/name?layout=striped|replicated&stripe=1MiB&copies=2&timeout=5s&user=ann&place=memory,
/// and temporary=true of what is made.
struct RemoteTarget {
  std::vector<HostAndPort> servers;
  std::string name;
  DataSetLayout layout;  ///< index is of no meaning.
  std::chrono::milliseconds timeout{5000};
  WireLogin login;
  std::string place;  ///< Of what is created.
  std::vector<std::string> readers;
  std::vector<std::string> writers;
  bool temporary = false;  ///< Made under a name of its own that begins with `name`, and gone when it is closed.
};

/// Throws StoreError (EINVAL) with the URL and the remedy. User and secret come from the environment: TIERMAP_USER, and
/// TIERMAP_SECRET or the file that TIERMAP_SECRET_FILE names.
RemoteTarget parse_remote_url(const StoreUrl& url);

/// From the environment; `user` if that is not empty. Throws OptionError for a file that cannot be used.
WireLogin login_from_environment(const std::string& user);

/// "5s", "500ms", "0.5". Throws OptionError.
std::chrono::milliseconds parse_timeout(const std::string& text);

}  // namespace tiermap
