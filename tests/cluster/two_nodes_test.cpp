// Two network namespaces as nodes: what goes from one to the other goes over their cable, and is counted there.
#include <array>
#include <cstdio>
#include <fstream>
#include <thread>

#include "cluster/two_nodes.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

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

/// Each client's address is longer than an IPv4 one: UCX was given room for such a one, and wrote behind it.
TEST(TwoNodesTest, OneClientAfterTheOtherComesByIpv6) {
  const TwoNodes nodes;
  if (!nodes.made) {
    GTEST_SKIP() << "network namespaces cannot be made here: root and iproute2 are needed";
  }
  ChildProcess address(nodes.in(1, {"ip", "-6", "address", "show", "dev", "veth0"}));
  if (address.output().find("fd77::1") == std::string::npos) {
    GTEST_SKIP() << "network namespaces have no IPv6 here: the kernel's is needed";
  }
  constexpr std::uint64_t bytes = 1 << 20;
  const TemporaryDirectory directory(".");
  const auto content = test_body(bytes, 4);
  std::ofstream(directory / "source").write(reinterpret_cast<const char*>(content.data()), bytes);
  std::ofstream(directory / "node.yaml")
      << "listen: '[fd77::1]:7070'\nmemory: 64MiB\nusers: [{name: ann, secret: correct horse}]\n";
  const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap";
  ChildProcess server(nodes.in(1, {program, "serve", "--config", directory / "node.yaml"}));
  EXPECT_EQ(server.line(), "listening on [fd77::1]:7070, 0 data sets");
  const std::string url = "remote://[fd77::1]:7070/set";
  const std::uint64_t before = nodes.received(1);
  ChildProcess load(nodes.in(2, {program, "serve", "load", directory / "source", url}));
  EXPECT_EQ(load.wait(), 0) << load.errors();
  EXPECT_GE(nodes.received(1) - before, bytes);
  for (int client = 0; client < 10; ++client) {
    const std::string back = directory / ("back" + std::to_string(client));
    ChildProcess save(nodes.in(client % 2 + 1, {program, "serve", "save", url, back}));
    EXPECT_EQ(save.wait(), 0) << save.errors();
    std::vector<std::byte> got(bytes);
    std::ifstream(back).read(reinterpret_cast<char*>(got.data()), bytes);
    EXPECT_TRUE(same_bytes(got, content));
  }
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
  run_command("ip netns exec " + nodes.name +
              "-2 tc qdisc add dev veth0 root tbf rate 100mbit burst 64kb latency 100ms >/dev/null 2>&1");
  ChildProcess load(nodes.in(2, {program, "serve", "load", directory / "source", url}));
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  run_command("ip -n " + nodes.name + "-2 link set veth0 down");
  EXPECT_EQ(load.wait(), 1);
  const std::string said = load.errors();
  EXPECT_NE(said.find("cannot be written"), std::string::npos) << said;
  run_command("ip -n " + nodes.name + "-2 link set veth0 up");
  const auto free = [&] {
    ChildProcess drop(nodes.in(1, {program, "serve", "drop", url}));
    const int code = drop.wait();
    return code == 0 || drop.errors().find("is not here") != std::string::npos;
  };
  EXPECT_TRUE(comes_true(free));  // Nobody holds it any more.
}

/// Two servers on the first node, and what both have of a data set, from the second.
class TwoCopies {
 public:
  explicit TwoCopies(const TwoNodes& nodes) : nodes_(nodes) {
    std::ofstream(directory / "source").write(reinterpret_cast<const char*>(content.data()), bytes);
    for (int number = 0; number < 2; ++number) {
      const std::string port = std::to_string(7070 + number);
      const std::string file = directory / (port + ".yaml");
      std::ofstream(file) << "listen: 10.77.0." << number + 1 << ":" << port
                          << "\nmemory: 64MiB\nusers: [{name: ann, secret: correct horse}]\n";
      servers.push_back(std::make_unique<ChildProcess>(nodes.in(number + 1, {program, "serve", "--config", file})));
      EXPECT_EQ(servers.back()->line(),
                "listening on 10.77.0." + std::to_string(number + 1) + ":" + port + ", 0 data sets");
    }
    ChildProcess load(nodes.in(2, {program, "serve", "load", directory / "source", url()}));
    EXPECT_EQ(load.wait(), 0) << load.errors();
  }
  std::string url(const std::string& timeout = "5s") const {
    return "remote://10.77.0.1:7070,10.77.0.2:7071/set?layout=replicated&timeout=" + timeout;
  }
  /// On the second node; `back` is made.
  std::vector<std::string> save(const std::string& back, const std::string& timeout) const {
    return nodes_.in(2, {program, "serve", "save", url(timeout), directory / back});
  }
  bool is_right(const std::string& back) const {
    std::vector<std::byte> got(bytes);
    std::ifstream(directory / back).read(reinterpret_cast<char*>(got.data()), bytes);
    return same_bytes(got, content);
  }

  static constexpr std::uint64_t bytes = 32 << 20;
  const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap";
  const TemporaryDirectory directory{"."};
  const std::vector<std::byte> content = test_body(bytes, 9);
  std::vector<std::unique_ptr<ChildProcess>> servers;

 private:
  const TwoNodes& nodes_;
};

TEST(TwoNodesTest, ADelayOnTheCableChangesNothingButTheTime) {
  const TwoNodes nodes;
  if (!nodes.made) {
    GTEST_SKIP() << "network namespaces cannot be made here: root and iproute2 are needed";
  }
  const TwoCopies copies(nodes);
  if (run_command("ip netns exec " + nodes.name +
                  "-2 tc qdisc add dev veth0 root netem delay 20ms 10ms >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no delay can be put on a cable here: tc and the kernel's sch_netem are needed";
  }
  ChildProcess slow(copies.save("slow", "2s"));
  EXPECT_EQ(slow.wait(), 0) << slow.errors();
  EXPECT_TRUE(copies.is_right("slow"));
  // A delay is no death, and a death is noticed in spite of it.
  copies.servers[0]->signal(SIGSTOP);
  ChildProcess silent(nodes.in(2, {copies.program, "serve", "list", "10.77.0.1:7070"}));
  EXPECT_EQ(silent.wait(), 1);
  EXPECT_NE(silent.errors().find("10.77.0.1:7070"), std::string::npos);
  copies.servers[0]->signal(SIGCONT);
}

TEST(TwoNodesTest, AReaderOfTwoCopiesOutlivesThatTheCableIsCutAndMended) {
  const TwoNodes nodes;
  if (!nodes.made) {
    GTEST_SKIP() << "network namespaces cannot be made here: root and iproute2 are needed";
  }
  const TwoCopies copies(nodes);
  // Slow enough that the cut comes in the middle.
  run_command("ip netns exec " + nodes.name +
              "-1 tc qdisc add dev veth0 root tbf rate 100mbit burst 64kb latency 100ms >/dev/null 2>&1");
  ChildProcess save(copies.save("back", "500ms"));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  run_command("ip -n " + nodes.name + "-1 link set veth0 down");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  run_command("ip -n " + nodes.name + "-1 link set veth0 up");
  EXPECT_EQ(save.wait(), 0) << save.errors();
  EXPECT_TRUE(copies.is_right("back"));
}

}  // namespace
}  // namespace tiermap
