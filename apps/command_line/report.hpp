// What a run prints: one JSON object for machines, or a few lines for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "command_line/memory_system.hpp"
#include "command_line/options.hpp"
#include "command_line/process_usage.hpp"
#include "command_line/ranks.hpp"

namespace tiermap {

/// Seconds since it was made.
class StopWatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// What the measured part of a run took: time, bytes, faults, memory.
class Measurement {
 public:
  /// Begins here; the peak of resident memory is counted from here on.
  explicit Measurement(const MemorySystem& system);
  /// Adds what happened since it began, or was resumed.
  void pause();
  void resume();

  double seconds = 0;
  double user_seconds = 0;
  double system_seconds = 0;
  std::uint64_t read_bytes = 0;  ///< From disks, as the kernel counts.
  std::uint64_t written_bytes = 0;
  std::uint64_t paged_in_bytes = 0;  ///< tiermap: what regions read from their stores, whatever those are; others: 0.
  std::uint64_t paged_out_bytes = 0;
  std::uint64_t faults = 0;  ///< tiermap: accesses to absent pages; others: major faults.
  std::uint64_t minor_faults = 0;
  std::uint64_t peak_rss_bytes = 0;

 private:
  const MemorySystem& system_;
  StopWatch watch_;
  ProcessUsage usage_;
  Statistics statistics_;
};

/// One run's outcome.
struct Report {
  std::string workload;
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  std::optional<bool> verified;   ///< Nothing if it was not checked.
  std::string failure;            ///< What was wrong, one line, if it was.
  std::string remark;             ///< What people are told beside the shared numbers, one line; may be empty.
  nlohmann::ordered_json fields;  ///< The shared fields, then the workload's own.

  /// Fills in the shared fields.
  void describe(const WorkloadOptions& options, const MemorySystem& system, const Measurement& measured);
  /// After describe(), by all ranks, each with what is its own: from then on it is the resources of all, and right if
  /// each found it so. Seconds and memory are those of the rank that took most. Nothing of one alone.
  void combine(Ranks& ranks);
  /// The same for people, in a few lines.
  std::string summary() const;
};

}  // namespace tiermap
