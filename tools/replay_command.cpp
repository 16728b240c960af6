// `tiermap replay`: what every eviction policy would have missed on a recorded trace.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cache/policy/make_policy.hpp"
#include "commands.hpp"
#include "config/size.hpp"
#include "replay/recorded_trace.hpp"
#include "replay/simulation.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

using simulation::RecordedTrace;

/// Pages that the engine unmaps at a time while nobody waits.
constexpr std::uint32_t batch = 16;
constexpr std::uint32_t least_capacity = 2;
constexpr const char* hit_seeing_lru = "true lru";

struct ReplayOptions {
  std::vector<std::string> traces;
  std::vector<std::string> budgets{"10%", "25%", "50%", "75%"};
  std::vector<std::string> policies;
  std::string page_size;
  bool json = false;
  bool accesses = false;
  bool drop = false;
};

/// One line of the table: misses of Belady's optimum, of LRU that sees hits, and of each policy.
struct Row {
  std::uint64_t budget_bytes = 0;
  std::uint32_t capacity = 0;
  std::vector<std::uint64_t> misses;
};

std::uint64_t page_size_of(const ReplayOptions& options) {
  if (options.page_size.empty()) {
    return 0;
  }
  const std::uint64_t bytes = parse_size(options.page_size, "page size");
  if (!std::has_single_bit(bytes)) {
    throw OptionError("page size " + quote_value(options.page_size) + " is not a power of two: choose one");
  }
  return bytes;
}

Row replay_at(const RecordedTrace& recorded, const ReplayOptions& options, const std::string& budget) {
  Row row;
  row.budget_bytes = parse_budget(budget, "budget", recorded.trace.pages * recorded.page_bytes);
  const std::uint64_t least = least_capacity * recorded.page_bytes;
  if (row.budget_bytes < least && !budget.ends_with('%')) {
    throw OptionError(fmt::format("budget {} is under two pages of {}: give at least {}", quote_value(budget),
                                  format_size(recorded.page_bytes), format_size(least)));
  }
  // Where all pages fit, more memory changes nothing.
  row.capacity = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      row.budget_bytes / recorded.page_bytes, least_capacity, std::max(recorded.trace.pages, least_capacity)));
  row.misses = {simulation::optimal_misses(recorded.trace, row.capacity),
                simulation::lru_misses(recorded.trace, row.capacity)};
  for (const std::string& policy : options.policies) {
    row.misses.push_back(
        simulation::run_policy(recorded.trace, policy, row.capacity, {}, batch, {.all = !options.drop}).misses);
  }
  return row;
}

std::vector<std::string> columns_of(const ReplayOptions& options) {
  std::vector<std::string> columns{"optimum", hit_seeing_lru};
  columns.insert(columns.end(), options.policies.begin(), options.policies.end());
  return columns;
}

void print_text(const RecordedTrace& recorded, const std::vector<Row>& rows, const ReplayOptions& options) {
  const std::uint64_t accesses = recorded.trace.accesses();
  fmt::print("{}: {} accesses to {} pages of {} ({}) in {} region{}; recorded with {}, {}\n", recorded.trace.name,
             accesses, recorded.trace.pages, format_size(recorded.page_bytes),
             format_size_rounded(recorded.trace.pages * recorded.page_bytes), recorded.regions,
             recorded.regions == 1 ? "" : "s", format_size_rounded(recorded.budget_bytes), recorded.policy);
  fmt::print("misses in percent of these accesses\n{:>10} {:>8}", "MEMORY", "PAGES");
  for (const std::string& column : columns_of(options)) {
    fmt::print(" {:>{}}", column, std::max<std::size_t>(column.size(), 8));
  }
  fmt::print("\n");
  bool near = false;
  for (const Row& row : rows) {
    fmt::print("{:>10} {:>8}", format_size_rounded(row.budget_bytes), row.capacity);
    std::size_t index = 0;
    for (const std::string& column : columns_of(options)) {
      fmt::print(" {:>{}.2f}", 100.0 * static_cast<double>(row.misses[index++]) / static_cast<double>(accesses),
                 std::max<std::size_t>(column.size(), 8));
    }
    fmt::print("\n");
    near = near || row.budget_bytes < 4 * recorded.budget_bytes;
  }
  if (near) {
    fmt::print(
        "Hits in the {} that it was recorded with are not in the trace: budgets under some four times that show\n"
        "too few. Record with less memory to see them.\n",
        format_size_rounded(recorded.budget_bytes));
  }
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const RecordedTrace& recorded, const std::vector<Row>& rows,
                               const ReplayOptions& options) {
  nlohmann::ordered_json budgets = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json misses;
    std::size_t index = 0;
    for (const std::string& column : columns_of(options)) {
      misses[column] = row.misses[index++];
    }
    budgets.push_back({{"budget_bytes", row.budget_bytes}, {"pages", row.capacity}, {"misses", misses}});
  }
  return {{"trace", recorded.trace.name},
          {"accesses", recorded.trace.accesses()},
          {"recorded_accesses", recorded.recorded_accesses},
          {"pages", recorded.trace.pages},
          {"page_bytes", recorded.page_bytes},
          {"regions", recorded.regions},
          {"recorded_budget_bytes", recorded.budget_bytes},
          {"recorded_policy", recorded.policy},
          {"lost", recorded.lost},
          {"complete", recorded.complete},
          {"budgets", budgets}};
}

void complain_of(const RecordedTrace& recorded) {
  if (recorded.lost > 0) {
    fmt::print(stderr, "tiermap: {}: {} records are missing, which came faster than the file took them\n",
               recorded.trace.name, recorded.lost);
  }
  if (!recorded.complete) {
    fmt::print(stderr, "tiermap: {} has no end: its program was killed, or the disk was full; what is there counts\n",
               recorded.trace.name);
  }
}

void replay(const ReplayOptions& options) {
  const std::uint64_t page_bytes = page_size_of(options);
  nlohmann::ordered_json reports = nlohmann::ordered_json::array();
  for (const std::string& path : options.traces) {
    if (options.accesses) {
      simulation::print_accesses(path, page_bytes, [](const std::string& line) { fmt::print("{}\n", line); });
      continue;
    }
    const RecordedTrace recorded = simulation::read_recorded_trace(path, page_bytes);
    complain_of(recorded);
    std::vector<Row> rows;
    for (const std::string& budget : options.budgets) {
      rows.push_back(replay_at(recorded, options, budget));
    }
    if (options.json) {
      reports.push_back(to_json(recorded, rows, options));
    } else {
      print_text(recorded, rows, options);
    }
  }
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"traces", reports}}.dump(2, ' ', false,
                                                                        nlohmann::json::error_handler_t::replace));
  }
}

void check_options(ReplayOptions& options) {
  if (options.accesses && options.json) {
    throw OptionError("--accesses prints lines for tiermap-random-io, and --json an object: leave out one of them");
  }
  if (options.policies.empty()) {
    options.policies.assign(policy_names().begin(), policy_names().end());
  }
  for (const std::string& policy : options.policies) {
    // Throws what it throws for a cache.
    make_eviction_policy(policy, {.max_frames = least_capacity, .capacity_units = least_capacity});
  }
}

}  // namespace

CLI::App* add_replay_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "replay", "Replay traces that TIERMAP_TRACE recorded: misses of every eviction policy, and of Belady's optimum.");
  const auto options = std::make_shared<ReplayOptions>();
  command->add_option("TRACE", options->traces, "Traces, each replayed by itself.")->required();
  command
      ->add_option("--budget", options->budgets,
                   "Memory to replay with, sizes or shares of the pages accessed: 64MiB,25%; 10%,25%,50%,75% if not "
                   "given.")
      ->type_name("SIZES")
      ->delimiter(',')
      ->default_str("");
  command->add_option("--policies", options->policies, "Policies to compare; all if not given.")
      ->type_name("NAMES")
      ->delimiter(',');
  command
      ->add_option("--page-size", options->page_size,
                   "Pages to replay with, at least the largest that was recorded, which is the default.")
      ->type_name("SIZE");
  command->add_flag("--drop", options->drop,
                    "Drop what is to go, but for one page in 64, as the engine mostly does with pages up to 16 KiB.");
  command->add_flag("--json", options->json, "Print one JSON object instead of tables.");
  command->add_flag("--accesses", options->accesses,
                    "Print the accesses instead, a line each, as tiermap-random-io --trace reads them.");
  command->callback([options] {
    check_options(*options);
    replay(*options);
  });
  return command;
}

}  // namespace tiermap
