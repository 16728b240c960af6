#include "ycsb/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/output_file.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t default_bytes = std::uint64_t{1} << 30U;
constexpr std::uint64_t default_value_bytes = 1000;
constexpr std::uint32_t default_partitions = 256;
/// A record's share of both indexes, about.
constexpr std::uint64_t index_bytes = 46;
constexpr std::uint64_t most_records = std::uint64_t{1} << 36U;

template <typename T>
T choose(const std::string& text, const char* option, const std::pair<const char*, T> (&names)[2]) {
  for (const auto& [name, value] : names) {
    if (text == name) {
      return value;
    }
  }
  throw OptionError(fmt::format("{} {} is unknown: choose {} or {}", option, text, names[0].first, names[1].first));
}

std::uint64_t parse_value_size(const YcsbOptions& ycsb) {
  const std::uint64_t bytes = ycsb.value_size.empty() ? default_value_bytes : parse_size(ycsb.value_size, "value size");
  if (bytes == 0 || bytes % 8 != 0 || bytes > PoolLayout::most_value_bytes) {
    throw OptionError(fmt::format("value size {} does not do: choose a multiple of 8 from 8 to 1MiB", ycsb.value_size));
  }
  return bytes;
}

std::uint64_t choose_records(const WorkloadOptions& options, const YcsbOptions& ycsb, std::uint64_t value_bytes) {
  if (!ycsb.records.empty()) {
    return parse_whole_number(ycsb.records, "records", 1, most_records);
  }
  const std::uint64_t each = sizeof(RecordHead) + value_bytes + index_bytes;
  return std::clamp<std::uint64_t>(options.bytes.value_or(default_bytes) / each, 1, most_records);
}

/// Many, so that executors seldom want the same, but not so many that one has few records.
std::uint32_t choose_partitions(const YcsbOptions& ycsb, std::uint64_t records) {
  if (ycsb.partitions.empty()) {
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(std::bit_floor(records / 16), 1, std::uint64_t{default_partitions}));
  }
  const std::uint64_t number = parse_whole_number(ycsb.partitions, "partitions", 1, PoolLayout::most_partitions);
  if (!std::has_single_bit(number) || number > records) {
    throw OptionError(
        fmt::format("{} partitions do not do for {} records: choose a power of two, no more than there "
                    "are records",
                    number, records));
  }
  return static_cast<std::uint32_t>(number);
}

/// Room for the records, for what this run inserts, and some more, unless the user says how much. Of a pool that exists
/// the records are known when it is open, and only what was typed counts until then.
void plan_pool(const WorkloadOptions& options, const YcsbOptions& ycsb, Plan& plan) {
  PoolHeader& pool = plan.pool;
  pool.value_bytes = parse_value_size(ycsb);
  pool.records = choose_records(options, ycsb, pool.value_bytes);
  pool.partitions = choose_partitions(ycsb, pool.records);
  const std::uint64_t inserts = Workload(plan.workload, 1).count_inserts();
  plan.capacity = (pool.records + inserts) / 10 * 11 + 64;
  if (!ycsb.capacity.empty()) {
    plan.capacity = parse_whole_number(ycsb.capacity, "capacity", 1, most_records);
    if (!plan.exists && plan.capacity < pool.records + inserts) {
      throw OptionError(
          fmt::format("capacity {} is less than the {} records and {} inserts of this run: choose at "
                      "least {}, or leave it out",
                      plan.capacity, pool.records, inserts, pool.records + inserts));
    }
  }
  pool.partition_records = partition_records_of(plan.capacity, pool.partitions);
  if (pool.partition_records > PoolLayout::most_partition_records) {
    throw OptionError(fmt::format("{} records in {} partitions are too many in each: choose more --partitions",
                                  plan.capacity, pool.partitions));
  }
}

}  // namespace

std::uint64_t partition_records_of(std::uint64_t capacity, std::uint64_t partitions) {
  return (capacity + partitions - 1) / partitions;
}

void declare_options(CLI::App& app, YcsbOptions& ycsb) {
  app.add_option("--workload", ycsb.workload, "YCSB's a, b, c, d, e or f (default: a)");
  app.add_option("--records", ycsb.records, "Records to load (default: what --bytes allows, or 1GiB)");
  app.add_option("--value-size", ycsb.value_size, "Bytes of each value, a multiple of 8 (default: 1000)");
  app.add_option("--operations", ycsb.operations, "Operations of the run; 0 only loads (default: as many as records)");
  app.add_option("--distribution", ycsb.distribution,
                 "How records are chosen: uniform, zipfian or latest (default: the workload's)");
  app.add_option("--index", ycsb.index, "What finds a record: hash or ordered (default: hash)");
  app.add_option("--durability", ycsb.durability,
                 "A transaction is committed when the disk has it (sync, the default) or the kernel (none)");
  app.add_option("--partitions", ycsb.partitions, "Parts with a lock of their own, a power of two (default: 256)");
  app.add_option("--capacity", ycsb.capacity, "Records that the pool has room for (default: a tenth more than needed)");
  app.add_option("--log-limit", ycsb.log_limit, "Checkpoint when the redo log has this size (default: 256MiB)");
  app.add_option("--longest-scan", ycsb.longest_scan, "Most records of a scan (default: 100)");
  app.add_option("--acknowledge", ycsb.acknowledge,
                 "Append a line for each committed insert and update: partition, number, version");
}

Plan make_plan(const WorkloadOptions& options, const YcsbOptions& ycsb) {
  Plan plan;
  plan.exists = backing_exists(options.file);
  if (options.bytes.has_value() && plan.exists) {
    throw OptionError(fmt::format(
        "--bytes is for a pool to be made, and {} is there: leave it out, or name a new --file", options.file));
  }
  if (options.bytes.has_value() && !ycsb.records.empty()) {
    throw OptionError("--bytes and --records both say how many records are made: choose one of them");
  }
  plan.workload.letter = ycsb.workload;
  plan.workload.seed = options.seed;
  plan.workload.longest_scan = parse_whole_number(ycsb.longest_scan, "longest scan", 1, 1U << 20U);
  if (!ycsb.distribution.empty()) {
    plan.workload.distribution = parse_distribution(ycsb.distribution);
  }
  plan.store.index =
      choose<IndexKind>(ycsb.index, "index", {{"hash", IndexKind::hash}, {"ordered", IndexKind::ordered}});
  plan.store.log_limit_bytes = parse_size(ycsb.log_limit, "log limit");
  plan.durability =
      choose<Durability>(ycsb.durability, "durability", {{"sync", Durability::sync}, {"none", Durability::none}});
  plan.workload.operations = ycsb.operations.empty()
                                 ? choose_records(options, ycsb, parse_value_size(ycsb))
                                 : parse_whole_number(ycsb.operations, "operations", 0, most_records);
  if (options.peer.empty() && plan.store.index == IndexKind::hash &&
      Workload(plan.workload, 1).has(OperationKind::scan)) {
    throw OptionError(
        fmt::format("workload {} scans, and a hash index has no order: choose --index ordered", ycsb.workload));
  }
  const std::string pool = path_of_store(options.file);
  if (!ycsb.acknowledge.empty() && !pool.empty() &&
      (are_one_file(ycsb.acknowledge, pool) || are_one_file(ycsb.acknowledge, pool + ".log"))) {
    throw OptionError(fmt::format("--acknowledge {} is the pool or its log: name another file", ycsb.acknowledge));
  }
  plan_pool(options, ycsb, plan);
  return plan;
}

}  // namespace tiermap
