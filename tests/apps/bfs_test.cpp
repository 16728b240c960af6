// tiermap-bfs from outside: every system, direction and thread count gives a verified tree with the same levels; graphs
// from text; what is damaged, cut off or malformed is refused with one line and leaves nothing behind.
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/program_fixture.hpp"
#include "platform/memory_limits.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-bfs";

class BfsTest : public ProgramTest {
 protected:
  nlohmann::json search(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--budget", "16MiB", "--check-in-memory", "--json"});
    const Outcome outcome = run(program, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    return outcome.exit_code == 0 ? outcome.json() : nlohmann::json::object();
  }
  /// Overwrites one byte of a file, or appends it.
  void set_byte(const std::string& file, std::uint64_t at, char value) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(value);
  }
};
class BfsSystemTest : public BfsTest, public testing::WithParamInterface<std::string> {};

TEST_P(BfsSystemTest, GivesTheSameLevelsInEveryWay) {
  nlohmann::json levels;
  for (const char* threads : {"1", "2", "5", "8"}) {
    for (const char* direction : {"top-down", "bottom-up", "auto"}) {
      for (const std::vector<std::string>& way :
           {std::vector<std::string>{"--prefetch", "on", "--scan", "alternate"}, {"--prefetch", "off"}}) {
        std::vector<std::string> arguments = {"--system", GetParam(),    "--scale", "12",          "--threads",
                                              threads,    "--direction", direction, "--page-size", "64KiB"};
        arguments.insert(arguments.end(), way.begin(), way.end());
        const nlohmann::json report = search(arguments);
        ASSERT_FALSE(report.empty());
        expect_shared_fields(report, "bfs", GetParam());
        EXPECT_EQ(report.at("verified"), true);
        EXPECT_EQ(report.at("vertices"), 4096);
        EXPECT_EQ(report.at("input_edges"), 16 * 4096);
        EXPECT_EQ(report.at("levels").size(), 4U);
        EXPECT_GT(report.at("teps").get<double>(), 0);
        EXPECT_TRUE(levels.is_null() || levels == report.at("levels"));
        levels = report.at("levels");
        EXPECT_TRUE(left_behind().empty());
      }
    }
  }
}

TEST_P(BfsSystemTest, GivesTheSameLevelsByVisitors) {
  const std::string graph = path("work/graph");
  ASSERT_EQ(run(program, {"--scale", "14", "--graph", graph, "--build-only"}).exit_code, 0);
  const nlohmann::json levels = search({"--system", GetParam(), "--graph", graph}).at("levels");
  for (const std::string state : {"memory", "mapped"}) {
    for (const char* threads : {"1", "3", "16"}) {
      for (const char* prefetch : {"on", "off"}) {
        const nlohmann::json report =
            search({"--system", GetParam(), "--graph", graph, "--threads", threads, "--traversal", "visitor-queue",
                    "--state", state, "--prefetch", prefetch, "--page-size", "16KiB"});
        ASSERT_FALSE(report.empty());
        EXPECT_EQ(report.at("verified"), true);
        EXPECT_EQ(report.at("levels"), levels);
        EXPECT_GE(report.at("arcs_looked_at"), 2 * report.at("operations").get<std::uint64_t>());
        EXPECT_EQ(report.at("mapped_state_bytes").get<std::uint64_t>() > 0, state == "mapped");
        EXPECT_EQ(left_behind(), std::vector<std::string>{"graph"});
      }
    }
  }
}

TEST_P(BfsSystemTest, BuildsAGraphSeveralTimesItsBudget) {
  // 32 MiB of arcs to sort in a budget of 8 MiB.
  const Outcome outcome = run(program, {"--system", GetParam(), "--scale", "17", "--budget", "8MiB", "--page-size",
                                        "64KiB", "--roots", "2", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.json().at("verified"), true);
  EXPECT_TRUE(left_behind().empty());
}

TEST_P(BfsSystemTest, KeepsAGraphAndSearchesItAgain) {
  const std::string graph = path("work/graph");
  const Outcome built =
      run(program, {"--system", GetParam(), "--scale", "10", "--graph", graph, "--build-only", "--json"});
  ASSERT_EQ(built.exit_code, 0) << built.errors;
  EXPECT_EQ(built.json().at("workload"), "bfs-build");
  EXPECT_EQ(left_behind(), std::vector<std::string>{"graph"});
  for (const char* option : {"--graph", "--file"}) {
    const nlohmann::json report = search({"--system", GetParam(), option, graph, "--warm"});
    EXPECT_EQ(report.at("edges"), built.json().at("edges"));
    EXPECT_EQ(left_behind(), std::vector<std::string>{"graph"});
  }
}

INSTANTIATE_TEST_SUITE_P(All, BfsSystemTest, testing::Values("tiermap", "mmap", "memory"),
                         [](const testing::TestParamInfo<std::string>& parameter) { return parameter.param; });

TEST_F(BfsTest, TheSeedDecidesTheGraphAndThreadsDoNot) {
  std::vector<std::string> files;
  for (const std::string threads : {"1", "7"}) {
    const std::string graph = path("work/graph" + threads);
    ASSERT_EQ(
        run(program, {"--system", "mmap", "--scale", "11", "--graph", graph, "--build-only", "--threads", threads})
            .exit_code,
        0);
    std::ifstream stream(graph, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  EXPECT_EQ(files[0], files[1]);
  const nlohmann::json other = search({"--system", "mmap", "--scale", "11", "--seed", "2"});
  EXPECT_NE(other.at("edges"), 0);
  EXPECT_NE(other.at("levels"), search({"--system", "mmap", "--graph", path("work/graph1")}).at("levels"));
}

TEST_F(BfsTest, AGraphWhoseEdgesGoOtherWaysThanAskedIsRefused) {
  const auto make = [&](const char* directions) {
    const std::string graph = path(std::string("work/graph") + directions);
    EXPECT_EQ(
        run(program, {"--system", "mmap", "--scale", "6", "--graph", graph, "--build-only", directions}).exit_code, 0);
    return graph;
  };
  const std::string both_ways = make("--undirected");
  const std::string one_way = make("--directed");
  for (const std::string& graph : {both_ways, one_way}) {
    const bool undirected = graph == both_ways;
    expect_refused(program, {"--system", "mmap", "--graph", graph, undirected ? "--directed" : "--undirected"},
                   undirected ? "both ways" : "one way", 2);
    EXPECT_EQ(search({"--system", "mmap", "--graph", graph}).at("undirected"), undirected);
    EXPECT_EQ(
        search({"--system", "mmap", "--graph", graph, undirected ? "--undirected" : "--directed"}).at("undirected"),
        undirected);
  }
}

// A detour is found first: vertices are reached, and queued, once more at a lower level, and by one edge at a time.
TEST_F(BfsTest, VisitorsCorrectLevels) {
  constexpr int length = 3000;
  std::string edges;
  for (int vertex = 0; vertex + 1 < length; ++vertex) {
    edges += std::to_string(vertex) + " " + std::to_string(vertex + 1) + "\n";
    if (vertex % 3 == 0) {
      edges += std::to_string(vertex) + " " + std::to_string(std::min(length - 1, vertex + 1500)) + "\n";
    }
  }
  const std::string input = write_file("edges", edges);
  for (const char* state : {"memory", "mapped"}) {
    const nlohmann::json report = search({"--input", input, "--directed", "--root", "0", "--traversal", "visitor-queue",
                                          "--state", state, "--threads", "3", "--page-size", "4KiB"});
    EXPECT_EQ(report.at("verified"), true);
    EXPECT_EQ(report.at("levels"), search({"--input", input, "--directed", "--root", "0"}).at("levels"));
  }
}

// Nothing has the graph's name before it is one, and whoever begins again is told what is in the way.
TEST_F(BfsTest, AGraphWhoseMakingWasKilledIsNotThere) {
  const std::string graph = path("work/graph");
  const std::vector<std::string> making = {"--scale", "20", "--graph", graph, "--build-only"};
  const pid_t child = start(program, making);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(graph + ".arcs") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGKILL);
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"graph.arcs", "graph.partial"}));
  expect_refused(program, making, "graph.arcs is there: a run that was killed has left it", 2);
  std::filesystem::remove(graph + ".arcs");
  expect_refused(program, making, "graph.partial is there: a run that was killed has left it", 1);
}

TEST_F(BfsTest, ReadsAnEdgeList) {
  const std::string input = write_file("edges",
                                       "# a path, a branch and an island\n"
                                       "0 1\n1\t2 Depends\n\n% another comment\n  2 3 0.5\r\n1,4\n6 5\n2 2\n0 1\n");
  for (const std::string system : {"tiermap", "mmap", "memory"}) {
    const nlohmann::json report = search({"--system", system, "--input", input, "--root", "0"});
    EXPECT_EQ(report.at("vertices"), 7);
    EXPECT_EQ(report.at("input_edges"), 7);
    EXPECT_EQ(report.at("edges"), 5);  // Neither the loop nor the duplicate.
    EXPECT_EQ(report.at("levels"), nlohmann::json::parse("[[1,1,2,1]]"));
    EXPECT_EQ(report.at("operations"), 4);
  }
  const nlohmann::json directed = search({"--system", "mmap", "--input", input, "--directed", "--root", "1"});
  EXPECT_EQ(directed.at("levels"), nlohmann::json::parse("[[1,2,1]]"));
  EXPECT_EQ(directed.at("undirected"), false);
}

TEST_F(BfsTest, ReadsMatrixMarket) {
  const std::string general = write_file("general",
                                         "%%MatrixMarket matrix coordinate real general\n% made by hand\n5 5 3\n"
                                         "1 2 0.5\n2 3 -1e9\n3 4 7\n");
  EXPECT_EQ(search({"--system", "mmap", "--input", general, "--root", "0", "--directed"}).at("levels"),
            nlohmann::json::parse("[[1,1,1,1]]"));
  EXPECT_EQ(search({"--system", "mmap", "--input", general, "--root", "3"}).at("vertices"), 5);
  const std::string symmetric =
      write_file("symmetric", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 2\n3 3\n");
  // A symmetric matrix says each pair once and means it both ways, also where edges go one way.
  EXPECT_EQ(search({"--system", "mmap", "--input", symmetric, "--root", "0", "--directed"}).at("levels"),
            nlohmann::json::parse("[[1,1,1]]"));
  EXPECT_EQ(search({"--system", "mmap", "--input", symmetric, "--root", "0"}).at("edges"), 2);
}

TEST_F(BfsTest, RefusesMalformedTextByFileAndLine) {
  const auto refuse = [&](const std::string& text, const std::string& part) {
    expect_refused(program, {"--input", write_file("edges", text)}, part);
  };
  refuse("0 1\nhello\n", "edges:2:");
  refuse("0 1\n1\n", "edges:2:");
  refuse("0 1\n\n# fine\n1 -2\n", "edges:4:");
  refuse("1.5 2\n", "edges:1:");
  refuse("0 99999999999999999999999\n", "edges:1:");
  refuse("0 4294967294\n", "4294967293");
  refuse("", "no edge");
  refuse("# nothing\n", "no edge");
  refuse("%%MatrixMarket matrix array real general\n2 2\n1\n", "coordinate");
  refuse("%%MatrixMarket matrix coordinate quaternion general\n2 2 1\n1 1\n", "kind of entry");
  refuse("%%MatrixMarket matrix coordinate real lopsided\n2 2 1\n1 1\n", "symmetry");
  refuse("%%MatrixMarket matrix coordinate real general\n", "ends too early");
  refuse("%%MatrixMarket matrix coordinate real general\n2 2\n", "edges:2:");
  refuse("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1\n", "square");
  refuse("%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1\n", "edges:3:");
  refuse("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3\n", "edges:3:");
  refuse("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 2\n", "1 of 3");
  refuse("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2\n2 1\n", "2 of 1");
  refuse("5 5\n", "edges has no edge that joins");
  expect_refused(program, {"--input", path("missing")}, "missing");
  expect_refused(program, {"--input", path("work")}, "plain file");
}

TEST_F(BfsTest, RefusesBadOptions) {
  expect_refused(program, {"--scale", "0"}, "scale 0");
  expect_refused(program, {"--scale", "40"}, "31");
  expect_refused(program, {"--scale", "4", "--edge-factor", "0"}, "edge factor 0");
  expect_refused(program, {"--input", "edges", "--edge-factor", "2"}, "choose one of them");
  expect_refused(program, {"--input", "edges", "--bytes", "1MiB"}, "choose one of them");
  expect_refused(program, {"--scale", "4", "--bytes", "1MiB"}, "choose one of them");
  expect_refused(program, {"--heap", "heap", "--bytes", "1MiB"}, "leave out");
  expect_refused(program, {"--scale", "4", "--roots", "0"}, "roots 0");
  expect_refused(program, {"--scale", "4", "--root", "16"}, "root 16");
  expect_refused(program, {"--scale", "4", "--root", "1", "--roots", "4"}, "--root names them");
  expect_refused(program, {"--scale", "4", "--direction", "up"}, "bottom-up");
  expect_refused(program, {"--scale", "4", "--direction", "auto", "--directed"}, "--directed");
  expect_refused(program, {"--scale", "4", "--input", "x"}, "choose one");
  expect_refused(program, {"--scale", "4", "--build-only"}, "--graph");
  expect_refused(program, {"--graph", "a", "--file", "b"}, "choose one");
  expect_refused(program, {"--scale", "4", "--scan", "sideways"}, "ascending");
  expect_refused(program, {"--scale", "4", "--traversal", "fast"}, "visitor-queue");
  expect_refused(program, {"--scale", "4", "--state", "disk"}, "mapped");
  expect_refused(program, {"--scale", "4", "--state", "mapped"}, "--traversal visitor-queue");
  expect_refused(program, {"--scale", "4", "--traversal", "visitor-queue", "--direction", "auto"}, "--direction");
  expect_refused(program, {"--scale", "4", "--traversal", "visitor-queue", "--scan", "alternate"}, "--scan");
  expect_refused(program, {"--scale", "4", "--lookahead", "far"}, "far");
  expect_refused(program, {"--scale", "4", "--graph", path("missing/graph")}, "missing");
}

// The graph would not fit on any disk: only what is refused before it is made gives these messages.
TEST_F(BfsTest, RefusesBadOptionsBeforeMakingAGraph) {
  const auto refuse = [&](std::vector<std::string> arguments, const std::string& part) {
    arguments.insert(arguments.end(), {"--scale", "16", "--edge-factor", "1024", "--graph", path("missing/graph")});
    expect_refused(program, arguments, part);
  };
  refuse({"--roots", "0"}, "roots 0");
  refuse({"--root", "x"}, "root x");
  refuse({"--root", "65536"}, "root 65536");
  refuse({"--lookahead", "foo"}, "lookahead");
  refuse({"--read-ahead", "2GiB"}, "read ahead");
  expect_refused(program, {"--scale", "10", "--system", "mmap", "--graph", "sparse://" + path("missing/graph")},
                 "--system tiermap");
}

TEST_F(BfsTest, RefusesGraphsThatNeedMoreMemoryThanThereIs) {
  // For the vertices alone there is room: with the budget, which is half of it, and the check there is not.
  const std::uint64_t usable = read_machine_memory().usable_bytes();
  const std::uint64_t vertex = std::min<std::uint64_t>(usable / 5, 4294967293);
  const std::string input = write_file("edges", "0 " + std::to_string(vertex) + "\n1 2\n");
  if (vertex * 17 / 2 + usable / 4 > usable) {
    expect_refused(program, {"--input", input}, "smaller --budget or --no-verify");
    expect_refused(program, {"--input", input}, input + ": " + std::to_string(vertex + 1) + " vertices need");
  }
  if (vertex * 17 / 4 + usable / 2 > usable + usable / 8) {
    expect_refused(program, {"--input", input, "--no-verify"}, "smaller --budget");
  }
  if (vertex * 40 > usable + usable / 8) {
    expect_refused(program, {"--input", input, "--system", "mmap", "--no-verify", "--check-in-memory"},
                   "smaller graph");
  }
  // A budget larger than the file is never used up.
  const std::string budget = std::to_string(usable * 2);
  const Outcome outcome = run(program, {"--scale", "8", "--budget", budget});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST_F(BfsTest, MakesGraphsInStoresThatAreNoPlainPath) {
  for (const std::string& url : {std::string("memory:64MiB"), "file:" + path("work/graph") + "?direct=off"}) {
    EXPECT_EQ(search({"--scale", "10", "--file", url}).value("verified", false), true) << url;
    EXPECT_TRUE(left_behind().empty()) << url;
  }
}

TEST_F(BfsTest, SaysThatItMakesAGraphNobodyAskedFor) {
  const std::string graph = path("work/graph");
  const std::vector<std::string> arguments = {"--system", "mmap",    "--graph", graph,        "--edge-factor",
                                              "1",        "--roots", "1",       "--no-verify"};
  const Outcome made = run(program, arguments);
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(made.error_lines(), 1U) << made.errors;
  EXPECT_NE(made.errors.find(graph + " is not there: making an R-MAT graph of scale 20"), std::string::npos)
      << made.errors;
  const Outcome searched = run(program, arguments);
  EXPECT_EQ(searched.exit_code, 0);
  EXPECT_EQ(searched.errors, "");
  expect_refused(program, {"--graph", graph, "--edge-factor", "2"},
                 "was made from 1048576 edges between 1048576 vertices, and --edge-factor 2 asks for others", 1);
}

TEST_F(BfsTest, AGraphOfAnotherSizeThanAskedIsRefused) {
  const std::string graph = path("work/graph");
  const nlohmann::json made = search({"--system", "mmap", "--graph", graph, "--bytes", "1MiB"});
  EXPECT_EQ(search({"--system", "mmap", "--graph", graph, "--bytes", "1MiB"}).at("edges"), made.at("edges"));
  expect_refused(program, {"--system", "mmap", "--graph", graph, "--bytes", "1GiB"},
                 graph + " has 4096 vertices, and --bytes 1GiB asks for a graph of scale", 1);
}

TEST_F(BfsTest, AGraphThatIsMadeOutlastsTheSearchesThatWereInterrupted) {
  const std::string graph = path("work/graph");
  const pid_t child = start(
      program, {"--scale", "14", "--graph", graph, "--roots", "1024", "--budget", "16MiB", "--page-size", "64KiB"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((!std::filesystem::exists(graph) || std::filesystem::exists(graph + ".arcs")) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // Into the searches.
  EXPECT_EQ(::kill(child, SIGTERM), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
  EXPECT_EQ(left_behind(), std::vector<std::string>{"graph"});
  EXPECT_EQ(search({"--graph", graph}).value("verified", false), true);
}

// Graph and arcs have room on the disk each, but not both: seen when the graph is written.
TEST_F(BfsTest, AFullDiskIsToldOfWithARemedy) {
  const std::string disk = path("disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=10m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
  }
  const Outcome outcome =
      run(program, {"--scale", "15", "--graph", disk + "/graph", "--build-only", "--budget", "64MiB"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("graph.partial cannot be written at byte"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("No space left on device): make room there, or name a file elsewhere"),
            std::string::npos)
      << outcome.errors;
  EXPECT_TRUE(std::filesystem::is_empty(disk));
  ::umount(disk.c_str());
}

TEST_F(BfsTest, RefusesDamagedGraphFiles) {
  const std::string graph = path("work/graph");
  ASSERT_EQ(run(program, {"--system", "mmap", "--scale", "8", "--graph", graph, "--build-only"}).exit_code, 0);
  const std::string sound = path("sound");
  std::filesystem::copy_file(graph, sound);
  const auto refuse = [&](const std::string& part) {
    for (const char* system : {"mmap", "memory"}) {
      expect_refused(program, {"--system", system, "--graph", graph}, part, 1);
    }
    std::filesystem::copy_file(sound, graph, std::filesystem::copy_options::overwrite_existing);
  };
  expect_refused(program, {"--scale", "8", "--graph", graph}, "exists", 1);
  expect_refused(program, {"--build-only", "--graph", graph}, "exists", 1);
  std::filesystem::resize_file(graph, std::filesystem::file_size(graph) - 1);
  refuse("cut off");
  std::filesystem::resize_file(graph, 100);
  refuse("too short");
  set_byte(graph, 0, 'X');
  refuse("not a graph");
  set_byte(graph, 8, 2);
  refuse("version 2");
  set_byte(graph, 16, 77);
  refuse("damaged header");
  set_byte(graph, 4096 + 5, 1);  // The first offset becomes enormous.
  refuse("work/graph is damaged at vertex");
  // Two bytes from the end: the last neighbour of all becomes a vertex that does not exist.
  set_byte(graph, std::filesystem::file_size(sound) - 1, 1);
  refuse("work/graph is damaged at vertex");
}

TEST_F(BfsTest, SaysOfTheFirstSearchThatWentWrongFromWhichRoot) {
  const std::string graph = path("work/graph");
  const std::string edges = write_file("edges", "0 1\n1 2\n2 3\n3 4\n4 5\n");
  ASSERT_EQ(run(program, {"--input", edges, "--graph", graph, "--build-only"}).exit_code, 0);
  constexpr std::uint64_t neighbours_at = 8192;
  set_byte(graph, neighbours_at + 9 * sizeof(std::uint32_t), 0);  // The edge from 5 leads to 0, not to 4.
  const Outcome outcome = run(program, {"--graph", graph, "--root", "0", "--root", "1", "--root", "2"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.errors,
            "tiermap-bfs: from root 0: rule 3: an edge joins vertex 5 at level 5 and vertex 0 at level 0\n");
}

}  // namespace
}  // namespace tiermap::test
