// What a memory server is told: `tiermap serve --config node.yaml`.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/server/task_workers.hpp"
#include "cluster/wire/address.hpp"
#include "tiermap/store.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {

struct ServerUser {
  std::string secret;
  bool administrator = false;  ///< May see, read, write and drop everything.
};

/// Who may do what with a data set: its owner everything, administrators too. "*" among readers or writers is everybody
/// who was let in.
struct DataSetRights {
  std::string owner;
  std::vector<std::string> readers;
  std::vector<std::string> writers;
};

/// One that the server has from the start.
struct ServedDataSet {
  std::string name;
  std::string store;        ///< Its URL: there it is when the server ends.
  std::uint64_t bytes = 0;  ///< If it is to be made where it is missing.
  bool read_only = false;
  DataSetRights rights;
  std::optional<TieringOptions> tiers;
  std::shared_ptr<Store> opened;  ///< Instead of what the URL names: of a program that has a server in it.
};

struct ServerOptions {
  HostAndPort listen{"127.0.0.1", 7070};
  std::chrono::milliseconds timeout{5000};
  bool one_sided = false;
  std::uint64_t memory_bytes = 0;  ///< Of all data sets that are made in DRAM.
  std::string directory;           ///< For those that are made there; "": none are.
  std::uint64_t directory_bytes = 0;
  std::optional<TieringOptions> tiers;      ///< In front of each data set in the directory.
  std::map<std::string, ServerUser> users;  ///< None: whoever is on this machine may do everything.
  std::vector<ServedDataSet> data_sets;
  /// Threads that read and write what is not in DRAM: so many for small requests, and so many for large ones.
  WorkerBounds workers;
};

/// `listen` stands above what the file says. Throws OptionError, one line with path, line and remedy.
ServerOptions read_server_options(const std::string& path, const std::optional<HostAndPort>& listen = {});
ServerOptions parse_server_options(const std::string& yaml, const std::string& path,
                                   const std::optional<HostAndPort>& listen = {});

/// The first line of a file that others may not read. Throws OptionError.
std::string read_secret_file(const std::string& path);

}  // namespace tiermap
