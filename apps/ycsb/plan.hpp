// What the user asks for, checked before anything is made.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "command_line/options.hpp"
#include "ycsb/key_value_store.hpp"
#include "ycsb/pool_layout.hpp"
#include "ycsb/pool_store.hpp"
#include "ycsb/workload.hpp"

namespace tiermap {

/// The program's own options, as they are typed.
struct YcsbOptions {
  std::string workload = "a";
  std::string records;
  std::string value_size;
  std::string operations;
  std::string distribution;
  std::string index = "hash";
  std::string durability = "sync";
  std::string partitions;
  std::string capacity;
  std::string log_limit = "256MiB";
  std::string longest_scan = "100";
  std::string acknowledge;
};

/// The same, checked.
struct Plan {
  bool exists = false;         ///< The pool in --file is to be used.
  PoolHeader pool;             ///< Of a pool to be made; of one that exists, once it is open.
  std::uint64_t capacity = 0;  ///< Records that the pool is to have room for.
  Workload::Options workload;
  PoolStore::Options store;
  Durability durability = Durability::sync;
};

void declare_options(CLI::App& app, YcsbOptions& ycsb);

/// Records that each of `partitions` has room for, so that all together have room for `capacity`.
std::uint64_t partition_records_of(std::uint64_t capacity, std::uint64_t partitions);

/// Throws OptionError, one line that names the value and the remedy.
Plan make_plan(const WorkloadOptions& options, const YcsbOptions& ycsb);

}  // namespace tiermap
