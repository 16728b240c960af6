// Servers on IPv6 addresses, and what cannot be reached together with them.
#include <netinet/in.h>

#include "cluster/served_stores.hpp"
#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

bool has_ipv6() {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool bound = ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(probe);
  return bound;
}

/// Of this test's process, or of others, on [::1].
class Ipv6Test : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_ipv6()) {
      GTEST_SKIP() << "this machine has no IPv6 loopback address";
    }
  }
  static ServerOptions options() {
    ServerOptions options = test_server_options();
    options.listen = {"::1", 0};
    return options;
  }
};

/// What is thrown for this URL, one line; "" if nothing.
std::string refusal_of_url(const std::string& url) {
  try {
    open_store(url, OpenMode::read_only);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_served(const std::string& url, std::uint64_t seed) {
  const auto content = test_body(mebi, seed);
  const auto store = open_store(url, OpenMode::open_or_create, mebi);
  EXPECT_EQ(store->write(content.data(), mebi, 0), static_cast<std::int64_t>(mebi));
  std::vector<std::byte> got(mebi);
  EXPECT_EQ(store->read(got.data(), mebi, 0), static_cast<std::int64_t>(mebi));
  EXPECT_TRUE(same_bytes(got, content));
}

TEST_F(Ipv6Test, OneClientAfterTheOtherIsServed) {
  const ServedStores served(1, options());
  EXPECT_TRUE(served.hosts().starts_with("[::1]:")) << served.hosts();
  for (std::uint64_t client = 0; client < 20; ++client) {
    expect_served(served.url("set"), client);
  }
}

TEST_F(Ipv6Test, AServerOfItsOwnServesManyAtOnceAndEndsWell) {
  ChildProcess server({"tiermap", "serve", "--listen", "[::1]:0", "--memory", "64MiB"});
  const std::string said = server.line();
  ASSERT_TRUE(said.starts_with("listening on [::1]:")) << said;
  const std::string address = said.substr(13, said.find(',') - 13);
  std::vector<std::thread> clients;
  for (std::uint64_t client = 0; client < 8; ++client) {
    clients.emplace_back(
        [&, client] { expect_served("remote://" + address + "/set" + std::to_string(client), client); });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  ChildProcess list({"tiermap", "serve", "list", address});
  EXPECT_EQ(list.wait(), 0) << list.errors();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.errors();
}

TEST_F(Ipv6Test, SeveralServersThereAreOneDataSet) {
  const ServedStores served(3, options());
  expect_served(served.url("set", "?layout=striped&copies=2&stripe=64KiB"), 1);
}

TEST_F(Ipv6Test, BothLoopbackAddressesAreOneMachine) {
  const ServedStores there(1, options());
  const ServedStores here(1);
  expect_served("remote://" + here.hosts() + "," + there.hosts() + "/set?layout=replicated", 2);
}

TEST_F(Ipv6Test, AtEveryIpv6AddressWhoComesByAnotherWayIsToldSo) {
  ServerOptions every = options();
  every.listen = {"::", 0};
  every.users["ann"] = {"correct horse", true};
  ::setenv("TIERMAP_USER", "ann", 1);
  ::setenv("TIERMAP_SECRET", "correct horse", 1);
  const MemoryServer server(every);
  const std::string port = std::to_string(server.address().port);
  EXPECT_NE(refusal_of_url("remote://[::1]:" + port + "/set").find("is not reached by its loopback address"),
            std::string::npos);
  EXPECT_NE(refusal_of_url("remote://127.0.0.1:" + port + "/set").find("cannot be reached"), std::string::npos);
  ::unsetenv("TIERMAP_USER");
  ::unsetenv("TIERMAP_SECRET");
}

TEST(AddressTest, ServersOfTwoFamiliesAreRefusedInOneLine) {
  EXPECT_EQ(refusal_of_url("remote://127.0.0.1:7070,[fd00::7]:7071/set?layout=replicated"),
            "servers '127.0.0.1:7070' and '[fd00::7]:7071' have addresses of two families, IPv4 and IPv6: name all of "
            "them by addresses of one");
}

TEST(AddressTest, LinkLocalAddressesAreRefusedWithARemedy) {
  for (const std::string host : {"fe80::1", "fe80::1%lo", "febf::1"}) {
    const std::string refusal = refusal_of_url("remote://[" + host + "]:7070/set");
    EXPECT_NE(refusal.find("[" + host + "]:7070' is link-local"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("give another one of that machine"), std::string::npos) << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos);
  }
  ServerOptions options = test_server_options();
  options.listen = {"fe80::1%lo", 0};
  EXPECT_THROW(MemoryServer{options}, OptionError);
}

TEST(AddressTest, AFamilyIsFoundThatAllHave) {
  const auto family = [](const std::vector<HostAndPort>& servers) { return common_family(servers); };
  EXPECT_EQ(family({{"127.0.0.1", 1}, {"10.0.0.7", 1}}), AddressFamily::ipv4);
  EXPECT_EQ(family({{"fd00::8", 1}, {"fd00::7", 1}}), AddressFamily::ipv6);
  EXPECT_EQ(family({{"::1", 1}, {"127.0.0.1", 1}}), AddressFamily::ipv4);
  EXPECT_EQ(family({{"::ffff:10.0.0.7", 1}, {"10.0.0.8", 1}}), AddressFamily::ipv4);
  // Whose name is unknown is no reason to refuse the others: its copies may be elsewhere.
  EXPECT_EQ(family({{"no-such-host.invalid", 1}, {"fd00::7", 1}}), AddressFamily::ipv6);
  EXPECT_THROW(family({{"fd00::7", 1}, {"::ffff:10.0.0.7", 1}}), OptionError);
}

TEST(AddressTest, Ipv4WrittenAsIpv6IsIpv4) {
  const SocketAddress address = resolve({"::ffff:10.0.0.7", 7070});
  EXPECT_EQ(address.family(), AddressFamily::ipv4);
  EXPECT_EQ(address.text(), "10.0.0.7:7070");
  EXPECT_EQ(resolve({"localhost", 7070}).family(), AddressFamily::ipv4);
  EXPECT_THROW(resolve({"10.0.0.7", 7070}, AddressFamily::ipv6), StoreError);
}

}  // namespace
}  // namespace tiermap
