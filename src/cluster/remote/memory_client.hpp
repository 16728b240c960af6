// A memory server, asked for what is not the content of a data set.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cluster/memory_protocol.hpp"
#include "cluster/wire/wire.hpp"

namespace tiermap {

/// Connected while it lives. Members throw StoreError in the server's words, with its address. Thread-safe.
class MemoryClient {
 public:
  MemoryClient(Wire& wire, const HostAndPort& server, const WireLogin& login);

  std::vector<DataSetLine> list(const std::string& name);
  /// `temporary`: dropped when this client has detached it, or its connection ends.
  void create(const CreateForm& form, std::uint64_t bytes, bool temporary = false);
  void drop(const std::string& name);
  /// Returns the handle.
  std::uint64_t attach(const std::string& name, bool writing, DataSetFacts& facts);

  WireConnection& connection() const noexcept { return *connection_; }
  const std::shared_ptr<WireConnection>& shared_connection() const noexcept { return connection_; }
  const std::string& server() const noexcept { return server_; }

 private:
  WireReply ask(WireMessage request);
  /// For what may take its time as long as the server lives.
  WireReply ask_patiently(WireMessage request);
  WireReply require_success(WireReply reply) const;

  const std::string server_;
  const std::shared_ptr<WireConnection> connection_;
};

}  // namespace tiermap
