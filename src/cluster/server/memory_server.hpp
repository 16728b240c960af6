// A memory server: data sets that other processes map. docs/cluster.md says what it promises.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/job/jobs.hpp"
#include "cluster/server/catalog.hpp"
#include "cluster/server/server_options.hpp"
#include "cluster/server/task_workers.hpp"
#include "cluster/wire/wire.hpp"

namespace tiermap {

class MemoryServer final : private WireService {
 public:
  /// Opens what the configuration names, and listens. Throws OptionError or StoreError.
  explicit MemoryServer(ServerOptions options);
  ~MemoryServer() override;
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;

  /// Where it listens.
  HostAndPort address() const { return {options_.listen.host, port_}; }
  std::size_t data_sets() const { return catalog_.size(); }
  /// Lets nobody in any more, ends what is under way, and brings data sets of the configuration to their stores.
  /// Returns a line for each that could not be. Once.
  std::vector<std::string> end();

 private:
  std::optional<std::string> secret_of(std::string_view user) override;
  void on_request(WireRequest request) override;
  void on_closed(const std::shared_ptr<WireConnection>& connection) override;

  void answer(WireRequest& request, const std::shared_ptr<Attachment>& attachment,
              const std::weak_ptr<const void>& client);
  void attach(WireRequest& request);
  void detach(WireRequest request, std::shared_ptr<Attachment> attachment);
  void create(WireRequest& request, const std::weak_ptr<const void>& client);
  void list(WireRequest& request);
  void read(WireRequest& request, Attachment& attachment);
  void write(WireRequest& request, Attachment& attachment);

  const ServerOptions options_;
  Catalog catalog_;
  std::unique_ptr<TaskWorkers> workers_;
  std::unique_ptr<Jobs> jobs_;
  std::unique_ptr<Wire> wire_;  ///< After what its handlers use.
  std::uint16_t port_ = 0;
};

}  // namespace tiermap
