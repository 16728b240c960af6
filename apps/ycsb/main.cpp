// tiermap-ycsb: the workloads of YCSB on a key-value store in a mapped file that may be larger than memory, whose
// transactions survive that the program is killed.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command_line/backing.hpp"
#include "command_line/interruption.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "platform/memory_limits.hpp"
#include "tiermap/error.hpp"
#include "ycsb/executors.hpp"
#include "ycsb/peers/peers.hpp"
#include "ycsb/plan.hpp"
#include "ycsb/pool_file.hpp"
#include "ycsb/pool_store.hpp"
#include "ycsb/workload.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-ycsb";
constexpr std::uint64_t default_page_size = std::uint64_t{4} << 10U;

void describe_latencies(const RunOutcome& outcome, nlohmann::ordered_json& fields) {
  for (std::size_t kind = 0; kind < operation_names.size(); ++kind) {
    if (outcome.counts[kind] == 0) {
      continue;
    }
    nlohmann::ordered_json& latencies = fields["latency_microseconds"][operation_names[kind]];
    latencies["count"] = outcome.counts[kind];
    for (const auto& [name, share] :
         {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}}) {
      latencies[name] = static_cast<double>(outcome.latencies[kind].quantile_nanoseconds(share)) / 1000;
    }
  }
}

/// One run of the program, on a pool or on a peer.
class YcsbRun {
 public:
  YcsbRun(const WorkloadOptions& options, const YcsbOptions& ycsb)
      : options_(options),
        ycsb_(ycsb),
        plan_(make_plan(options, ycsb)),
        team_(options.threads),
        progress_("preparing", 0) {
    system_ = MemorySystem::make(options_);
  }

  Report run() { return options_.peer.empty() ? run_pool() : run_peer(); }

 private:
  Report run_pool() {
    const std::unique_ptr<PoolFile> pool_file = plan_.exists ? open_pool() : make_pool();
    PoolFile& pool = *pool_file;
    const RecordFormat& format = pool.layout().format();
    Executors executors(format, team_, progress_);
    const StopWatch preparing;
    std::unique_ptr<MappedBytes> mapped = system_->map(pool.backing(), Access::read_write);
    Report report;
    const ReplayOutcome recovered = pool.recover(*mapped);
    report.fields["recovered_frames"] = recovered.frames;
    report.fields["ignored_log_bytes"] = recovered.ignored_bytes;
    auto store = std::make_unique<PoolStore>(*mapped, pool.layout(), &pool.log(), plan_.store);
    learn_pool(*store, executors);
    const std::uint64_t logged_before = load(*store, executors, &pool.log(), report);
    // What follows begins with nothing in memory.
    store.reset();
    mapped.reset();
    pool.backing().make_cold();
    mapped = system_->map(pool.backing(), Access::read_write);
    store = std::make_unique<PoolStore>(*mapped, pool.layout(), &pool.log(), plan_.store);
    report.fields["prepare_seconds"] = preparing.seconds();

    Measurement measured(*system_);
    work(*store, executors, report);
    measured.pause();
    report.fields["load_logged_bytes"] = logged_before;
    report.fields["logged_bytes"] = pool.log().logged_bytes() - logged_before;
    report.fields["pool_bytes"] = pool.header().file_bytes;
    if (options_.verify) {
      const StopWatch verifying;
      store.reset();
      mapped.reset();
      pool.backing().reopen_read_only();
      pool.backing().make_cold();
      mapped = system_->map(pool.backing(), Access::read_only);
      store = std::make_unique<PoolStore>(*mapped, pool.layout(), nullptr, plan_.store);
      check(*store, executors, report);
      report.fields["verify_seconds"] = verifying.seconds();
    }
    describe(executors, measured, report);
    if (options_.keep || plan_.exists) {
      report.fields["file"] = pool.backing().url();
    }
    return report;
  }

  std::unique_ptr<PoolFile> make_pool() {
    const std::string url = options_.file.empty() ? scratch_path(program_name, "pool") : options_.file;
    system_->check_url(url);
    if (!names_one_file(url)) {
      throw OptionError(url + " is not one plain file, and a pool is one, with its log beside it: name a file");
    }
    check_memory(PoolLayout(plan_.pool).file_bytes());
    std::unique_ptr<PoolFile> pool = PoolFile::create(url, plan_.pool, plan_.durability);
    if (options_.keep) {
      pool->keep();  // A pool is whole whenever the program ends: that is what its log is for.
    }
    return pool;
  }

  void check_memory(std::uint64_t pool_bytes) const {
    const std::uint64_t usable = read_machine_memory().usable_bytes();
    if (options_.system == System::memory && pool_bytes > usable) {
      throw OptionError(fmt::format("a pool of {} does not fit into {} of memory: choose another --system",
                                    format_size_rounded(pool_bytes), format_size_rounded(usable)),
                        ENOMEM);
    }
  }

  std::unique_ptr<PoolFile> open_pool() {
    system_->check_url(options_.file);
    std::unique_ptr<PoolFile> pool = PoolFile::open(options_.file, plan_.durability);
    const auto refuse_other = [&](const std::string& given, std::uint64_t wanted, std::uint64_t has,
                                  const char* option) {
      if (!given.empty() && wanted != has) {
        throw OptionError(fmt::format("{} was made with {} {}, not {}: leave the option out, or name a new --file",
                                      options_.file, option, has, wanted));
      }
    };
    const PoolHeader& header = pool->header();
    check_memory(header.file_bytes);
    refuse_other(ycsb_.value_size, plan_.pool.value_bytes, header.value_bytes, "--value-size");
    refuse_other(ycsb_.records, plan_.pool.records, header.records, "--records");
    refuse_other(ycsb_.partitions, plan_.pool.partitions, header.partitions, "--partitions");
    // What the same --capacity would have given a pool with these partitions.
    refuse_other(ycsb_.capacity, partition_records_of(plan_.capacity, header.partitions) * header.partitions,
                 header.partition_records * header.partitions, "--capacity");
    plan_.pool = header;
    if (ycsb_.operations.empty()) {
      plan_.workload.operations = header.records;
    }
    return pool;
  }

  void learn_pool(PoolStore& store, Executors& executors) {
    std::vector<std::uint64_t> counts;
    std::uint64_t records = 0;
    for (std::uint32_t partition = 0; partition < plan_.pool.partitions; ++partition) {
      counts.push_back(store.records(partition));
      records += counts.back();
    }
    const std::uint64_t inserts = Workload(plan_.workload, 1).count_inserts();
    // An insert more or less in each partition: where a run was killed.
    const std::uint64_t room = (plan_.pool.partition_records - 1) * plan_.pool.partitions;
    if (plan_.exists && inserts > 0 && std::max(records, plan_.pool.records) + inserts > room) {
      throw OptionError(
          fmt::format("{} has {} records and room for {}, not for {} inserts: choose fewer --operations, "
                      "or make a pool with more --capacity",
                      options_.file, records, room, inserts));
    }
    std::string wrong = executors.learn(store, counts);
    if (wrong.empty() && plan_.exists && options_.verify) {
      wrong = store.check(team_);
    }
    if (!wrong.empty()) {
      throw StoreError(EIO, fmt::format("{}: {}: bring back a copy of it", options_.file, wrong));
    }
  }

  /// Returns what was logged for it.
  std::uint64_t load(KeyValueStore& store, Executors& executors, const RedoLog* log, Report& report) {
    if (!ycsb_.acknowledge.empty()) {
      executors.acknowledge_to(ycsb_.acknowledge);
    }
    const StopWatch loading;
    const std::uint64_t loaded = executors.load(store, plan_.pool.records);
    store.checkpoint();
    const double seconds = loading.seconds();
    report.fields["loaded_records"] = loaded;
    report.fields["load_seconds"] = seconds;
    report.fields["loads_per_second"] = static_cast<double>(loaded) / seconds;
    return log != nullptr ? log->logged_bytes() : 0;
  }

  void work(KeyValueStore& store, Executors& executors, Report& report) {
    const Workload workload(plan_.workload, executors.records());
    const StopWatch working;
    const RunOutcome outcome = executors.run(store, workload);
    const double seconds = working.seconds();
    const StopWatch syncing;
    store.checkpoint();
    report.fields["run_seconds"] = seconds;
    report.fields["sync_seconds"] = syncing.seconds();
    report.operations = workload.operations();
    const double rate = static_cast<double>(workload.operations()) / seconds;
    report.fields["operations_per_second"] = rate;
    report.fields["distribution"] = distribution_name(workload.distribution());
    report.fields["scanned_records"] = outcome.scanned_records;
    report.fields["checkpoints"] = outcome.checkpoints;
    report.fields["checkpoint_seconds"] = outcome.checkpoint_seconds;
    describe_latencies(outcome, report.fields);
    report.remark = fmt::format("{} records, {:.0f} loaded a second, {:.0f} operations a second", executors.records(),
                                report.fields.at("loads_per_second").get<double>(), rate);
  }

  void check(KeyValueStore& store, Executors& executors, Report& report) {
    report.failure = executors.check(store);
    if (report.failure.empty()) {
      progress_.restart("comparing the indexes", 0);
      report.failure = store.check(team_);
    }
    report.verified = report.failure.empty();
  }

  void describe(const Executors& executors, const Measurement& measured, Report& report) {
    report.workload = "ycsb-" + ycsb_.workload;
    report.fields["records"] = executors.records();
    report.fields["value_bytes"] = plan_.pool.value_bytes;
    report.fields["partitions"] = plan_.pool.partitions;
    report.fields["durability"] = ycsb_.durability;
    if (options_.peer.empty()) {
      report.fields["index"] = ycsb_.index;
    }
    report.bytes = executors.records() * (sizeof(RecordHead) + plan_.pool.value_bytes);
    report.describe(options_, *system_, measured);
  }

  Report run_peer();

  const WorkloadOptions options_;
  const YcsbOptions& ycsb_;
  Plan plan_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::unique_ptr<MemorySystem> system_;
};

/// Has the kernel forget a folder's files, as a pool's.
void make_files_cold(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      Backing::open(entry.path().string(), true).make_cold();
    }
  }
}

Report YcsbRun::run_peer() {
  if (options_.keep || plan_.exists) {
    throw OptionError(
        fmt::format("{} is compared with, not kept: leave --keep out, and name a new --file or none", options_.peer));
  }
  PeerOptions peer;
  peer.path = options_.file.empty() ? scratch_path(program_name, options_.peer) : options_.file;
  peer.record_bytes = sizeof(RecordHead) + plan_.pool.value_bytes;
  peer.most_records = plan_.pool.partition_records * plan_.pool.partitions;
  peer.budget_bytes = system_->budget_bytes();
  peer.threads = options_.threads;
  peer.durability = plan_.durability;
  // What they write beside the records is theirs to know; a full disk ends Debian's RocksDB by an assertion.
  check_room_for(peer.path, 2 * peer.most_records * peer.record_bytes);
  const MadePath made(peer.path);
  const RecordFormat format(plan_.pool.partitions, plan_.pool.value_bytes);
  Executors executors(format, team_, progress_);
  Report report;
  const StopWatch preparing;
  std::unique_ptr<KeyValueStore> store = open_peer(options_.peer, peer);
  load(*store, executors, nullptr, report);
  store.reset();
  make_files_cold(peer.path);
  store = open_peer(options_.peer, peer);
  report.fields["prepare_seconds"] = preparing.seconds();
  Measurement measured(*system_);
  work(*store, executors, report);
  measured.pause();
  if (options_.verify) {
    const StopWatch verifying;
    store.reset();
    store = open_peer(options_.peer, peer);
    check(*store, executors, report);
    report.fields["verify_seconds"] = verifying.seconds();
  }
  report.fields["system"] = options_.peer;
  report.fields["engine"] = options_.peer;
  describe(executors, measured, report);
  return report;
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Runs YCSB on a key-value store in a mapped file, and checks every record afterwards.",
                           tiermap::default_page_size);
  program.add_peer(tiermap::rocksdb_name);
  program.add_peer(tiermap::lmdb_name);
  tiermap::YcsbOptions ycsb;
  tiermap::declare_options(program.app(), ycsb);
  return program.run(argc, argv,
                     [&](const tiermap::WorkloadOptions& options) { return tiermap::YcsbRun(options, ycsb).run(); });
}
