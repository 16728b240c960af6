// tiermap-random-io: single words of random blocks, read or changed, by many threads and processes; how many a second,
// and how long each takes. What DI-MMAP's LRIOT measures (Van Essen and others, Cluster Computing 2015, section 5.1).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "observe/progress.hpp"
#include "parallel/latency_counts.hpp"
#include "parallel/thread_team.hpp"
#include "platform/clock.hpp"
#include "random-io/access_sequence.hpp"
#include "random-io/block_target.hpp"
#include "random-io/process_group.hpp"
#include "random-io/random_io_options.hpp"
#include "random-io/test_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-random-io";
constexpr std::uint64_t default_bytes = std::uint64_t{1} << 30U;
constexpr std::uint64_t default_page_size = 4096;
/// Threads that write the file and check it: enough to keep a device busy.
constexpr std::uint32_t most_helpers = 8;

/// What one process did. In shared memory.
struct ProcessOutcome {
  std::atomic<std::uint64_t> done;  ///< Accesses so far.
  double seconds;                   ///< Of the accesses alone.
  double sync_seconds;
  std::uint64_t accesses;
  std::uint64_t wrong;
  std::uint64_t read_bytes;
  std::uint64_t paged_in_bytes;
  std::uint64_t paged_out_bytes;
  std::uint64_t written_bytes;
  std::uint64_t faults;
  std::uint64_t minor_faults;
  std::uint64_t peak_rss_bytes;
  double user_seconds;
  double system_seconds;
  LatencyCounts latencies;
  Statistics statistics;  ///< All zero but with tiermap.
};

/// The blocks of one process: no other one touches them, so that caches of their own are coherent.
BlockRange blocks_of(std::uint64_t blocks, std::uint32_t process, std::uint32_t processes) {
  const std::uint64_t first = blocks * process / processes;
  return {first, blocks * (process + 1) / processes - first};
}

std::unique_ptr<AccessSequence> sequence_of(const RandomIoOptions& random, std::uint64_t seed,
                                            const std::vector<BlockAccess>& trace, std::uint64_t blocks,
                                            std::uint32_t process) {
  const BlockRange range = blocks_of(blocks, process, random.processes);
  if (random.pattern == "trace") {
    return recorded_sequence(range, trace);
  }
  const SequenceOptions options{seed * most_processes + process, random.accesses == 0 ? range.count : random.accesses,
                                random.write_percent};
  return random.pattern == "zipfian" ? zipfian_sequence(range, random.skew, options) : uniform_sequence(range, options);
}

/// Every thread takes each of its accesses in turn. Returns how many met a wrong block.
std::uint64_t make_accesses(const AccessSequence& sequence, BlockTarget& target, ThreadTeam& team,
                            LatencyCounts& latencies, const std::function<void(std::uint64_t)>& report) {
  constexpr std::uint64_t report_every = 1024;
  std::vector<LatencyCounts> counts(team.size());
  std::atomic<std::uint64_t> wrong{0};
  team.run([&](std::uint32_t thread) {
    std::uint64_t done = 0;
    for (std::uint64_t index = thread; index < sequence.size(); index += team.size()) {
      const BlockAccess access = sequence.at(index);
      const std::uint64_t started = now_nanoseconds();
      const bool right = target.access(access, thread);
      counts[thread].add(now_nanoseconds() - started);
      wrong += right ? 0U : 1U;
      if (++done % report_every == 0) {
        report(report_every);
      }
    }
  });
  for (const LatencyCounts& count : counts) {
    latencies.add(count);
  }
  return wrong;
}

/// One process's part.
void run_part(const WorkloadOptions& options, const RandomIoOptions& random, const Backing& backing,
              const AccessSequence& sequence, const std::function<void(std::uint64_t)>& report,
              const std::function<void()>& wait_for_all, ProcessOutcome& outcome) {
  const std::unique_ptr<MemorySystem> system = MemorySystem::make(options);
  ThreadTeam team(options.threads);
  std::unique_ptr<MappedBytes> mapped;
  std::unique_ptr<BlockTarget> target;
  if (random.direct) {
    target = direct_target(backing.plain_path(), random.block_bytes, options.seed, options.threads);
  } else {
    mapped = system->map(backing, random.write_percent > 0 ? Access::read_write : Access::read_only);
    target = mapped_target(mapped->as_span<std::uint64_t>(), random.block_bytes, options.seed);
  }
  wait_for_all();
  Measurement measured(*system);
  const StopWatch working;
  outcome.wrong = make_accesses(sequence, *target, team, outcome.latencies, report);
  outcome.seconds = working.seconds();
  const StopWatch syncing;
  if (mapped != nullptr && random.write_percent > 0) {
    mapped->sync();
  }
  outcome.sync_seconds = syncing.seconds();
  measured.pause();
  if (mapped != nullptr && random.write_percent > 0) {
    mapped->save();
  }
  outcome.accesses = sequence.size();
  outcome.read_bytes = measured.read_bytes;
  outcome.written_bytes = measured.written_bytes;
  outcome.paged_in_bytes = measured.paged_in_bytes;
  outcome.paged_out_bytes = measured.paged_out_bytes;
  outcome.faults = measured.faults;
  outcome.minor_faults = measured.minor_faults;
  outcome.peak_rss_bytes = measured.peak_rss_bytes;
  outcome.user_seconds = measured.user_seconds;
  outcome.system_seconds = measured.system_seconds;
  outcome.statistics = system->statistics();
}

/// How often each block is written in all.
std::vector<std::uint32_t> count_writes(std::span<const std::unique_ptr<AccessSequence>> sequences,
                                        std::uint64_t blocks) {
  std::vector<std::uint32_t> writes(blocks);
  for (const auto& sequence : sequences) {
    for (std::uint64_t index = 0; index < sequence->size(); ++index) {
      const BlockAccess access = sequence->at(index);
      writes[access.block] += access.write ? 1U : 0U;
    }
  }
  return writes;
}

/// What each process gets of the memory.
WorkloadOptions share_of(WorkloadOptions options, std::uint32_t processes) {
  if (options.budget_bytes.has_value()) {
    options.budget_bytes = *options.budget_bytes / processes;
  }
  return options;
}

nlohmann::ordered_json add_counters(std::span<const ProcessOutcome> outcomes) {
  nlohmann::ordered_json sums;
  for (std::size_t index = 0; index < counter_count; ++index) {
    const auto counter = static_cast<Counter>(index);
    std::uint64_t sum = 0;
    for (const ProcessOutcome& outcome : outcomes) {
      sum += outcome.statistics[counter];
    }
    sums[counter_name(counter)] = sum;
  }
  return sums;
}

/// The processes' numbers in one.
void add_up(std::span<const ProcessOutcome> outcomes, Measurement& total, LatencyCounts& latencies,
            nlohmann::ordered_json& fields) {
  double access_seconds = 0;
  double sync_seconds = 0;
  std::uint64_t accesses = 0;
  for (const ProcessOutcome& outcome : outcomes) {
    access_seconds = std::max(access_seconds, outcome.seconds);
    sync_seconds = std::max(sync_seconds, outcome.sync_seconds);
    accesses += outcome.accesses;
    latencies.add(outcome.latencies);
    total.read_bytes += outcome.read_bytes;
    total.written_bytes += outcome.written_bytes;
    total.paged_in_bytes += outcome.paged_in_bytes;
    total.paged_out_bytes += outcome.paged_out_bytes;
    total.faults += outcome.faults;
    total.minor_faults += outcome.minor_faults;
    total.peak_rss_bytes += outcome.peak_rss_bytes;
    total.user_seconds += outcome.user_seconds;
    total.system_seconds += outcome.system_seconds;
  }
  total.seconds = access_seconds + sync_seconds;
  fields["access_seconds"] = access_seconds;
  fields["sync_seconds"] = sync_seconds;
  fields["counters"] = add_counters(outcomes);
  fields["accesses_per_second"] = static_cast<double>(accesses) / access_seconds;
}

void describe_latencies(const LatencyCounts& latencies, nlohmann::ordered_json& fields) {
  for (const auto& [name, share] :
       {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}}) {
    fields["latency_microseconds"][name] = static_cast<double>(latencies.quantile_nanoseconds(share)) / 1000;
  }
}

std::string remark_of(const nlohmann::ordered_json& fields) {
  const nlohmann::ordered_json& latencies = fields.at("latency_microseconds");
  return fmt::format("{:.0f} accesses a second; half took under {} us, 99 % under {} us",
                     fields.at("accesses_per_second").get<double>(), latencies.at("p50").get<double>(),
                     latencies.at("p99").get<double>());
}

void describe_options(const WorkloadOptions& options, const RandomIoOptions& random, nlohmann::ordered_json& fields) {
  fields["access"] = random.access.empty() ? "read" : random.access;
  fields["write_percent"] = random.write_percent;
  fields["pattern"] = random.pattern;
  fields["block_bytes"] = random.block_bytes;
  fields["processes"] = random.processes;
  if (options.budget_bytes.has_value()) {
    fields["budget_bytes"] = *options.budget_bytes;  // Of all processes together.
  }
  if (random.direct) {
    fields["system"] = "direct";
    fields["engine"] = "pread() and pwrite() with O_DIRECT";
  }
}

/// Starts the processes, and shows how far they are.
void work_together(const WorkloadOptions& share, const RandomIoOptions& random, const Backing& backing,
                   std::span<const std::unique_ptr<AccessSequence>> sequences, std::span<ProcessOutcome> outcomes) {
  std::uint64_t accesses = 0;
  for (const auto& sequence : sequences) {
    accesses += sequence->size();
  }
  ProgressDisplay progress("accessing", accesses);
  const auto work = [&](std::uint32_t process, const std::function<void()>& wait_for_all) {
    const auto report = [&](std::uint64_t done) {
      outcomes[process].done += done;
      if (random.processes == 1) {
        progress.add(done);
      }
    };
    run_part(share, random, backing, *sequences[process], report, wait_for_all, outcomes[process]);
  };
  run_processes(random.processes, work, [&] {
    std::uint64_t done = 0;
    for (const ProcessOutcome& outcome : outcomes) {
      done += outcome.done;
    }
    progress.set(done);
  });
}

Report measure(const WorkloadOptions& options, RandomIoOptions random) {
  check_options(options, random);
  const std::uint64_t bytes = options.bytes.value_or(default_bytes);
  const std::uint64_t blocks = bytes / random.block_bytes;
  if (blocks < random.processes || bytes % random.block_bytes != 0) {
    throw OptionError(
        fmt::format("{} is not a whole number of blocks of {}, one for each process at least: choose "
                    "more --bytes",
                    format_size(bytes), random.block));
  }
  std::vector<BlockAccess> trace;
  if (random.pattern == "trace") {
    trace = read_trace(random.trace, blocks);
    take_access_from(trace, random);
  }
  check_processes(options, random);
  const WorkloadOptions share = share_of(options, random.processes);
  const std::string url = options.file.empty() ? scratch_path(program_name, "blocks") : options.file;
  {
    const std::unique_ptr<MemorySystem> system = MemorySystem::make(share);
    system->check_url(url);
    system->check_memory_for(random.direct ? 0 : bytes * random.processes);
  }
  if (random.direct && !names_one_file(url)) {
    throw OptionError(url + " is no plain file: --direct needs one");
  }

  Backing backing = Backing::create_unfinished(url, bytes);
  backing.require_size(bytes, "--bytes");
  ThreadTeam team(std::min(options.threads, most_helpers));
  {
    ProgressDisplay progress("writing the file", bytes, ProgressDisplay::Unit::bytes);
    write_blocks(*backing.store(), random.block_bytes, options.seed, team, progress);
    backing.finish();
    backing.make_cold();
  }
  std::vector<std::unique_ptr<AccessSequence>> sequences;
  for (std::uint32_t process = 0; process < random.processes; ++process) {
    sequences.push_back(sequence_of(random, options.seed, trace, blocks, process));
  }
  const SharedMemory memory(sizeof(ProcessOutcome) * random.processes);
  const std::span outcomes(static_cast<ProcessOutcome*>(memory.data()), random.processes);
  work_together(share, random, backing, sequences, outcomes);

  Report report;
  report.workload = "random-io";
  const std::unique_ptr<MemorySystem> system = MemorySystem::make(share);
  Measurement measured(*system);
  LatencyCounts latencies;
  add_up(outcomes, measured, latencies, report.fields);
  for (const auto& sequence : sequences) {
    report.operations += sequence->size();
  }
  report.bytes = bytes;
  if (options.verify) {
    ProgressDisplay progress("checking", bytes, ProgressDisplay::Unit::bytes);
    backing.make_cold();
    report.failure = find_wrong_block(*backing.store(), random.block_bytes, options.seed,
                                      count_writes(sequences, blocks), team, progress);
    for (const ProcessOutcome& outcome : outcomes) {
      if (outcome.wrong > 0 && report.failure.empty()) {
        report.failure = fmt::format("{} accesses met another block's bytes", outcome.wrong);
      }
    }
    report.verified = report.failure.empty();
  }
  describe_latencies(latencies, report.fields);
  report.remark = remark_of(report.fields);
  describe_options(options, random, report.fields);
  if (options.keep) {
    backing.keep();
    report.fields["file"] = backing.url();
  }
  report.describe(options, *system, measured);
  return report;
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Reads and changes words of random blocks of a file, and checks that none is lost.",
                           tiermap::default_page_size);
  tiermap::RandomIoOptions random;
  tiermap::declare(program.app(), random);
  return program.run(argc, argv,
                     [&](const tiermap::WorkloadOptions& options) { return tiermap::measure(options, random); });
}
