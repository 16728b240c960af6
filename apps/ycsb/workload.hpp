// The core workloads of YCSB (Cooper and others, "Benchmarking cloud serving systems with YCSB", SoCC 2010): which
// operation on which record, by position, so that a run can be repeated whatever its threads did in which order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "parallel/zipfian.hpp"

namespace tiermap {

enum class OperationKind : std::uint8_t { read, update, insert, scan, read_modify_write };
constexpr std::array<const char*, 5> operation_names = {"read", "update", "insert", "scan", "read_modify_write"};

/// How records are chosen.
enum class Distribution : std::uint8_t {
  uniform,
  zipfian,  ///< Few records often, scattered over all of them.
  latest,   ///< The later it was inserted the more often, by the same curve.
};

/// One operation.
struct Operation {
  OperationKind kind;
  std::uint64_t record;       ///< Among all; for an insert nothing.
  std::uint64_t scan_length;  ///< Records to be scanned.
};

/// What is done in one run. at() is thread-safe.
class Workload {
 public:
  struct Options {
    std::string letter = "a";                  ///< a to f.
    std::optional<Distribution> distribution;  ///< Nothing: that of the workload.
    std::uint64_t operations = 0;
    std::uint64_t longest_scan = 100;
    std::uint64_t seed = 1;
  };

  /// Of a database with so many records. Throws OptionError for an unknown letter.
  Workload(const Options& options, std::uint64_t records);

  std::uint64_t operations() const noexcept { return options_.operations; }
  Distribution distribution() const noexcept { return distribution_; }
  /// How many of its operations are inserts: goes through all.
  std::uint64_t count_inserts() const noexcept;
  /// Whether any operation is of this kind.
  bool has(OperationKind kind) const noexcept { return percent_[static_cast<std::size_t>(kind)] > 0; }
  /// `records` is how many there are by now, at least as many as at the beginning.
  Operation at(std::uint64_t index, std::uint64_t records) const noexcept;

 private:
  OperationKind kind_at(std::uint64_t index) const noexcept;

  Options options_;
  std::uint64_t records_;
  std::array<std::uint32_t, operation_names.size()> percent_{};  ///< Of each kind.
  Distribution distribution_ = Distribution::zipfian;
  Zipfian ranks_;
};

/// Throws OptionError for an unknown name.
Distribution parse_distribution(const std::string& name);
const char* distribution_name(Distribution distribution) noexcept;

}  // namespace tiermap
