// `tiermap config`: every option as environment and file leave it, and where its value came from.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "config/misspelt_variables.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"

namespace tiermap {
namespace {

/// A variable that nothing reads is often a misspelt one.
void warn_of_unknown_variables() {
  std::vector<std::string_view> known = known_variables();
  known.emplace_back("TIERMAP_UPDATE_DOCS");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    // What `tiermap run` tells its library.
    const bool of_run = variable.starts_with("TIERMAP_RUN_");
    if (variable.starts_with("TIERMAP_") && !of_run && std::ranges::count(known, variable) == 0) {
      std::fputs(
          fmt::format("tiermap: {} is set, but no option has that name: correct or unset it\n", variable).c_str(),
          stderr);
    }
  }
}

/// A share of memory is shown with what it means now.
std::string shown_value(const OptionReport& report) {
  if (report.number && report.value.ends_with('%') && report.name == "buffer_size") {
    return fmt::format("{} = {}", report.value, format_size_rounded(*report.number));
  }
  return report.value;
}

void print_json(const std::vector<OptionReport>& reports) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const OptionReport& report : reports) {
    nlohmann::ordered_json option = {{"name", report.name},
                                     {"environment", report.environment},
                                     {"value", report.value},
                                     {"origin", report.origin},
                                     {"meaning", report.meaning}};
    if (report.number) {
      option["number"] = *report.number;
    }
    options.push_back(std::move(option));
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"options", options}}.dump(2, ' ', false,
                                                                       nlohmann::json::error_handler_t::replace));
}

void print_table(const std::vector<OptionReport>& reports) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  std::size_t variable_width = 0;
  for (const OptionReport& report : reports) {
    name_width = std::max(name_width, report.name.size());
    value_width = std::max(value_width, shown_value(report).size());
    variable_width = std::max(variable_width, report.environment.size());
  }
  fmt::print("{:{}}  {:{}}  {:{}}  {}\n", "OPTION", name_width, "VALUE", value_width, "VARIABLE", variable_width,
             "FROM");
  for (const OptionReport& report : reports) {
    fmt::print("{:{}}  {:{}}  {:{}}  {}\n", report.name, name_width, shown_value(report), value_width,
               report.environment, variable_width, report.origin);
  }
}

}  // namespace

CLI::App* add_config_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("config",
                                             "Show each option's value and where it came from: a variable, the file "
                                             "that TIERMAP_CONFIG names, or the default.");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object instead of a table.");
  command->callback([json] {
    const std::vector<OptionReport> reports = report_options();
    warn_of_unknown_variables();
    *json ? print_json(reports) : print_table(reports);
  });
  return command;
}

}  // namespace tiermap
