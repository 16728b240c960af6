// `tiermap doctor`: what this machine offers, and what to do about what is missing.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "doctor/finding.hpp"
#include "doctor/tier_measurement.hpp"

namespace tiermap {

std::string describe_error(int error_number) {
  const char* name = ::strerrorname_np(error_number);
  return fmt::format("{} ({})", name == nullptr ? std::to_string(error_number) : name, std::strerror(error_number));
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

namespace {

const char* state_name(Finding::State state) {
  switch (state) {
    case Finding::State::good:
      return "ok";
    case Finding::State::limited:
      return "limited";
    case Finding::State::missing:
      break;
  }
  return "missing";
}

bool is_good(const Findings& findings, std::string_view name) {
  return std::ranges::any_of(
      findings, [&](const Finding& finding) { return finding.name == name && finding.state == Finding::State::good; });
}

/// The fault modes that can be asked for here.
std::vector<std::string> working_modes(const Findings& findings) {
  std::vector<std::string> modes;
  if (!is_good(findings, "page size")) {
    return modes;
  }
  if (is_good(findings, "feature PAGEFAULT_FLAG_WP")) {
    if (is_good(findings, "feature SIGBUS")) {
      modes.push_back("self-serving");
    }
    modes.push_back("notify");
  }
  // Where no directory could be tried, mmap is taken to work, as it does on all but a few file systems.
  const bool tried = std::ranges::any_of(findings, [](const Finding& finding) { return finding.name == "mmap"; });
  if (!tried || is_good(findings, "mmap")) {
    modes.push_back("kernel");
  }
  return modes;
}

void print_json(const Findings& findings, const std::vector<std::string>& modes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"section", finding.section},
                    {"name", finding.name},
                    {"state", state_name(finding.state)},
                    {"value", finding.value},
                    {"remedy", finding.remedy}});
  }
  const nlohmann::ordered_json report = {{"usable", !modes.empty()}, {"fault_modes", modes}, {"findings", list}};
  fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const Findings& findings, const std::vector<std::string>& modes) {
  std::size_t name_width = 0;
  for (const Finding& finding : findings) {
    name_width = std::max(name_width, finding.name.size());
  }
  std::string section;
  for (const Finding& finding : findings) {
    if (finding.section != section) {
      section = finding.section;
      fmt::print("{}\n", section);
    }
    fmt::print("  {:7}  {:{}}  {}\n", state_name(finding.state), finding.name, name_width, finding.value);
    if (!finding.remedy.empty()) {
      fmt::print("           {:{}}  -> {}\n", "", name_width, finding.remedy);
    }
  }
  if (modes.empty()) {
    fmt::print("Nothing works here: see what is missing above.\n");
  } else {
    const bool limited =
        std::ranges::any_of(findings, [](const Finding& finding) { return finding.name == system_call_faults; });
    fmt::print("Fault modes that work here: {}{}.\n", fmt::join(modes, ", "),
               limited ? " (with the first two, system calls get EFAULT for pages that are not there yet)" : "");
  }
}

void print_tiers(const std::vector<std::string>& places, const std::vector<std::string>& costs) {
  const std::uint64_t block = TieringOptions().block_bytes;
  std::vector<TierOptions> tiers = tiers_at(places);
  set_costs(tiers, costs);  // Before the seconds that measuring takes.
  measure_tiers(tiers, block);
  fmt::print("{}", tiers_as_yaml(tiers, block));
}

void examine(const std::vector<std::string>& directories, bool json) {
  Findings findings;
  const auto append = [&](Findings more) { std::ranges::move(more, std::back_inserter(findings)); };
  append(examine_userfaultfd());
  append(examine_kernel());
  append(examine_limits());
  for (const std::string& directory : directories.empty() ? std::vector<std::string>{"."} : directories) {
    append(examine_directory(directory));
  }
  const std::vector<std::string> modes = working_modes(findings);
  json ? print_json(findings, modes) : print_text(findings, modes);
  if (modes.empty()) {
    throw ExitCode{1};
  }
}

}  // namespace

CLI::App* add_doctor_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "doctor",
      "Show what this machine offers to Tiermap, and what to do about what is missing; fails if nothing works.");
  const auto directories = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  const auto tiers = std::make_shared<bool>(false);
  command->add_option("DIR", *directories,
                      "Directories that are to hold data, which must be there; the current one if none is named.");
  command->add_flag("--json", *json, "Print one JSON object instead of text.");
  command
      ->add_flag("--tiers", *tiers,
                 "Measure DRAM and the directories instead, and memory servers that are named as remote://HOST:PORT, "
                 "and print a file of tiers (docs/tiers.md) that gives them half of what is free, and DRAM a quarter.")
      ->excludes("--json");
  const auto costs = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("--cost", *costs,
                   "PLACE=COST, once a place: what a gigabyte costs of `memory`, or of one of the places as it is "
                   "named, in any currency. It is written into the file, and what the tiers cost beside it.")
      ->type_name("PLACE=COST")
      ->allow_extra_args(false)
      ->needs("--tiers");
  command->callback([directories, json, tiers, costs] {
    if (*tiers) {
      print_tiers(*directories, *costs);
    } else {
      examine(*directories, *json);
    }
  });
  return command;
}

}  // namespace tiermap
