// tiermap-debian-graph: writes the package graph of this Debian machine as an edge list for tiermap-bfs.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "command_line/backing.hpp"
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

std::string reason(int number) {
  return std::generic_category().message(number != 0 ? number : EIO);
}

/// Written under another name, so that what is at the path stays whole until all is there to take its place. What is no
/// plain file, such as /dev/stdout, is written as it is.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (std::filesystem::is_regular_file(status)) {
      path_ = std::filesystem::canonical(path).string();  // A link stays one.
    }
    replaces_ = std::filesystem::is_regular_file(status) || !std::filesystem::exists(status);
    written_path_ = replaces_ ? fmt::format("{}.{}.part", path_, ::getpid()) : path_;
    if (replaces_) {
      remove_if_interrupted(written_path_);
    }
    errno = 0;
    file_.open(written_path_);
    if (!file_) {
      const int number = errno;
      discard();
      throw StoreError(number, fmt::format("{} cannot be written ({}): name a file in a folder you may write to", path,
                                           reason(number)));
    }
    if (std::filesystem::is_regular_file(status)) {
      std::filesystem::permissions(written_path_, status.permissions(), error);
    }
  }
  ~OutputFile() { discard(); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const std::function<void(std::ostream&)>& content) {
    errno = 0;
    content(file_);
    file_.close();
    if (!file_) {
      const int number = errno;
      throw StoreError(number, fmt::format("{} cannot be written to the end ({}): make room on its disk, or name "
                                           "another file",
                                           path_, reason(number)));
    }
  }
  void put_in_place() {
    std::error_code error;
    if (replaces_) {
      std::filesystem::rename(written_path_, path_, error);
    }
    if (error) {
      throw StoreError(error.value(),
                       fmt::format("{} cannot be replaced ({}): name another file", path_, error.message()));
    }
    keep_if_interrupted(written_path_);
    replaces_ = false;
  }

 private:
  void discard() noexcept {
    if (replaces_) {
      std::error_code ignored;
      std::filesystem::remove(written_path_, ignored);
      keep_if_interrupted(written_path_);
    }
  }

  std::string path_;
  std::string written_path_;
  bool replaces_ = false;  ///< There is a file under the other name.
  std::ofstream file_;
};

/// The two names, without links and detours, where the file system can tell.
void check_names_differ(const std::string& edges, const std::string& names) {
  std::error_code error;
  const std::filesystem::path first = std::filesystem::weakly_canonical(std::filesystem::absolute(edges), error);
  const std::filesystem::path second = std::filesystem::weakly_canonical(std::filesystem::absolute(names), error);
  if (edges == names || (!error && first == second)) {
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
  edges.write([&](std::ostream& output) { graph.write_edges(output); });
  names.write([&](std::ostream& output) { graph.write_names(output); });
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
  tiermap::remove_scratch_on_interruption(tiermap::program_name);
  return tiermap::exit_code_of(tiermap::program_name, [&] {
    tiermap::refuse_empty_values(app);
    return tiermap::run(options);
  });
}
