// `tiermap reference`: prints docs/reference.md. A test compares the two.
#include <fmt/format.h>

#include <string>

#include "commands.hpp"
#include "config/option_table.hpp"

namespace tiermap {
namespace {

constexpr std::string_view opening = R"(# Reference: options, variables, commands

Made by `tiermap reference` from the table in `src/config/option_table.cpp` and from the command itself; do not edit it.
`TIERMAP_UPDATE_DOCS=1 build/release/bin/test-tools --gtest_filter='Reference*'` writes it anew.

## Options

Each option can be set in code, by an environment variable, and in a YAML file; code wins over environment over file
over default. [How to configure](how-to/configure.md) says more. A bad value is an error wherever it stands.

Sizes are a number and a unit: `4096`, `64KiB`, `1.5GiB`, `10MB`. `K`, `M`, `G`, `T`, `KiB`, `MiB`, `GiB`, `TiB`, `PiB`
are powers of 1024; `KB`, `MB`, `GB`, `TB`, `PB` are powers of 1000.
)";

// Strings that become one: a row of a table may not be broken.
constexpr std::string_view other_variables =
    "\n"
    "## Other variables\n"
    "\n"
    "| variable | meaning |\n"
    "|---|---|\n"
    "| `TIERMAP_CONFIG` | The YAML file of options; unset, there is none. |\n"
    "| `TIERMAP_SERVERS`, `TIERMAP_JOB`, `TIERMAP_RANK`, `TIERMAP_RANKS` | The memory servers of a "
    "[job](cluster.md#a-job-of-several-processes), its name, and, where no launcher tells them, this "
    "process's rank and how many there are. |\n"
    "| `TIERMAP_RANK_HOST` | By which host or address the other ranks of a job reach this one, where they "
    "[read together](coherence.md); unset, the address from which it reaches the first server. |\n"
    "| `TIERMAP_NODE_CACHE` | Memory that the ranks of a job on one node have together, such as `1GiB`, to "
    "[read what nobody changes](coherence.md#what-ranks-of-one-node-keep-for-each-other) from the servers once for all "
    "of them; the same for all ranks; unset, none. |\n"
    "| `TIERMAP_USER`, `TIERMAP_SECRET`, `TIERMAP_SECRET_FILE` | Who a memory server is told asks, and the "
    "secret, or the file in whose first line it stands. |\n"
    "| `TIERMAP_PARQUET_LIBRARY` | Where the [library](building.md#parquet) is that `parquet:` stores need; "
    "unset, it is looked for. |\n"
    "| `TMPDIR` | Where the scratch files of private copies and of the programs go; unset, `/var/tmp`. |\n"
    "| `TIERMAP_UPDATE_DOCS` | Set to 1, the test of this page writes the page instead of comparing it. |\n";

std::string default_of(const OptionRow& row) {
  return row.default_text.empty() ? std::string(row.computed_default) : fmt::format("`{}`", row.default_text);
}

void print_options() {
  fmt::print("{}", opening);
  for (const OptionRow& row : option_table()) {
    if (row.id == OptionId::buffer_size) {
      fmt::print("\n### Of a cache\n");
    } else if (row.id == first_region_option) {
      fmt::print("\n### Of a region\n");
    }
    fmt::print("\n#### `{}`\n\n{}\n\n", row.name, row.meaning);
    fmt::print("- Values: {}{}{}.\n", describe_range(row), row.unit.empty() ? "" : "; in ", row.unit);
    fmt::print("- Default: {}.\n", default_of(row));
    fmt::print("- Variable: `{}`. In code: `{}`.\n", row.environment, row.code);
  }
}

/// " PATH" for one word that has to be there, " [WORD...]" for what else is positional.
std::string positional(const CLI::Option& option) {
  const std::string name = option.get_name(true, false);
  return option.get_required() && option.get_items_expected_max() == 1 ? " " + name : " [" + name + "...]";
}

/// The section of a command, without those of its subcommands.
void print_arguments(const CLI::App& command, const std::string& before) {
  std::string usage = before + command.get_name();
  std::string options;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_positional() ? option->get_name(true, false) : option->get_name(false, true);
    const std::string type = option->get_positional() ? "" : option->get_type_name();
    usage += option->get_positional() ? positional(*option) : "";
    options += fmt::format("| `{}{}` | {} |\n", name, type.empty() ? "" : " " + type, option->get_description());
  }
  fmt::print("\n### `{}`\n\n{}\n\n| argument | meaning |\n|---|---|\n{}", usage, command.get_description(), options);
}

void print_command(const CLI::App& command, const std::string& before) {
  const auto subcommands = command.get_subcommands([](const CLI::App*) { return true; });
  // One that is nothing without a subcommand has no section of its own.
  if (subcommands.empty() || command.get_require_subcommand_min() == 0) {
    print_arguments(command, before);
  }
  for (const CLI::App* subcommand : subcommands) {
    print_command(*subcommand, before + command.get_name() + " ");
  }
}

}  // namespace

CLI::App* add_reference_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("reference", "Print the reference of options, variables and commands, as Markdown.");
  command->callback([&program] {
    print_options();
    fmt::print("{}", other_variables);
    fmt::print(
        "\n## The command `tiermap`\n\nExit codes: 0, all is well; 1, something failed; 2, the command line, a "
        "variable or the file of options is wrong, which one line on standard error says. `tiermap --help` lists the "
        "commands, and `tiermap --version` prints the version.\n");
    for (const CLI::App* subcommand : program.get_subcommands([](const CLI::App*) { return true; })) {
      print_command(*subcommand, "tiermap ");
    }
  });
  return command;
}

}  // namespace tiermap
