// Every program, once on each system, on input that is small enough for a sanitizer.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

struct Workload {
  std::string name;
  std::string program;
  std::vector<std::string> arguments;
};

/// Each several times larger than its budget, and verified.
const std::vector<Workload> workloads = {
    {"sort", "tiermap-sort", {"--bytes", "4MiB"}},
    {"bfs", "tiermap-bfs", {"--scale", "14", "--edge-factor", "8", "--roots", "2"}},
    {"bfs_visitors",
     "tiermap-bfs",
     {"--scale", "13", "--roots", "2", "--traversal", "visitor-queue", "--state", "mapped"}},
    {"ingest", "tiermap-ingest", {"--scale", "13"}},
    {"search_vector", "tiermap-search", {"--bytes", "4MiB", "--lookups", "300", "--structure", "vector"}},
    {"search_ordered", "tiermap-search", {"--bytes", "4MiB", "--lookups", "300", "--structure", "ordered"}},
    {"search_unordered", "tiermap-search", {"--bytes", "4MiB", "--lookups", "300", "--structure", "unordered"}},
    {"kmer_two_level", "tiermap-kmer", {"--bytes", "2MiB", "--read-count", "50", "--index", "two-level"}},
    {"kmer_hash", "tiermap-kmer", {"--bytes", "2MiB", "--read-count", "50", "--index", "hash"}},
    {"ycsb_a", "tiermap-ycsb", {"--records", "3000", "--operations", "400", "--log-limit", "64KiB"}},
    {"ycsb_e", "tiermap-ycsb", {"--workload", "e", "--index", "ordered", "--records", "3000", "--operations", "400"}},
    {"random_reads", "tiermap-random-io", {"--bytes", "4MiB", "--accesses", "400"}},
    {"random_writes", "tiermap-random-io", {"--bytes", "4MiB", "--accesses", "400", "--access", "mixed"}},
    {"kmeans", "tiermap-kmeans", {"--bytes", "4MiB", "--iterations", "3"}},
    {"dbscan", "tiermap-dbscan", {"--bytes", "600KiB", "--neighbours", "20"}},
    {"random_forest", "tiermap-random-forest", {"--bytes", "1MiB", "--trees", "2"}},
    {"random_forest_drawn", "tiermap-random-forest", {"--bytes", "300KiB", "--trees", "1", "--bagging", "drawn"}},
#ifdef TIERMAP_HAS_MEDIAN
    {"median",
     "tiermap-median",
     {"--count", "24", "--width", "211", "--height", "205", "--objects", "2", "--vectors", "2000"}},
#endif
};

const std::vector<std::vector<std::string>> systems = {
    {"--system", "tiermap", "--fault-mode", "notify"},
    {"--system", "tiermap", "--fault-mode", "self-serving"},
    {"--system", "mmap"},
    {"--system", "memory"},
};

class SmallRuns : public ProgramTest,
                  public testing::WithParamInterface<std::tuple<Workload, std::vector<std::string>>> {};

TEST_P(SmallRuns, EndRight) {
  const auto& [workload, system] = GetParam();
  std::vector<std::string> arguments = workload.arguments;
  arguments.insert(arguments.end(), system.begin(), system.end());
  for (const char* word : {"--budget", "1MiB", "--page-size", "16KiB", "--threads", "4", "--verify", "--json"}) {
    arguments.emplace_back(word);
  }
  const Outcome outcome = run(workload.program, arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.json().at("verified"), true);
  EXPECT_EQ(outcome.errors, "");
  EXPECT_TRUE(left_behind().empty());
}

INSTANTIATE_TEST_SUITE_P(Programs, SmallRuns,
                         testing::Combine(testing::ValuesIn(workloads), testing::ValuesIn(systems)),
                         [](const auto& run) {
                           std::string name = std::get<0>(run.param).name + "_" + std::get<1>(run.param).back();
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace tiermap::test
