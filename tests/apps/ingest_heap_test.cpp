// tiermap-ingest --heap from outside: on Tiermap's pages, on the kernel's and in plain memory the containers hold what
// the stream gave, a heap that was kept is compared by a later process, and what is no such heap is refused.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "apps/program_fixture.hpp"
#include "platform/userfaultfd.hpp"
#include "tiermap/heap.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-ingest";

class IngestHeapTest : public ProgramTest {
 protected:
  /// Without checkpoints where they cannot be.
  nlohmann::json verified_run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--heap", "--budget", "2MiB", "--json"});
    if (!probe_userfaultfd().available) {
      arguments.insert(arguments.begin(), {"--checkpoints", "off"});
    }
    return verified_report(program, arguments);
  }
  const std::string graph_ = path("work/graph");
};

class IngestHeapSystemTest : public IngestHeapTest, public testing::WithParamInterface<std::string> {};

TEST_P(IngestHeapSystemTest, HoldsWhatTheStreamGaveWithAnyNumberOfThreads) {
  for (const char* threads : {"1", "16"}) {
    const nlohmann::json report = verified_run({"--system", GetParam(), "--scale", "13", "--threads", threads});
    expect_shared_fields(report, "ingest-heap", GetParam());
    EXPECT_EQ(report.at("operations"), 1U << 17U);
    // Four bytes a neighbour, and what a vector leaves for more.
    EXPECT_GE(report.at("asked_bytes"), 4U << 17U);
    EXPECT_LE(report.at("asked_bytes"), 12U << 17U);
    EXPECT_TRUE(left_behind().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, IngestHeapSystemTest, testing::Values("tiermap", "mmap", "memory"),
                         [](const testing::TestParamInfo<std::string>& parameter) { return parameter.param; });

TEST_F(IngestHeapTest, KeepsAHeapThatEitherSystemReads) {
  for (const char* maker : {"tiermap", "mmap"}) {
    verified_run({"--system", maker, "--scale", "12", "--file", graph_, "--keep"});
    EXPECT_TRUE(Heap::consistent(graph_));
    for (const char* reader : {"tiermap", "mmap"}) {
      const nlohmann::json report = verified_run({"--system", reader, "--scale", "12", "--file", graph_, "--check"});
      expect_shared_fields(report, "ingest-heap-check", reader);
    }
    EXPECT_TRUE(Heap::remove(graph_));
  }
}

TEST_F(IngestHeapTest, WritesDirectlyWhenAsked) {
  const nlohmann::json report = verified_run({"--scale", "14", "--checkpoints", "off"});
  // The journal would have had each page once more.
  EXPECT_LT(report.at("disk_bytes"), 2 * report.at("taken_bytes").get<std::uint64_t>());
}

TEST_F(IngestHeapTest, TakesCheckpointsWhileItInserts) {
  if (!probe_userfaultfd().available) {
    GTEST_SKIP() << "userfaultfd is refused, and heaps have no checkpoints without it";
  }
  // 2^18 edges in pieces of 65,536, so that each quarter of them is one.
  const nlohmann::json report =
      verified_run({"--scale", "14", "--threads", "3", "--checkpoint-every", "65536", "--file", graph_, "--keep"});
  EXPECT_EQ(report.at("checkpoints"), 4);
  EXPECT_GE(report.at("checkpoint_seconds"), 0);
  // With those at the end.
  EXPECT_GE(Heap::check(graph_).checkpoints, 5U);
}

TEST_F(IngestHeapTest, AnotherStreamIsToldFromTheOneInTheHeap) {
  verified_run({"--scale", "10", "--file", graph_, "--keep"});
  const Outcome outcome =
      run(program, {"--heap", "--scale", "10", "--seed", "2", "--file", graph_, "--check", "--budget", "2MiB"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find(graph_ + ": vertex "), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("neighbours"), std::string::npos) << outcome.errors;
  expect_refused(program, {"--heap", "--scale", "11", "--file", graph_, "--check"}, "--scale", 1);
  expect_refused(program, {"--heap", "--scale", "10", "--file", graph_}, "exists", 1);
}

TEST_F(IngestHeapTest, RefusesWhatCannotBeMeant) {
  const std::string list = write_file("list", "0 1\n");
  expect_refused(program, {"--heap", "--segments", "4"}, "--segments");
  expect_refused(program, {"--heap", "--file", "sparse:" + graph_}, "directory");
  expect_refused(program, {"--heap", "--system", "memory", "--keep"}, "--keep");
  expect_refused(program, {"--heap", "--checkpoints", "seldom"}, "seldom");
  expect_refused(program, {"--checkpoints", "on"}, "--heap");
  expect_refused(program, {"--checkpoint-every", "10"}, "--heap");
  expect_refused(program, {"--heap", "--checkpoint-every", "0"}, "checkpoints");
  expect_refused(program, {"--heap", "--checkpoint-every", "10", "--checkpoints", "off"}, "--checkpoint-every");
  expect_refused(program, {"--heap", "--checkpoint-every", "10", "--system", "mmap"}, "--checkpoint-every");
  expect_refused(program, {"--heap", "--check", "--file", list}, "list");
  expect_refused(program, {"--heap", "--check", "--file", path("missing")}, "missing");
  expect_refused(program, {"--heap", "--scale", "4", "--file", path("missing/graph")}, "missing");
}

TEST_F(IngestHeapTest, RefusesAHeapOfOtherThings) {
  {
    HeapOptions options;
    options.capacity_bytes = 1 << 20;
    options.budget_bytes = 1 << 20;
    options.checkpoints = false;
    Heap heap = Heap::create(graph_, options);
    heap.construct<int>("seven")(7);
    heap.close();
  }
  expect_refused(program, {"--heap", "--scale", "4", "--check", "--file", graph_}, "holds no graph", 1);
}

// Duplicates and loops, which the file leaves out, change no level.
TEST_F(IngestHeapTest, IsSearchedWhereItLiesAsTheSameGraphInAFileIs) {
  verified_run({"--scale", "12", "--seed", "5", "--file", graph_, "--keep"});
  const nlohmann::json file = verified_report(
      "tiermap-bfs", {"--scale", "12", "--seed", "5", "--directed", "--roots", "3", "--scan", "alternate", "--json"});
  std::vector<std::string> arguments = {"--heap", graph_, "--page-size", "4KiB", "--budget", "2MiB", "--json"};
  for (const auto& root : file.at("roots")) {
    arguments.insert(arguments.end(), {"--root", std::to_string(root.get<std::uint64_t>())});
  }
  for (const char* system : {"tiermap", "mmap"}) {
    std::vector<std::string> with_system = arguments;
    with_system.insert(with_system.end(), {"--system", system, "--threads", "3"});
    const nlohmann::json heap = verified_report("tiermap-bfs", with_system);
    expect_shared_fields(heap, "bfs-heap", system);
    EXPECT_EQ(heap.at("levels"), file.at("levels"));
  }
  EXPECT_EQ(verified_report("tiermap-bfs", {"--heap", graph_, "--page-size", "4KiB", "--json"}).at("roots").size(), 4);
}

TEST_F(IngestHeapTest, SearchesRefuseWhatCannotBeMeant) {
  expect_refused("tiermap-bfs", {"--heap", graph_}, "graph");
  expect_refused("tiermap-bfs", {"--heap", graph_, "--scale", "4"}, "--scale");
  expect_refused("tiermap-bfs", {"--heap", graph_, "--direction", "bottom-up"}, "top-down");
  expect_refused("tiermap-bfs", {"--heap", graph_, "--undirected"}, "--undirected");
  expect_refused("tiermap-bfs", {"--heap", graph_, "--system", "memory"}, "where it lies");
}

TEST_F(IngestHeapTest, AHeapHasItsNameOnceItIsFilled) {
  const std::vector<std::string> making = {"--heap", "--scale", "18", "--budget", "4MiB", "--file", graph_};
  const pid_t child = start(program, making);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (left_behind().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(graph_ + ".partial"));
  EXPECT_FALSE(std::filesystem::exists(graph_));
  expect_refused(program, making, ".partial is there: a run that was killed has left it", 1);
}

TEST_F(IngestHeapTest, LeavesNothingWhenInterrupted) {
  const pid_t child = start(program, {"--heap", "--scale", "18", "--budget", "4MiB", "--file", graph_});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (left_behind().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(left_behind().empty());
  ASSERT_EQ(::kill(child, SIGTERM), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
  EXPECT_TRUE(left_behind().empty());
}

}  // namespace
}  // namespace tiermap::test
