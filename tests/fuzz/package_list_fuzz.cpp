// Any text is a package list: what comes of it is a graph of packages it names, each relation once, in lines that the
// search reads.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <unordered_set>

#include "debian-graph/package_graph.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  tiermap::PackageGraph graph;
  for (int time = 0; time < 2; ++time) {
    std::istringstream list(text);
    const std::size_t before = graph.relations().size();
    graph.add_list(list);
    // The same list again says nothing new.
    require(time == 0 || graph.relations().size() == before);
  }
  const std::unordered_set<std::string> names(graph.names().begin(), graph.names().end());
  require(names.size() == graph.names().size() && !names.contains("") && graph.described() <= names.size());
  // A value may go on in the next line.
  std::string joined = text;
  std::erase(joined, '\n');
  for (const std::string& name : names) {
    require(joined.find(name) != std::string::npos && name.find('\n') == std::string::npos);
  }
  std::ostringstream output;
  graph.write_edges(output);
  std::istringstream lines(output.str());
  std::string line;
  std::getline(lines, line);
  require(line.starts_with("#"));
  for (const tiermap::PackageRelation& relation : graph.relations()) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    require(static_cast<bool>(lines >> from >> to >> line));
    require(from == relation.from && to == relation.to && from < names.size() && to < names.size());
  }
  return 0;
}
