// The threads that load a database, work on it, and compare it with what they committed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "observe/progress.hpp"
#include "parallel/latency_counts.hpp"
#include "parallel/thread_team.hpp"
#include "ycsb/key_value_store.hpp"
#include "ycsb/record.hpp"
#include "ycsb/workload.hpp"

namespace tiermap {

/// What the executors know of the database: the version of every record, 4 bytes each.
struct alignas(64) Partition {
  std::mutex mutex;
  std::vector<std::uint32_t> versions;  ///< By number. Guarded by the mutex, as the partition in the database.
};

/// What a run did.
struct RunOutcome {
  std::array<LatencyCounts, operation_names.size()> latencies;
  std::array<std::uint64_t, operation_names.size()> counts{};
  std::uint64_t scanned_records = 0;
  double checkpoint_seconds = 0;
  std::uint64_t checkpoints = 0;
};

/// Executors on one database. A record is named by its number among all: partition `number % partitions`, and there
/// number `number / partitions`.
class Executors {
 public:
  Executors(const RecordFormat& format, ThreadTeam& team, ProgressDisplay& progress);
  ~Executors();
  Executors(const Executors&) = delete;
  Executors& operator=(const Executors&) = delete;

  /// From now on a line for each committed insert and update goes to the file: partition, number, version.
  void acknowledge_to(const std::string& path);

  /// Takes the versions of the records that a database has, `counts` in each partition. Returns what is wrong with the
  /// first record that is not right, or nothing.
  std::string learn(KeyValueStore& store, const std::vector<std::uint64_t>& counts);
  /// Inserts what is missing to `records` records, many in one transaction. Returns how many it inserted.
  std::uint64_t load(KeyValueStore& store, std::uint64_t records);
  RunOutcome run(KeyValueStore& store, const Workload& workload);
  /// Looks up every record. Returns what is wrong with the first that is not as it was committed, or nothing; that can
  /// also be one that a run read.
  std::string check(KeyValueStore& store);

  std::uint64_t records() const;

 private:
  struct Executor;
  /// What is wrong with a record, or nothing. It is there if `record` is not empty.
  using Examine = std::function<std::string(Partition& partition, std::uint64_t number, std::uint64_t key,
                                            std::span<const std::byte> record)>;

  void execute(Executor& executor, const Operation& operation);
  void read(Executor& executor, std::uint32_t partition, std::uint64_t number);
  void update(Executor& executor, std::uint32_t partition, std::uint64_t number);
  void insert(Executor& executor, std::uint32_t partition);
  void scan(Executor& executor, std::uint32_t partition, std::uint64_t number, std::uint64_t length);
  void load_partition(KeyValueStore& store, std::uint32_t partition, std::uint64_t records);
  void checkpoint_if_wanted(KeyValueStore& store);
  void acknowledge(std::uint32_t partition, std::uint64_t number, std::uint64_t version) const;
  void note_wrong(std::string what);
  /// All records, by number. Returns what `examine` said first.
  std::string look_up_all(KeyValueStore& store, const Examine& examine);

  const RecordFormat& format_;
  ThreadTeam& team_;
  ProgressDisplay& progress_;
  std::unique_ptr<Partition[]> partitions_;
  std::atomic<std::uint64_t> inserted_{0};  ///< Records, those included that are just being inserted.
  std::string acknowledgements_path_;
  int acknowledgements_ = -1;

  std::mutex checkpoint_mutex_;  ///< Guards the next two.
  double checkpoint_seconds_ = 0;
  std::uint64_t checkpoints_ = 0;

  std::mutex wrong_mutex_;
  std::string wrong_;  ///< The first that was found.
};

}  // namespace tiermap
