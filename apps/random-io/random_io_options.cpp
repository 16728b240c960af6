#include "random-io/random_io_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command_line/backing.hpp"
#include "config/size.hpp"
#include "random-io/block_target.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::uint32_t write_percent_of(const RandomIoOptions& random) {
  if (random.access == "read" || random.access.empty()) {
    return 0;
  }
  if (random.access == "write") {
    return 100;
  }
  if (random.access == "mixed") {
    constexpr std::uint32_t half = 50;
    return random.write_share.empty()
               ? half
               : static_cast<std::uint32_t>(parse_whole_number(random.write_share, "write share", 0, 100));
  }
  throw OptionError("access " + random.access + " is unknown: choose read, write or mixed");
}

/// Whether what is opened can be used by the processes that are made then.
bool is_shared_by_processes(const std::string& url) {
  return !path_of_store(url).empty() || url.starts_with("hdf5:");
}

}  // namespace

void declare(CLI::App& app, RandomIoOptions& random) {
  app.add_option("--access", random.access, "What is done: read (default), write or mixed");
  app.add_option("--write-share", random.write_share, "How many of a hundred mixed accesses write (default: 50)");
  app.add_option("--pattern", random.pattern,
                 "Which blocks: uniform (each once, in random order), zipfian, or trace (see --trace)");
  app.add_option("--skew", random.skew_given, "Exponent of --pattern zipfian, above 0 and under 1 (default: 0.99)");
  app.add_option("--trace", random.trace, "File with a line for each access, such as 'r 12' or 'w 12': replays it");
  app.add_option("--block", random.block, "A word of so many bytes is touched, a multiple of 4KiB (default: 4KiB)");
  app.add_option("--accesses", random.accesses_text, "Accesses of each process (default: as many as it has blocks)");
  app.add_option("--processes", random.processes_text,
                 "Processes, each with --threads threads, blocks of its own, and its share of --budget (default: 1)");
  app.add_flag("--direct", random.direct,
               "Read and write blocks with O_DIRECT in place of mapped memory, and of any --system: what the "
               "device can do");
}

void take_access_from(std::span<const BlockAccess> trace, RandomIoOptions& random) {
  const auto writes = static_cast<std::uint64_t>(
      std::count_if(trace.begin(), trace.end(), [](const BlockAccess& access) { return access.write; }));
  random.access = writes == 0 ? "read" : writes == trace.size() ? "write" : "mixed";
  // Rounded up: a single write needs a mapping that may be written.
  random.write_percent = static_cast<std::uint32_t>((writes * 100 + trace.size() - 1) / trace.size());
}

void check_options(const WorkloadOptions& options, RandomIoOptions& random) {
  random.write_percent = write_percent_of(random);
  random.block_bytes = parse_size(random.block, "block");
  if (random.block_bytes < least_block_bytes || random.block_bytes % least_block_bytes != 0) {
    throw OptionError("block " + random.block + " does not do: choose a multiple of 4KiB");
  }
  random.processes =
      static_cast<std::uint32_t>(parse_whole_number(random.processes_text, "processes", 1, most_processes));
  if (!random.accesses_text.empty()) {
    random.accesses = parse_whole_number(random.accesses_text, "accesses", 1, std::uint64_t{1} << 40U);
  }
  if (random.pattern != "uniform" && random.pattern != "zipfian" && random.pattern != "trace") {
    throw OptionError("pattern " + random.pattern + " is unknown: choose uniform, zipfian or trace");
  }
  if ((random.pattern == "trace") == random.trace.empty()) {
    throw OptionError("--pattern trace and --trace FILE go together: give both or neither");
  }
  if (!random.trace.empty() && !(random.access.empty() && random.accesses_text.empty())) {
    throw OptionError("a trace says itself what is read and written, and how often: leave out --access and --accesses");
  }
  if (!random.write_share.empty() && random.access != "mixed") {
    throw OptionError("--write-share says how many of mixed accesses write: give --access mixed too, or leave it out");
  }
  if (random.skew_given.has_value() && random.pattern != "zipfian") {
    throw OptionError("--skew says how often the popular blocks come: give --pattern zipfian too, or leave it out");
  }
  random.skew = random.skew_given.value_or(random.skew);
  if (!(random.skew > 0 && random.skew < 1)) {
    throw OptionError(fmt::format("skew {} is not above 0 and under 1: choose for example 0.99", random.skew));
  }
  if (random.processes > 1 && !options.budget_bytes.has_value()) {
    throw OptionError("several processes share the memory: say with --budget how much they have together");
  }
  if (backing_exists(options.file)) {
    throw OptionError(options.file + " exists, and would be overwritten: name a new file");
  }
}

void check_processes(const WorkloadOptions& options, const RandomIoOptions& random) {
  if (random.processes > 1 && options.system == System::memory && !random.direct && random.write_percent > 0) {
    throw OptionError("processes that keep the file in memory do not see each other's writes: use one, or only read");
  }
  if (random.processes > 1 && !options.file.empty() && !is_shared_by_processes(options.file)) {
    throw OptionError(options.file +
                      " is there for the process alone that opens it: name a file or a sparse: directory, or use one "
                      "process");
  }
}

}  // namespace tiermap
