// tiermap-debian-graph: writes the package graph of this Debian machine as an edge list for tiermap-bfs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "command_line/interruption.hpp"
#include "command_line/output_file.hpp"
#include "command_line/program.hpp"
#include "debian-graph/package_graph.hpp"
#include "observe/progress.hpp"
#include "tiermap/error.hpp"
#include "tiermap/version.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-debian-graph";

struct Options {
  std::string lists = "/var/lib/apt/lists";
  std::string output;
  std::string names;
  bool json = false;
};

void check_names_differ(const std::string& edges, const std::string& names) {
  if (are_one_file(edges, names)) {
    throw OptionError(fmt::format("--output {} and --names {} are one file: name two", edges, names));
  }
}

PackageGraph read_lists(const Options& options) {
  const std::vector<std::string> lists = find_package_lists(options.lists);
  std::error_code error;
  const std::filesystem::directory_iterator folder(options.lists, error);
  if (error) {
    throw StoreError(error.value(), fmt::format("{} cannot be read ({}): run apt-get update, or name a folder of apt "
                                                "package lists with --lists",
                                                options.lists, error.message()));
  }
  if (lists.empty()) {
    throw OptionError(
        fmt::format("{} has no apt package lists (..._Packages): run apt-get update, or name a folder "
                    "that has some with --lists",
                    options.lists));
  }
  PackageGraph graph;
  ProgressDisplay progress("reading package lists", lists.size());
  for (const std::string& list : lists) {
    add_list_file(graph, list);
    progress.add(1);
  }
  if (graph.relations().empty()) {
    throw OptionError(fmt::format("the package lists in {} name no dependency: run apt-get update", options.lists));
  }
  return graph;
}

void write_graph(const PackageGraph& graph, const std::string& edges_path, const std::string& names_path) {
  OutputFile edges(edges_path);
  OutputFile names(names_path);
  graph.write_edges(edges.stream());
  edges.close();
  graph.write_names(names.stream());
  names.close();
  names.put_in_place();
  edges.put_in_place();
}

int run(const Options& options) {
  const std::string names = options.names.empty() ? options.output + ".names" : options.names;
  check_names_differ(options.output, names);
  const PackageGraph graph = read_lists(options);
  write_graph(graph, options.output, names);

  std::array<std::uint64_t, relation_count> counts{};
  for (const PackageRelation& relation : graph.relations()) {
    ++counts[static_cast<std::size_t>(relation.relation)];
  }
  if (options.json) {
    nlohmann::ordered_json report = {{"workload", "debian-graph"},
                                     {"vertices", graph.names().size()},
                                     {"described", graph.described()},
                                     {"edges", graph.relations().size()}};
    for (std::size_t index = 0; index < counts.size(); ++index) {
      report["relations"][relation_name(static_cast<Relation>(index))] = counts[index];
    }
    fmt::print("{}\n", report.dump());
  } else {
    fmt::print("{} packages, {} of them described in the lists; {} relations\n", graph.names().size(),
               graph.described(), graph.relations().size());
    for (std::size_t index = 0; index < counts.size(); ++index) {
      fmt::print("  {}: {}\n", relation_name(static_cast<Relation>(index)), counts[index]);
    }
  }
  if (std::fflush(stdout) != 0) {
    throw StoreError(EIO, unwritable_output);
  }
  return 0;
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  CLI::App app("Writes the package graph of this Debian machine as an edge list for tiermap-bfs --input.",
               tiermap::program_name);
  tiermap::Options options;
  app.set_version_flag("--version", std::string(tiermap::program_name) + " " + TIERMAP_VERSION);
  app.add_option("--output", options.output, "File for the edges: package, what it asks for, how")->required();
  app.add_option("--names", options.names, "File for vertex numbers and package names (default: OUTPUT.names)");
  app.add_option("--lists", options.lists, "Folder of apt's package lists");
  app.add_flag("--json", options.json, "One JSON object on standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tiermap::exit_code_of(tiermap::program_name, app, error);
  }
  tiermap::hold_standard_streams();
  tiermap::remove_scratch_on_interruption(tiermap::program_name);
  return tiermap::exit_code_of(tiermap::program_name, [&] {
    tiermap::refuse_empty_values(app);
    return tiermap::run(options);
  });
}
