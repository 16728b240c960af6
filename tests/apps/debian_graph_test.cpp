// tiermap-debian-graph: what counts as a relation, what is refused, and the lists of this machine if it has any.
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "apps/program_fixture.hpp"
#include "debian-graph/package_graph.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-debian-graph";

const char* const paragraphs =
    "Package: editor\n"
    "Version: 1\n"
    "Pre-Depends: dpkg (>= 1.15)\n"
    "Depends: libc6 (>= 2.34), libfoo1:any | libfoo2 [amd64],\n"
    " data (= 1), libc6 (<< 3)\n"
    "Recommends: spell | virtual-speller\n"
    "Suggests: manual <!nodoc>\n"
    "Description: Depends: not a relation\n"
    " Depends: neither is this\n"
    "\n"
    "Package: libc6\n"
    "Depends:\n"
    "\n"
    "Package: editor\n"
    "Version: 2\n"
    "Depends: libc6\n";

class DebianGraphTest : public ProgramTest {};

TEST_F(DebianGraphTest, CountsEachRelationOnceAndEveryAlternative) {
  PackageGraph graph;
  std::istringstream list(paragraphs);
  graph.add_list(list);
  EXPECT_EQ(graph.described(), 2U);
  EXPECT_EQ(graph.names(), (std::vector<std::string>{"editor", "dpkg", "libc6", "libfoo1", "libfoo2", "data", "spell",
                                                     "virtual-speller", "manual"}));
  std::ostringstream edges;
  graph.write_edges(edges);
  EXPECT_EQ(edges.str().substr(edges.str().find('\n') + 1),
            "0 1 Pre-Depends\n0 2 Depends\n0 3 Depends\n0 4 Depends\n0 5 Depends\n0 6 Recommends\n0 7 Recommends\n"
            "0 8 Suggests\n");
  std::ostringstream names;
  graph.write_names(names);
  EXPECT_EQ(names.str().substr(0, 16), "0 editor\n1 dpkg\n");
}

TEST_F(DebianGraphTest, ReportsThatCannotBeWrittenAreOne) {
  std::filesystem::create_directory(path("lists"));
  write_file("lists/mirror_Packages", paragraphs);
  const std::string words = "\"$0\" --lists \"$1\" --output \"$2\" --json >/dev/full";
  const Outcome outcome =
      run("/bin/sh", {"-c", words, TIERMAP_BINARY_FOLDER "/tiermap-debian-graph", path("lists"), path("work/edges")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("standard output cannot be written"), std::string::npos) << outcome.errors;
}

TEST_F(DebianGraphTest, WritesWhatTheSearchReads) {
  std::filesystem::create_directory(path("lists"));
  write_file("lists/mirror_Packages", paragraphs);
  write_file("lists/mirror_InRelease", "not a list");
  const std::string edges = path("work/edges");
  const Outcome made = run(program, {"--lists", path("lists"), "--output", edges, "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(made.json().at("vertices"), 9);
  EXPECT_EQ(made.json().at("edges"), 8);
  EXPECT_EQ(made.json().at("relations").at("Recommends"), 2);
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"edges", "edges.names"}));
  const Outcome searched =
      run("tiermap-bfs", {"--system", "mmap", "--input", edges, "--root", "0", "--check-in-memory", "--json"});
  ASSERT_EQ(searched.exit_code, 0) << searched.errors;
  EXPECT_EQ(searched.json().at("levels"), nlohmann::json::parse("[[1,8]]"));
}

TEST_F(DebianGraphTest, RefusesBadInput) {
  std::filesystem::create_directory(path("lists"));
  expect_refused(program, {"--lists", path("lists"), "--output", path("work/edges")}, "apt-get update");
  expect_refused(program, {"--lists", path("missing"), "--output", path("work/edges")}, "missing");
  expect_refused(program, {}, "--output");
  write_file("lists/mirror_Packages", "Package: lonely\n");
  expect_refused(program, {"--lists", path("lists"), "--output", path("work/edges")}, "no dependency");
  write_file("lists/mirror_Packages", paragraphs);
  expect_refused(program, {"--lists", path("lists"), "--output", path("missing/edges")}, "missing/edges");
  write_file("lists/other_Packages.lz4", "this is not lz4");
  expect_refused(program, {"--lists", path("lists"), "--output", path("work/edges")}, "other_Packages.lz4");
}

TEST_F(DebianGraphTest, LeavesWhatIsThereWhenItFails) {
  std::filesystem::create_directory(path("lists"));
  write_file("lists/mirror_Packages", paragraphs);
  const std::string edges = write_file("work/edges", "good");
  const auto content = [&] {
    std::ifstream stream(edges);
    return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  };
  expect_refused(program, {"--lists", path("lists"), "--output", edges, "--names", path("missing/names")},
                 "(No such file or directory)", 1);
  EXPECT_EQ(content(), "good");
  const Outcome full = run(program, {"--lists", path("lists"), "--output", edges, "--names", "/dev/full"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_NE(full.errors.find("(No space left on device)"), std::string::npos) << full.errors;
  EXPECT_EQ(content(), "good");
  EXPECT_EQ(left_behind(), std::vector<std::string>{"edges"});

  std::filesystem::create_symlink(edges, path("link"));
  const Outcome made =
      run(program, {"--lists", path("lists"), "--output", path("link"), "--names", path("work/names")});
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(content().front(), '#');
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"edges", "names"}));
}

TEST_F(DebianGraphTest, RefusesOneFileForBothOutputs) {
  std::filesystem::create_directory(path("lists"));
  write_file("lists/mirror_Packages", paragraphs);
  for (const std::string names : {"work/edges", "work/../work/./edges"}) {
    expect_refused(program, {"--lists", path("lists"), "--output", path("work/edges"), "--names", path(names)},
                   "one file: name two");
  }
}

TEST_F(DebianGraphTest, NamesTheReasonWhenListsCannotBeRead) {
  expect_refused(program, {"--lists", path("missing"), "--output", path("work/edges")}, "(No such file or directory)");
  write_file("file", "");
  expect_refused(program, {"--lists", path("file"), "--output", path("work/edges")}, "(Not a directory)");
}

TEST_F(DebianGraphTest, ReadsTheListsOfThisMachine) {
  if (find_package_lists("/var/lib/apt/lists").empty()) {
    GTEST_SKIP() << "/var/lib/apt/lists has no package lists";
  }
  const std::string edges = path("work/edges");
  const Outcome made = run(program, {"--output", edges, "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  for (const std::string system : {"tiermap", "mmap"}) {
    const Outcome searched = run("tiermap-bfs", {"--system", system, "--input", edges, "--budget", "16MiB",
                                                 "--page-size", "64KiB", "--check-in-memory", "--json"});
    ASSERT_EQ(searched.exit_code, 0) << searched.errors;
    EXPECT_EQ(searched.json().at("verified"), true);
    EXPECT_EQ(searched.json().at("vertices"), made.json().at("vertices"));
  }
}

}  // namespace
}  // namespace tiermap::test
