// A rank and a memory server on each of two nodes, which are network namespaces: by the one command that the
// documentation names.
#include <unistd.h>

#include <cstdlib>

#include "ranks/ranked_program_fixture.hpp"

namespace tiermap::test {
namespace {

class TwoNodesRanksTest : public RankedProgramTest {
 protected:
  TwoNodesRanksTest() {
    set_environment("TWO_NODES_NAME", name_);
    set_environment("TWO_NODES_MEMORY", "32MiB");
    set_environment("PATH", std::string(TIERMAP_BINARY_FOLDER) + ":/usr/sbin:/usr/bin:/sbin:/bin");
  }
  Outcome two_nodes(const std::vector<std::string>& arguments) const {
    return run(std::string(TIERMAP_SOURCE_FOLDER) + "/scripts/two_nodes.sh", arguments);
  }
  /// "" if nodes can be made.
  std::string why_not() const {
    if (mpiexec().empty()) {
      return "mpich is not installed";
    }
    const bool made = two_nodes({"up"}).exit_code == 0;
    two_nodes({"down"});
    return made ? "" : "network namespaces cannot be made here: root and iproute2 are needed";
  }

  const std::string name_ = "tiermap-ranks-" + std::to_string(::getpid());
};

TEST_F(TwoNodesRanksTest, KMeansRunsOverBoth) {
  if (const std::string reason = why_not(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  ASSERT_EQ(run("tiermap-kmeans", {"generate", "--bytes", "600000", "--file", path("points")}).exit_code, 0);
  const Outcome alone = run("tiermap-kmeans", {path("points"), "--assignments", path("one"), "--json"});
  const Outcome both = two_nodes({"run", "tiermap-kmeans", path("points"), "--assignments", path("two"), "--budget",
                                  "16MiB", "--threads", "1", "--json"});
  ASSERT_EQ(both.exit_code, 0) << both.errors;
  EXPECT_EQ(both.json().at("ranks"), 2);
  EXPECT_EQ(both.json().at("verified"), true);
  EXPECT_EQ(both.json().at("centroids"), alone.json().at("centroids"));
  EXPECT_EQ(bytes_of(path("two")), bytes_of(path("one")));
  EXPECT_FALSE(std::filesystem::exists("/run/netns/" + name_ + "-1"));
}

TEST_F(TwoNodesRanksTest, PointsLieOnBothNodesServers) {
  if (const std::string reason = why_not(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  ASSERT_EQ(run("tiermap-kmeans", {"generate", "--bytes", "3MB", "--file", path("points")}).exit_code, 0);
  const Outcome alone = run("tiermap-kmeans", {path("points"), "--json"});
  // The first rank loads them, and the other one begins when it has.
  const std::string script =
      "points=remote://$TIERMAP_SERVERS/points?layout=striped\n"
      "if [ $PMI_RANK = 0 ]; then tiermap serve load " +
      path("points") +
      " $points && touch loaded; fi\n"
      "for turn in $(seq 200); do [ -e loaded ] || sleep 0.05; done\n"
      "exec tiermap-kmeans $points --budget 16MiB --threads 1 --json";
  const Outcome both = two_nodes({"run", "sh", "-c", "cd " + path("") + "\n" + script});
  ASSERT_EQ(both.exit_code, 0) << both.errors;
  EXPECT_EQ(both.json().at("verified"), true);
  EXPECT_EQ(both.json().at("centroids"), alone.json().at("centroids"));
  EXPECT_GT(both.json().at("counters").at("read_bytes"), 0);
}

TEST_F(TwoNodesRanksTest, WhatFailsLeavesNoNodes) {
  if (const std::string reason = why_not(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const Outcome outcome = two_nodes({"run", "tiermap-kmeans", path("missing")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_FALSE(std::filesystem::exists("/run/netns/" + name_ + "-1"));
  EXPECT_EQ(two_nodes({"run"}).exit_code, 2);
}

TEST_F(TwoNodesRanksTest, NodesThatAreUpAreLeftAlone) {
  if (const std::string reason = why_not(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  ASSERT_EQ(two_nodes({"up"}).exit_code, 0);
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"run", "true"}, {"up"}}) {
    const Outcome outcome = two_nodes(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find("is up already"), std::string::npos) << outcome.errors;
    EXPECT_TRUE(std::filesystem::exists("/run/netns/" + name_ + "-1"));
    EXPECT_TRUE(std::filesystem::exists("/run/netns/" + name_ + "-2"));
  }
  EXPECT_EQ(two_nodes({"down"}).exit_code, 0);
}

}  // namespace
}  // namespace tiermap::test
