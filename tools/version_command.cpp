// `tiermap version`: which version this is.
#include <fmt/format.h>

#include "commands.hpp"
#include "tiermap/version.hpp"

namespace tiermap {

CLI::App* add_version_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("version", "Print the version.");
  command->callback([] { fmt::print("tiermap {}\n", TIERMAP_VERSION); });
  return command;
}

}  // namespace tiermap
