// Programs whose data lies on a memory server: they make it there, work on it, and leave it there or not.
#include <nlohmann/json.hpp>

#include "cluster/remote/memory_client.hpp"
#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"

namespace tiermap {
namespace {

class RemoteProgramsTest : public testing::Test {
 protected:
  /// Whatever the program makes at `file` is gone afterwards, and with --keep it is there.
  void expect_to_work(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--budget", "4MiB", "--json", "--file", file});
    EXPECT_EQ(report_of(arguments)["verified"], true);
    EXPECT_TRUE(comes_true([&] { return client.list("").empty(); }));
    arguments.emplace_back("--keep");
    EXPECT_EQ(report_of(arguments)["file"], file);
    EXPECT_EQ(client.list("data").size(), 1U);
  }
  static nlohmann::json report_of(const std::vector<std::string>& arguments) {
    ChildProcess program(arguments);
    const std::string output = program.output();
    const std::string errors = program.errors();
    EXPECT_EQ(program.wait(), 0) << errors;
    return output.empty() ? nlohmann::json() : nlohmann::json::parse(output);
  }

  ServerProcess server;
  const std::string file = server.url("data");
  Wire wire{WireOptions()};
  MemoryClient client{wire, parse_host_and_port(server.address, "server"), {}};
};

TEST_F(RemoteProgramsTest, PointsOfKMeans) {
  expect_to_work({"tiermap-kmeans", "--bytes", "6MB"});
  EXPECT_EQ(report_of({"tiermap-kmeans", file, "--budget", "4MiB", "--json"})["points"], 500'000);
}

TEST_F(RemoteProgramsTest, PointsOfDbscan) {
  expect_to_work({"tiermap-dbscan", "--bytes", "600kB"});
}

TEST_F(RemoteProgramsTest, TheTableOfARandomForest) {
  expect_to_work({"tiermap-random-forest", "--bytes", "6MB", "--trees", "2"});
  client.drop("data");
  report_of({"tiermap-random-forest", "generate", "--bytes", "6MB", "--file", file, "--json"});
  EXPECT_EQ(report_of({"tiermap-random-forest", file, "--trees", "2", "--budget", "4MiB", "--json"})["verified"], true);
}

TEST_F(RemoteProgramsTest, TheGridOfGrayScott) {
  expect_to_work({"tiermap-gray-scott", "--size", "64", "--steps", "4"});
}

TEST_F(RemoteProgramsTest, AServerThatIsNotThereHasNothing) {
  for (const char* program : {"tiermap-kmeans", "tiermap-random-forest"}) {
    ChildProcess generating({program, "generate", "--bytes", "1MiB", "--file", "remote://127.0.0.1:1/data"});
    const std::string errors = generating.errors();
    EXPECT_NE(generating.wait(), 0);
    EXPECT_EQ(errors.find("exists"), std::string::npos) << errors;
    EXPECT_NE(errors.find("127.0.0.1:1"), std::string::npos) << errors;
  }
}

}  // namespace
}  // namespace tiermap
