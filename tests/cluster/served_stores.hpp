// Memory servers in the process of the test, and stores on them: everything between the two goes through sockets.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/server/memory_server.hpp"
#include "tiermap/job.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

inline ServerOptions test_server_options() {
  ServerOptions options;
  options.listen = {"127.0.0.1", 0};
  options.memory_bytes = 64 << 20;
  return options;
}

/// With one data set, which is that store.
inline ServerOptions test_server_options(const std::string& name, std::shared_ptr<Store> store) {
  ServerOptions options = test_server_options();
  ServedDataSet set;
  set.name = name;
  set.opened = std::move(store);
  options.data_sets.push_back(set);
  return options;
}

/// Servers that end one by one, or with the object.
class ServedStores {
 public:
  explicit ServedStores(std::size_t count, const ServerOptions& options = test_server_options()) {
    ::setenv("UCX_TLS", "tcp,self", 1);  // As between nodes.
    for (std::size_t index = 0; index < count; ++index) {
      servers.push_back(std::make_unique<MemoryServer>(options));
      addresses.push_back(servers.back()->address());
    }
  }
  std::string hosts() const {
    std::string text;
    for (const HostAndPort& address : addresses) {
      text += (text.empty() ? "" : ",") + address.text();
    }
    return text;
  }
  std::string url(const std::string& name, const std::string& query = "") const {
    return "remote://" + hosts() + "/" + name + query;
  }

  std::vector<std::unique_ptr<MemoryServer>> servers;
  std::vector<HostAndPort> addresses;
};

inline JobOptions one_rank_on(const ServedStores& served) {
  JobOptions options;
  options.rank = 0;
  options.ranks = 1;
  options.servers = served.hosts();
  return options;
}

/// A new data set, whose servers end after it.
inline std::shared_ptr<Store> make_remote(std::size_t servers, const std::string& query, std::uint64_t bytes) {
  const auto served = std::make_shared<ServedStores>(servers);
  std::shared_ptr<Store> store = open_store(served->url("conforms", query), OpenMode::create, bytes);
  Store* const raw = store.get();
  return {raw, [served, store = std::move(store)](Store*) mutable { store.reset(); }};
}

}  // namespace tiermap
