// tiermap-ingest from outside: on every system, in files and in directories of segments, with any number of threads the
// lists hold what the stream gave; what is damaged or cannot be meant is refused and leaves nothing behind.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/program_fixture.hpp"
#include "ingest/adjacency_file.hpp"
#include "parallel/random.hpp"
#include "platform/memory_limits.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-ingest";

class IngestTest : public ProgramTest {
 protected:
  nlohmann::json verified_run(std::vector<std::string> arguments) const {
    // Less than most of the files here have.
    arguments.insert(arguments.end(), {"--budget", "2MiB", "--json"});
    const nlohmann::json report = verified_report(program, arguments);
    EXPECT_GT(report.value("edges_per_second", 0.0), 0);
    return report;
  }
  /// The lists of scale 10, kept in work/graph.
  std::string kept_graph() const {
    const std::string graph = path("work/graph");
    EXPECT_EQ(verified_run({"--scale", "10", "--file", graph, "--keep"}).value("file", ""), graph);
    return graph;
  }
  std::uint64_t segment_files() const {
    std::uint64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path("work/graph"))) {
      count += entry.path().filename().string().starts_with("segment-") ? 1U : 0U;
    }
    return count;
  }
};

class IngestSystemTest : public IngestTest, public testing::WithParamInterface<std::string> {};

TEST_P(IngestSystemTest, HoldsWhatTheStreamGaveWithAnyNumberOfThreads) {
  for (const char* threads : {"1", "2", "7", "16"}) {
    const nlohmann::json report =
        verified_run({"--system", GetParam(), "--scale", "14", "--threads", threads, "--page-size", "16KiB"});
    expect_shared_fields(report, "ingest", GetParam());
    EXPECT_EQ(report.at("vertices"), 1U << 14U);
    EXPECT_EQ(report.at("operations"), 1U << 18U);
    EXPECT_TRUE(left_behind().empty());
  }
}

TEST_P(IngestSystemTest, ReadsAnEdgeListAndAMatrix) {
  // Duplicates and loops are kept; what follows two numbers is not looked at.
  const std::string list = write_file("list", "# a list\n0 1\n0 1 again\n3 3\n\n2,0\r\n");
  nlohmann::json report = verified_run({"--system", GetParam(), "--input", list, "--threads", "3"});
  EXPECT_EQ(report.at("vertices"), 4);
  EXPECT_EQ(report.at("edges"), 4);
  EXPECT_EQ(report.at("blocks"), 3);
  const std::string matrix = write_file("matrix",
                                        "%%MatrixMarket matrix coordinate pattern symmetric\n"
                                        "4 4 3\n2 1\n3 1\n4 4\n");
  report = verified_run({"--system", GetParam(), "--input", matrix});
  EXPECT_EQ(report.at("edges"), 5);
}

TEST_P(IngestSystemTest, KeepsListsAndComparesThemAgain) {
  const std::string graph = path("work/graph");
  const std::vector<std::string> stream = {"--scale", "12", "--edge-factor", "5", "--seed", "9"};
  std::vector<std::string> arguments = {"--system", GetParam(), "--file", graph};
  arguments.insert(arguments.end(), stream.begin(), stream.end());
  arguments.emplace_back("--keep");
  EXPECT_EQ(verified_run(arguments).value("file", ""), graph);
  EXPECT_EQ(left_behind(), std::vector<std::string>{"graph"});
  arguments.back() = "--check";
  const nlohmann::json report = verified_run(arguments);
  expect_shared_fields(report, "ingest-check", GetParam());
  EXPECT_EQ(report.at("edges"), 5U << 12U);
  EXPECT_EQ(left_behind(), std::vector<std::string>{"graph"});
}

INSTANTIATE_TEST_SUITE_P(All, IngestSystemTest, testing::Values("tiermap", "mmap", "memory"),
                         [](const testing::TestParamInfo<std::string>& parameter) { return parameter.param; });

TEST_F(IngestTest, WorksWithPagesOfEverySizeAndInEveryFaultMode) {
  for (const char* mode : {"auto", "notify", "self-serving", "kernel"}) {
    if (run(program, {"--fault-mode", mode, "--scale", "1"}).exit_code == 2) {
      continue;  // Refused by the machine.
    }
    struct {
      const char* page;
      const char* scale;
    } const cases[] = {{"4KiB", "14"}, {"32KiB", "14"}, {"128KiB", "11"}};
    for (const auto& [page, scale] : cases) {
      verified_run({"--scale", scale, "--page-size", page, "--threads", "8", "--fault-mode", mode});
    }
  }
}

TEST_F(IngestTest, MakesSparseStoresOfAsManySegmentsAsAsked) {
  const std::string url = "sparse:" + path("work/graph");
  struct {
    std::uint64_t segments;
    const char* page;
  } const cases[] = {{1, "64KiB"}, {32, "4KiB"}, {32, "64KiB"}, {1024, "16KiB"}};
  for (const auto& [segments, page] : cases) {
    const nlohmann::json report = verified_run({"--scale", "14", "--file", url, "--segments", std::to_string(segments),
                                                "--page-size", page, "--threads", "4", "--keep"});
    ASSERT_FALSE(report.empty());
    const auto bytes = report.at("bytes").get<std::uint64_t>();
    const auto segment = report.at("segment_bytes").get<std::uint64_t>();
    const auto made = report.at("segments").get<std::uint64_t>();
    EXPECT_EQ(segment % 4096, 0U);
    EXPECT_LE(made, segments);
    EXPECT_GE(made * segment, bytes);
    EXPECT_TRUE(segment == 4096 || made * 10 > segments * 9) << made;
    // A segment to which nothing was written has no file.
    EXPECT_LE(segment_files(), made);
    EXPECT_GE(segment_files(), made / 2);
    verified_run({"--scale", "14", "--file", url, "--check"});
    std::filesystem::remove_all(path("work/graph"));
  }
}

TEST_F(IngestTest, MakesListsInStoresOfEveryKind) {
  const std::string folder = path("work/graph");
  for (const std::string& url : {"sparse:" + folder, "sparse:" + folder + "?segment=64KiB&direct=off",
                                 "file:" + folder + "?direct=off", "file:" + folder, std::string("memory:64MiB")}) {
    verified_run({"--scale", "12", "--file", url});
    EXPECT_TRUE(left_behind().empty()) << url;
  }
  verified_run({"--scale", "12", "--segments", "32"});
  verified_run({"--scale", "12", "--segments", "32", "--system", "memory"});
  verified_run({"--scale", "12", "--segments", "32", "--file", "sparse:" + folder + "?direct=off"});
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(IngestTest, SeveralThreadsInsertWhatOneFileGives) {
  constexpr std::uint64_t seed = 12;
  std::string text;
  for (std::uint64_t index = 0; index < 3 * EdgeSource::piece_edges + 5; ++index) {
    // One list is long, the others are not.
    text += index % 3 == 0 ? std::string("7") : std::to_string(random_word(seed, index) % 5000);
    text += " " + std::to_string(random_word(~seed, index) % 5000) + "\n";
  }
  const std::string input = write_file("edges", text);
  for (const char* threads : {"1", "4"}) {
    const nlohmann::json report = verified_run({"--input", input, "--threads", threads});
    EXPECT_EQ(report.at("edges"), 3 * EdgeSource::piece_edges + 5);
  }
}

TEST_F(IngestTest, BytesChooseTheScale) {
  const nlohmann::json report = verified_run({"--bytes", "4MiB", "--edge-factor", "4"});
  EXPECT_LE(report.at("bytes"), 4U << 20U);
  EXPECT_GE(report.at("bytes"), 1U << 20U);
}

TEST_F(IngestTest, AnotherStreamIsToldFromTheOneInTheFile) {
  const std::string graph = kept_graph();
  const Outcome outcome = run(program, {"--scale", "10", "--seed", "2", "--file", graph, "--check", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find(graph + ": vertex "), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("neighbours"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.json().at("verified"), false);
  expect_refused(program, {"--scale", "11", "--file", graph, "--check"}, "--scale", 1);
  expect_refused(program, {"--scale", "10", "--edge-factor", "4", "--file", graph, "--check"}, "--edge-factor", 1);
}

TEST_F(IngestTest, RefusesFilesThatAreNotWhole) {
  const std::string graph = kept_graph();
  const std::string sound = path("sound");
  std::filesystem::copy_file(graph, sound);
  const auto refuse = [&](const std::string& part) {
    for (const char* system : {"tiermap", "mmap", "memory"}) {
      expect_refused(program, {"--system", system, "--scale", "10", "--budget", "4MiB", "--file", graph, "--check"},
                     part, 1);
    }
    std::filesystem::copy_file(sound, graph, std::filesystem::copy_options::overwrite_existing);
  };
  std::filesystem::resize_file(graph, std::filesystem::file_size(graph) - 1);
  refuse("cut off");
  std::filesystem::resize_file(graph, 4095);
  refuse("too short");
  change_byte(graph, 0);
  refuse("no adjacency lists");
  change_byte(graph, 8);
  refuse("version 2");
  for (const std::uint64_t at : {12U, 16U, 24U, 32U, 40U, 48U, 56U, 64U, 72U, 136U}) {
    change_byte(graph, at);
    refuse("damaged header");
  }
  // Past the header nothing is refused, and what is wrong is found. The first vertex's degree; a neighbour in a block.
  for (const std::uint64_t at : {std::uint64_t{4096}, (std::uint64_t{64} << 10U) + 17}) {
    change_byte(graph, at);
    const Outcome outcome = run(program, {"--scale", "10", "--file", graph, "--check"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find(graph + ": "), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find("make it again"), std::string::npos) << outcome.errors;
    std::filesystem::copy_file(sound, graph, std::filesystem::copy_options::overwrite_existing);
  }
}

TEST_F(IngestTest, ASparseStoreThatLostASegmentIsFoundOut) {
  const std::string url = "sparse:" + path("work/graph");
  verified_run({"--scale", "12", "--segments", "32", "--file", url, "--keep"});
  ASSERT_TRUE(std::filesystem::remove(path("work/graph/segment-0000000016")));
  EXPECT_EQ(run(program, {"--scale", "12", "--file", url, "--check"}).exit_code, 1);
  ASSERT_TRUE(std::filesystem::remove(path("work/graph/segment-0000000000")));
  expect_refused(program, {"--scale", "12", "--file", url, "--check"}, "no adjacency lists", 1);
}

TEST_F(IngestTest, RefusesWhatCannotBeMeant) {
  const std::string list = write_file("list", "0 1\n1\n");
  const std::string graph = path("graph");
  const std::string url = "sparse:" + graph;
  expect_refused(program, {"--scale", "0"}, "scale 0");
  expect_refused(program, {"--scale", "32"}, "31");
  expect_refused(program, {"--edge-factor", "0"}, "edge factor 0");
  expect_refused(program, {"--scale", "4", "--input", list}, "choose one");
  expect_refused(program, {"--edge-factor", "4", "--input", list}, "--edge-factor makes edges");
  expect_refused(program, {"--bytes", "1MiB", "--input", list}, "--bytes chooses");
  expect_refused(program, {"--bytes", "1MiB", "--scale", "4"}, "--bytes chooses");
  expect_refused(program, {"--input", list}, "list:2:");
  expect_refused(program, {"--input", path("missing")}, "missing");
  expect_refused(program, {"--input", path("work")}, "plain file");
  expect_refused(program, {"--segments", "0"}, "segments 0");
  expect_refused(program, {"--segments", "many"}, "many");
  expect_refused(program, {"--segments", "32", "--file", graph}, "--segments");
  expect_refused(program, {"--segments", "32", "--file", "memory:1GiB"}, "--segments");
  expect_refused(program, {"--segments", "32", "--file", url + "?segment=1MiB"}, "choose one");
  expect_refused(program, {"--segments", "32", "--system", "mmap"}, "--system tiermap");
  expect_refused(program, {"--scale", "8", "--file", url, "--system", "mmap"}, "--system tiermap");
  expect_refused(program, {"--scale", "8", "--file", url + "?segment=5KiB"}, "segment");
  expect_refused(program, {"--scale", "8", "--file", "memory:64KiB"}, "larger");
  expect_refused(program, {"--scale", "8", "--file", list}, "exists");
  expect_refused(program, {"--scale", "8", "--file", path("missing/graph")}, "missing");
  expect_refused(program, {"--check"}, "--file");
  expect_refused(program, {"--check", "--file", list, "--segments", "4"}, "--segments");
  expect_refused(program, {"--check", "--file", list, "--no-verify"}, "choose one");
  expect_refused(program, {"--check", "--file", list}, "too short");
  expect_refused(program, {"--check", "--file", path("missing")}, "missing");
  expect_refused(program, {"--check", "--file", "memory:1MiB"}, "no adjacency lists");
}

TEST_F(IngestTest, RefusesALinkThatLeadsNowhereBeforeAnythingIsMade) {
  std::filesystem::create_symlink(path("missing/graph"), path("work/graph"));
  for (const char* const more : {"--keep", "--heap"}) {
    expect_refused(program, {"--scale", "10", "--file", path("work/graph"), "--budget", "4MiB", more}, "leads nowhere",
                   1);
  }
}

TEST_F(IngestTest, RefusesGraphsThatNeedMoreMemoryThanThereIs) {
  if (read_machine_memory().usable_bytes() < std::uint64_t{60} << 30U) {
    expect_refused(program, {"--input", write_file("edges", "0 4294967293\n")}, "edges: 4294967294 vertices need");
  }
}

TEST_F(IngestTest, LeavesNothingWhenInterrupted) {
  for (const std::string& file : {path("work/graph"), "sparse:" + path("work/graph")}) {
    const pid_t child = start(program, {"--scale", "18", "--budget", "4MiB", "--page-size", "4KiB", "--file", file});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (left_behind().empty() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(left_behind().empty());
    ASSERT_EQ(::kill(child, SIGTERM), 0);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
    EXPECT_TRUE(left_behind().empty()) << file;
  }
}

// What SIGKILL leaves has no name of its own, and no header yet.
TEST_F(IngestTest, WhatWasCutShortIsRefused) {
  const std::string file = path("work/graph");
  const std::string graph = file + ".partial";
  const std::vector<std::string> making = {"--scale", "18", "--budget", "4MiB", "--page-size", "4KiB", "--file", file};
  const pid_t child = start(program, making);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto size = [&] { return std::filesystem::exists(graph) ? std::filesystem::file_size(graph) : 0; };
  while (size() == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGKILL);
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"graph.partial"}));
  expect_refused(program, making, "graph.partial is there: a run that was killed has left it", 1);
  expect_refused(program, {"--scale", "18", "--file", graph, "--check"}, "cut short", 1);
}

}  // namespace
}  // namespace tiermap::test
