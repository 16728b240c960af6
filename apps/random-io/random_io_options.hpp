// What tiermap-random-io is told beside the shared options.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "command_line/options.hpp"
#include "random-io/access_sequence.hpp"

namespace tiermap {

inline constexpr std::uint32_t most_processes = 256;

/// The options of this program as they are typed, and what they mean.
struct RandomIoOptions {
  std::string access;       ///< Empty: to read, or what a trace says.
  std::string write_share;  ///< Empty: 50.
  std::string pattern = "uniform";
  std::string trace;
  std::string block = "4KiB";
  std::string processes_text = "1";
  std::string accesses_text;
  std::optional<double> skew_given;
  bool direct = false;

  double skew = 0.99;
  std::uint64_t block_bytes = 0;
  std::uint32_t processes = 1;
  std::uint32_t write_percent = 0;
  std::uint64_t accesses = 0;  ///< Of each process; 0: as many as it has blocks.
};

/// Declares them on `app`.
void declare(CLI::App& app, RandomIoOptions& random);

/// Finds what they mean. Throws OptionError, one line that names the value and the remedy.
void check_options(const WorkloadOptions& options, RandomIoOptions& random);
/// What is done is what the trace does.
void take_access_from(std::span<const BlockAccess> trace, RandomIoOptions& random);
/// Once it is known whether anything is written. Throws OptionError.
void check_processes(const WorkloadOptions& options, const RandomIoOptions& random);

}  // namespace tiermap
