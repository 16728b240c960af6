#include "ycsb/executors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "command_line/report.hpp"
#include "platform/clock.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t records_in_load_transaction = 64;
/// Each executor has what it inserts in memory several times, beside the budget.
constexpr std::uint64_t load_transaction_bytes = std::uint64_t{256} << 10U;
constexpr std::uint64_t report_every = 256;

}  // namespace

/// One thread's share of a run.
struct Executors::Executor {
  KeyValueStore& store;
  std::vector<std::byte> record;
  RunOutcome outcome;
};

Executors::Executors(const RecordFormat& format, ThreadTeam& team, ProgressDisplay& progress)
    : format_(format), team_(team), progress_(progress), partitions_(new Partition[format.partitions()]) {}

Executors::~Executors() {
  if (acknowledgements_ >= 0) {
    ::close(acknowledgements_);
  }
}

void Executors::acknowledge_to(const std::string& path) {
  acknowledgements_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (acknowledgements_ < 0) {
    const int number = errno;
    throw StoreError(number, fmt::format("{} cannot be opened for acknowledgements ({}): name another --acknowledge",
                                         path, std::generic_category().message(number)));
  }
  acknowledgements_path_ = path;
}

void Executors::acknowledge(std::uint32_t partition, std::uint64_t number, std::uint64_t version) const {
  if (acknowledgements_ < 0) {
    return;
  }
  const std::string line = fmt::format("{} {} {}\n", partition, number, version);
  if (::write(acknowledgements_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw StoreError(ENOSPC, fmt::format("{} cannot be written: see to its disk, or name another --acknowledge",
                                         acknowledgements_path_));
  }
}

void Executors::note_wrong(std::string what) {
  const std::lock_guard lock(wrong_mutex_);
  if (wrong_.empty()) {
    wrong_ = std::move(what);
  }
}

std::uint64_t Executors::records() const {
  std::uint64_t sum = 0;
  for (std::uint32_t partition = 0; partition < format_.partitions(); ++partition) {
    sum += partitions_[partition].versions.size();
  }
  return sum;
}

std::string Executors::look_up_all(KeyValueStore& store, const Examine& examine) {
  std::mutex mutex;
  std::string first;
  team_.for_each(format_.partitions(), [&](std::uint64_t index) {
    const auto partition = static_cast<std::uint32_t>(index);
    std::vector<std::byte> record(static_cast<std::size_t>(format_.record_bytes()));
    for (std::uint64_t number = 0; number < partitions_[partition].versions.size(); ++number) {
      const std::uint64_t key = format_.key_of(partition, number);
      const bool found = store.read(partition, key, record);
      const std::string wrong =
          examine(partitions_[partition], number, key, found ? record : std::span<const std::byte>());
      if (!wrong.empty()) {
        const std::lock_guard lock(mutex);
        first = fmt::format("record {} of partition {} {}", number, partition, wrong);
        return;
      }
      progress_.add(1);
    }
  });
  return first;
}

std::string Executors::learn(KeyValueStore& store, const std::vector<std::uint64_t>& counts) {
  for (std::uint32_t partition = 0; partition < format_.partitions(); ++partition) {
    partitions_[partition].versions.resize(static_cast<std::size_t>(counts[partition]));
  }
  inserted_ = records();
  progress_.restart("looking at the pool", records());
  return look_up_all(store,
                     [this](Partition& partition, std::uint64_t number, std::uint64_t key,
                            std::span<const std::byte> record) -> std::string {
                       if (record.empty() || !format_.is_right(record, key, head_of(record).version)) {
                         return record.empty() ? "is missing" : "is damaged";
                       }
                       partition.versions[number] = static_cast<std::uint32_t>(head_of(record).version);
                       return {};
                     });
}

std::string Executors::check(KeyValueStore& store) {
  progress_.restart("checking", records());
  std::string wrong =
      look_up_all(store,
                  [this](Partition& partition, std::uint64_t number, std::uint64_t key,
                         std::span<const std::byte> record) -> std::string {
                    const std::uint32_t version = partition.versions[number];
                    if (record.empty()) {
                      return fmt::format("was committed in version {} and is missing", version);
                    }
                    if (!format_.is_right(record, key, version)) {
                      return fmt::format("was committed in version {} and is there in version {}, or damaged", version,
                                         head_of(record).version);
                    }
                    return {};
                  });
  if (wrong_.empty()) {
    wrong_ = std::move(wrong);
  }
  return wrong_;
}

std::uint64_t Executors::load(KeyValueStore& store, std::uint64_t records) {
  const std::uint64_t before = this->records();
  progress_.restart("loading", records - std::min(before, records));
  team_.for_each(format_.partitions(), [&](std::uint64_t partition) {
    load_partition(store, static_cast<std::uint32_t>(partition),
                   records / format_.partitions() + (partition < records % format_.partitions() ? 1 : 0));
  });
  inserted_ = this->records();
  return inserted_ - before;
}

void Executors::load_partition(KeyValueStore& store, std::uint32_t partition, std::uint64_t records) {
  std::vector<std::uint32_t>& versions = partitions_[partition].versions;
  const std::uint64_t most =
      std::clamp<std::uint64_t>(load_transaction_bytes / format_.record_bytes(), 1, records_in_load_transaction);
  std::vector<std::byte> batch;
  while (versions.size() < records) {
    const std::uint64_t first = versions.size();
    const std::uint64_t count = std::min(most, records - first);
    batch.resize(static_cast<std::size_t>(count * format_.record_bytes()));
    for (std::uint64_t index = 0; index < count; ++index) {
      format_.fill(std::span(batch).subspan(static_cast<std::size_t>(index * format_.record_bytes()),
                                            static_cast<std::size_t>(format_.record_bytes())),
                   format_.key_of(partition, first + index), 1);
    }
    {
      const std::lock_guard lock(partitions_[partition].mutex);
      store.insert(partition, batch);
      versions.resize(static_cast<std::size_t>(first + count), 1);
    }
    for (std::uint64_t index = 0; index < count; ++index) {
      acknowledge(partition, first + index, 1);
    }
    progress_.add(count);
    checkpoint_if_wanted(store);
  }
}

RunOutcome Executors::run(KeyValueStore& store, const Workload& workload) {
  progress_.restart("working", workload.operations());
  checkpoint_seconds_ = 0;
  checkpoints_ = 0;
  std::vector<RunOutcome> outcomes(team_.size());
  team_.run([&](std::uint32_t thread) {
    Executor executor{store, std::vector<std::byte>(static_cast<std::size_t>(format_.record_bytes())), {}};
    for (std::uint64_t index = thread; index < workload.operations(); index += team_.size()) {
      const Operation operation = workload.at(index, inserted_.load(std::memory_order_relaxed));
      const std::uint64_t started = now_nanoseconds();
      execute(executor, operation);
      const auto kind = static_cast<std::size_t>(operation.kind);
      executor.outcome.latencies[kind].add(now_nanoseconds() - started);
      if (++executor.outcome.counts[kind] % report_every == 0) {
        progress_.add(report_every);
      }
      checkpoint_if_wanted(store);
    }
    outcomes[thread] = executor.outcome;
  });
  RunOutcome total;
  for (const RunOutcome& outcome : outcomes) {
    for (std::size_t kind = 0; kind < operation_names.size(); ++kind) {
      total.latencies[kind].add(outcome.latencies[kind]);
      total.counts[kind] += outcome.counts[kind];
    }
    total.scanned_records += outcome.scanned_records;
  }
  total.checkpoint_seconds = checkpoint_seconds_;
  total.checkpoints = checkpoints_;
  return total;
}

void Executors::execute(Executor& executor, const Operation& operation) {
  auto partition = static_cast<std::uint32_t>(operation.record % format_.partitions());
  if (operation.kind == OperationKind::insert) {
    partition = static_cast<std::uint32_t>(inserted_.fetch_add(1, std::memory_order_relaxed) % format_.partitions());
  }
  const std::lock_guard lock(partitions_[partition].mutex);
  // The very last ones may not be committed yet.
  const std::uint64_t number =
      std::min<std::uint64_t>(operation.record / format_.partitions(), partitions_[partition].versions.size() - 1);
  switch (operation.kind) {
    case OperationKind::read:
      return read(executor, partition, number);
    case OperationKind::update:
      return update(executor, partition, number);
    case OperationKind::insert:
      return insert(executor, partition);
    case OperationKind::scan:
      return scan(executor, partition, number, operation.scan_length);
    case OperationKind::read_modify_write:
      read(executor, partition, number);
      return update(executor, partition, number);
  }
}

void Executors::read(Executor& executor, std::uint32_t partition, std::uint64_t number) {
  const std::uint64_t key = format_.key_of(partition, number);
  const std::uint32_t version = partitions_[partition].versions[number];
  if (!executor.store.read(partition, key, executor.record) || !format_.is_whole(executor.record, key, version)) {
    note_wrong(fmt::format("record {} of partition {} was read, and not as it was committed in version {}", number,
                           partition, version));
  }
}

void Executors::update(Executor& executor, std::uint32_t partition, std::uint64_t number) {
  std::uint32_t& version = partitions_[partition].versions[number];
  format_.fill(executor.record, format_.key_of(partition, number), version + 1);
  executor.store.update(partition, executor.record);
  ++version;
  acknowledge(partition, number, version);
}

void Executors::insert(Executor& executor, std::uint32_t partition) {
  std::vector<std::uint32_t>& versions = partitions_[partition].versions;
  const std::uint64_t number = versions.size();
  format_.fill(executor.record, format_.key_of(partition, number), 1);
  executor.store.insert(partition, executor.record);
  versions.push_back(1);
  acknowledge(partition, number, 1);
}

// Locks are taken in ascending order, here and for a checkpoint.
void Executors::scan(Executor& executor, std::uint32_t partition, std::uint64_t number, std::uint64_t length) {
  std::uint64_t key = format_.key_of(partition, number);
  std::uint64_t last = 0;
  bool begun = false;
  const auto visit = [&] {
    const RecordHead head = head_of(executor.record);
    // The record that it begins at is there, and nobody else changes its partition.
    const bool is_next = begun ? head.key > last : head.key == key;
    if (!is_next || !format_.is_whole(executor.record, head.key, head.version)) {
      note_wrong(fmt::format("a scan from key {} met key {} after key {}, or a damaged record", key, head.key, last));
    }
    begun = true;
    last = head.key;
  };
  std::uint64_t left = length - executor.store.scan(partition, key, length, executor.record, visit);
  if (!begun) {
    note_wrong(fmt::format("a scan from key {} did not meet it, which is there", key));
  }
  while (left > 0 && ++partition < format_.partitions()) {
    const std::lock_guard lock(partitions_[partition].mutex);
    // Who knows no partitions has gone on by itself.
    key = std::max(format_.first_key(partition), last + 1);
    left -= executor.store.scan(partition, key, left, executor.record, visit);
  }
  executor.outcome.scanned_records += length - left;
}

void Executors::checkpoint_if_wanted(KeyValueStore& store) {
  if (!store.wants_checkpoint()) {
    return;
  }
  const std::unique_lock lock(checkpoint_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return;
  }
  const StopWatch watch;
  // With all locks no transaction is under way: each is in the log and in the pool, or in neither.
  std::vector<std::unique_lock<std::mutex>> locks;
  for (std::uint32_t partition = 0; partition < format_.partitions(); ++partition) {
    locks.emplace_back(partitions_[partition].mutex);
  }
  if (store.wants_checkpoint()) {
    store.checkpoint();
    checkpoint_seconds_ += watch.seconds();
    ++checkpoints_;
  }
}

}  // namespace tiermap
