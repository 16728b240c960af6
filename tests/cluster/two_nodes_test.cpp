// Two network namespaces as nodes: what goes from one to the other goes over their cable, and is counted there.
#include <array>
#include <cstdio>
#include <fstream>
#include <thread>

#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

int run(const std::string& command) {
  return std::system(command.c_str());  // NOLINT(cert-env33-c,concurrency-mt-unsafe): a test's own script.
}

/// The namespaces, for as long as it lives.
class TwoNodes {
 public:
  TwoNodes() : name("tiermap-test-" + std::to_string(::getpid())) {
    ::setenv("TIERMAP_USER", "ann", 1);
    ::setenv("TIERMAP_SECRET", "correct horse", 1);
    made = run("TWO_NODES_NAME=" + name + " " + script + " up >/dev/null 2>&1") == 0;
  }
  ~TwoNodes() {
    for (const char* const name_of_variable : {"TIERMAP_USER", "TIERMAP_SECRET"}) {
      ::unsetenv(name_of_variable);
    }
    run("TWO_NODES_NAME=" + name + " " + script + " down >/dev/null 2>&1");
  }
  std::vector<std::string> in(int node, const std::vector<std::string>& command) const {
    std::vector<std::string> all = {"/usr/bin/env", "ip", "netns", "exec", name + "-" + std::to_string(node)};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  std::uint64_t received(int node) const {
    ChildProcess child(in(node, {"cat", "/sys/class/net/veth0/statistics/rx_bytes"}));
    const std::string text = child.output();
    child.wait();
    return std::stoull(text);
  }

  const std::string script = std::string(TIERMAP_SOURCE_FOLDER) + "/scripts/two_nodes.sh";
  const std::string name;
  bool made = false;
};

TEST(TwoNodesTest, ADataSetGoesOverTheCable) {
  const TwoNodes nodes;
  if (!nodes.made) {
    GTEST_SKIP() << "network namespaces cannot be made here: root and iproute2 are needed";
  }
  constexpr std::uint64_t bytes = 8 << 20;
  const TemporaryDirectory directory(".");
  const auto content = test_body(bytes, 3);
  std::ofstream(directory / "source").write(reinterpret_cast<const char*>(content.data()), bytes);
  std::ofstream(directory / "node.yaml")
      << "listen: 10.77.0.1:7070\nmemory: 64MiB\nusers: [{name: ann, secret: correct horse}]\n";
  const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap";
  ChildProcess server(nodes.in(1, {program, "serve", "--config", directory / "node.yaml"}));
  EXPECT_EQ(server.line(), "listening on 10.77.0.1:7070, 0 data sets");
  const std::string url = "remote://10.77.0.1:7070/set";
  const std::uint64_t before = nodes.received(1);
  ChildProcess load(nodes.in(2, {program, "serve", "load", directory / "source", url}));
  EXPECT_EQ(load.wait(), 0) << load.errors();
  const std::uint64_t sent = nodes.received(1) - before;
  EXPECT_GE(sent, bytes);
  EXPECT_LE(sent, bytes + bytes / 10);
  const std::uint64_t before_reading = nodes.received(2);
  ChildProcess save(nodes.in(2, {program, "serve", "save", url, directory / "back"}));
  EXPECT_EQ(save.wait(), 0) << save.errors();
  EXPECT_GE(nodes.received(2) - before_reading, bytes);
  std::vector<std::byte> back(bytes);
  std::ifstream(directory / "back").read(reinterpret_cast<char*>(back.data()), bytes);
  EXPECT_TRUE(same_bytes(back, content));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.errors();
}

TEST(TwoNodesTest, ACutCableIsNoticed) {
  const TwoNodes nodes;
  if (!nodes.made) {
    GTEST_SKIP() << "network namespaces cannot be made here: root and iproute2 are needed";
  }
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "source").write(std::vector<char>(50 << 20, 'x').data(), 50 << 20);
  std::ofstream(directory / "node.yaml") << "listen: 10.77.0.1:7070\nmemory: 64MiB\ntimeout_seconds: 0.5\n"
                                            "users: [{name: ann, secret: correct horse}]\n";
  const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap";
  const std::string url = "remote://10.77.0.1:7070/set?timeout=500ms";
  ChildProcess server(nodes.in(1, {program, "serve", "--config", directory / "node.yaml"}));
  server.line();
  // A slow cable, so that it is cut in the middle.
  run("ip netns exec " + nodes.name +
      "-2 tc qdisc add dev veth0 root tbf rate 100mbit burst 64kb latency 100ms >/dev/null 2>&1");
  ChildProcess load(nodes.in(2, {program, "serve", "load", directory / "source", url}));
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  run("ip -n " + nodes.name + "-2 link set veth0 down");
  EXPECT_EQ(load.wait(), 1);
  const std::string said = load.errors();
  EXPECT_NE(said.find("cannot be written"), std::string::npos) << said;
  run("ip -n " + nodes.name + "-2 link set veth0 up");
  const auto free = [&] {
    ChildProcess drop(nodes.in(1, {program, "serve", "drop", url}));
    const int code = drop.wait();
    return code == 0 || drop.errors().find("is not here") != std::string::npos;
  };
  EXPECT_TRUE(comes_true(free));  // Nobody holds it any more.
}

}  // namespace
}  // namespace tiermap
