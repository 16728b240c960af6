// The subcommands of `tiermap`, one file each. Each function adds its subcommand to the command line and returns it;
// the callback that it sets does the work when the subcommand was chosen.
#pragma once

#include <CLI/CLI.hpp>

namespace tiermap {

/// Ends the program with this exit code, without a message.
struct ExitCode {
  int code;
};

CLI::App* add_config_command(CLI::App& program);
CLI::App* add_doctor_command(CLI::App& program);
CLI::App* add_heap_command(CLI::App& program);
CLI::App* add_replay_command(CLI::App& program);
CLI::App* add_run_command(CLI::App& program);
CLI::App* add_serve_command(CLI::App& program);
CLI::App* add_top_command(CLI::App& program);
CLI::App* add_tune_command(CLI::App& program);
CLI::App* add_version_command(CLI::App& program);
/// Not in the help: prints docs/reference.md, made from the table of options and from `program` itself.
CLI::App* add_reference_command(CLI::App& program);

}  // namespace tiermap
