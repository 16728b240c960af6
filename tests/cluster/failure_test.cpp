// Servers and clients that are killed, stopped, or no such thing at all.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/job.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t mebi = 1 << 20;

std::uint64_t test_seed() {
  const std::uint64_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  return seed;
}

/// Why it does not open; "" if it does.
std::string refusal(const std::string& url, OpenMode mode) {
  try {
    open_store(url, mode);
    return "";
  } catch (const StoreError& error) {
    return error.what();
  }
}

bool opens(const std::string& url, OpenMode mode) {
  return refusal(url, mode).empty();
}

std::unique_ptr<Store> filled(const std::string& url, std::uint64_t bytes, std::uint64_t seed) {
  auto store = open_store(url, OpenMode::create, bytes);
  const auto content = test_body(bytes, seed);
  EXPECT_EQ(store->write(content.data(), bytes, 0), static_cast<std::int64_t>(bytes));
  EXPECT_EQ(store->flush(), 0);
  return store;
}

/// With a time-out that is short: where the machine is busy even a server that runs may say nothing for so long.
std::unique_ptr<Store> opened_in_the_end(const std::string& url, OpenMode mode) {
  std::unique_ptr<Store> store;
  EXPECT_TRUE(comes_true([&] {
    try {
      store = open_store(url, mode);
    } catch (const StoreError&) {
    }
    return store != nullptr;
  }));
  return store;
}

TEST(FailureTest, ReadsOfAKilledServerFailAndDoNotHang) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 3; ++round) {
    ServerProcess server;
    const auto store = filled(server.url("set", "?timeout=5s"), 4 * mebi, 1);
    const auto content = test_body(4 * mebi, 1);
    std::atomic<bool> wrong{false};
    std::vector<std::thread> readers;
    for (std::uint64_t reader = 0; reader < 4; ++reader) {
      readers.emplace_back([&, reader] {
        std::mt19937_64 own(reader);
        std::vector<std::byte> page(16384);
        for (;;) {
          const std::uint64_t offset = own() % (4 * mebi - page.size());
          const std::int64_t got = store->read(page.data(), page.size(), offset);
          if (got < 0) {
            wrong = wrong || got != -EIO;
            return;
          }
          wrong = wrong || !same_bytes(page, std::span(content).subspan(offset, page.size()));
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 50'000));
    server.signal(SIGKILL);
    for (std::thread& reader : readers) {
      reader.join();
    }
    EXPECT_FALSE(wrong);
  }
}

TEST(FailureTest, AStoppedServerIsNoticedInTime) {
  const ServerProcess server;
  filled(server.url("set"), mebi, 2);
  const auto store = opened_in_the_end(server.url("set", "?timeout=300ms"), OpenMode::read_write);
  ASSERT_NE(store, nullptr);
  server.signal(SIGSTOP);
  char byte = 0;
  EXPECT_EQ(store->read(&byte, 1, 0), -EIO);
  EXPECT_EQ(store->flush(), -EIO);
  EXPECT_FALSE(opens(server.url("set", "?timeout=300ms"), OpenMode::read_only));
  server.signal(SIGCONT);
}

TEST(FailureTest, AStoppedServerIsReplacedByTheOtherCopy) {
  ServerProcess one;
  ServerProcess other;
  const std::string url = "remote://" + one.address + "," + other.address + "/set?layout=replicated&timeout=2s";
  const auto store = filled(url, mebi, 3);
  one.signal(SIGSTOP);
  std::vector<std::byte> got(mebi);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(store->read(got.data(), got.size(), 0), static_cast<std::int64_t>(got.size()));
    EXPECT_TRUE(same_bytes(got, test_body(mebi, 3)));
  }
  one.signal(SIGCONT);
}

/// Reads so often that each copy is asked more than once.
void expect_all_copies_have(const std::string& url, const std::vector<std::byte>& content) {
  std::vector<std::byte> got(content.size());
  const auto store = opened_in_the_end(url, OpenMode::read_only);
  ASSERT_NE(store, nullptr);
  for (int round = 0; round < 6; ++round) {
    EXPECT_EQ(store->read(got.data(), got.size(), 0), static_cast<std::int64_t>(got.size()));
    EXPECT_TRUE(same_bytes(got, content));
  }
}

TEST(FailureTest, ACopyThatMissedWritesIsNotRead) {
  ServerProcess one;
  ServerProcess other;
  const std::string url =
      "remote://" + one.address + "," + other.address + "/set?layout=replicated&copies=1&timeout=2s";
  {
    const auto store = filled(url, mebi, 4);
    one.signal(SIGSTOP);
    const auto content = test_body(mebi, 5);
    EXPECT_EQ(store->write(content.data(), mebi, 0), static_cast<std::int64_t>(mebi));
    EXPECT_EQ(store->flush(), 0);
  }
  one.signal(SIGCONT);
  // One copy is behind, and which one cannot be missing: it is found, and not read.
  expect_all_copies_have(url, test_body(mebi, 5));
}

/// As what it was told lies there when it stands still, and is done when it goes on.
TEST(FailureTest, ACopyThatIsGivenUpAsItIsToldOfAnothersEndIsNotRead) {
  ServerProcess one;
  ServerProcess other;
  ServerProcess last;
  const std::string url = "remote://" + one.address + "," + other.address + "," + last.address +
                          "/set?layout=replicated&copies=1&timeout=2s";
  {
    const auto store = filled(url, mebi, 4);
    one.signal(SIGSTOP);
    std::thread writing([&] {
      const auto content = test_body(mebi, 5);
      EXPECT_EQ(store->write(content.data(), mebi, 0), static_cast<std::int64_t>(mebi));
    });
    std::this_thread::sleep_for(1s);  // The other one has written, and is still taken for alive when the first is not.
    other.signal(SIGSTOP);
    writing.join();
    const auto content = test_body(mebi, 6);
    EXPECT_EQ(store->write(content.data(), mebi, 0), static_cast<std::int64_t>(mebi));
    EXPECT_EQ(store->flush(), 0);
  }
  one.signal(SIGCONT);
  other.signal(SIGCONT);
  expect_all_copies_have(url, test_body(mebi, 6));
}

TEST(FailureTest, AKilledClientLeavesNothingLocked) {
  std::mt19937_64 random(test_seed());
  const TemporaryDirectory directory(".");
  const std::string path = directory / "source";
  std::ofstream(path).write(std::vector<char>(40 * mebi, 'x').data(), 40 * mebi);
  const ServerProcess server;
  for (int round = 0; round < 4; ++round) {
    const std::string url = server.url("set");
    ChildProcess client({"tiermap", "serve", "load", path, url});
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 150'000));
    client.signal(SIGKILL);
    client.wait();
    ASSERT_TRUE(comes_true([&] { return refusal(url, OpenMode::read_write).find("is being") == std::string::npos; }));
    ChildProcess drop({"tiermap", "serve", "drop", url});
    drop.wait();  // If it came so far that there was one.
    EXPECT_FALSE(opens(url, OpenMode::read_only));
  }
}

/// Else the whole machine, other tests' servers among it, would stand still while a stopped server is waited for.
TEST(FailureTest, AChildThatHasEndedIsNotSignalled) {
  ChildProcess child({"/bin/true"});
  ASSERT_TRUE(comes_true([&] { return child.ended(); }));
  EXPECT_FALSE(child.signal(0));
}

TEST(FailureTest, AStoppedClientLosesItsHold) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 300MiB\ntimeout_seconds: 0.3\n";
  std::ofstream(directory / "source").put('x');
  std::filesystem::resize_file(directory / "source", 256 * mebi);
  const ServerProcess server({"--config", directory / "node.yaml"});
  bool stopped = false;
  for (int round = 0; round < 50 && !stopped; ++round) {
    const std::string url = server.url("held" + std::to_string(round));
    ChildProcess client({"tiermap", "serve", "load", directory / "source", url});
    const auto held = [&] { return refusal(url, OpenMode::read_only).find("is being written") != std::string::npos; };
    ASSERT_TRUE(comes_true([&] { return client.ended() || held(); }));
    // It may have come to its end before anybody looked, or may yet before it stands still.
    stopped = client.signal(SIGSTOP) && held();
    EXPECT_TRUE(comes_true([&] { return !held(); }));
    client.signal(SIGKILL);
    client.wait();
    ChildProcess({"tiermap", "serve", "drop", url}).wait();
  }
  EXPECT_TRUE(stopped);
}

TEST(FailureTest, AForkedChildIsNobodysClient) {
  const ServerProcess server;
  auto store = filled(server.url("set"), mebi, 9);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool failed = store->read(&byte, 1, 0) == -EIO;
    store.reset();
    ::_exit(failed ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::vector<std::byte> got(mebi);
  EXPECT_EQ(store->read(got.data(), got.size(), 0), static_cast<std::int64_t>(mebi));
  EXPECT_TRUE(same_bytes(got, test_body(mebi, 9)));
}

/// What other threads of the parent's had taken as it forked nobody gives back there.
TEST(FailureTest, AForkedChildWaitsForNothingThatOtherThreadsHad) {
  const ServerProcess server;
  auto store = filled(server.url("set"), mebi, 9);
  std::atomic<bool> ends{false};
  std::vector<std::thread> readers;
  for (int number = 0; number < 8; ++number) {
    readers.emplace_back([&] {
      for (char byte = 0; !ends && store->read(&byte, 1, 0) == 1;) {
      }
    });
  }
  for (int number = 0; number < 300 && !testing::Test::HasFailure(); ++number) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(STDERR_FILENO);
      char byte = 0;
      const bool failed = store->read(&byte, 1, 0) == -EIO;
      store.reset();
      ::_exit(failed ? 0 : 1);
    }
    int status = 0;
    if (!comes_true([&] { return ::waitpid(child, &status, WNOHANG) == child; }, 20s)) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
    EXPECT_EQ(status, 0) << "child " << number;
  }
  ends = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
}

/// A server that stands still is asked something by who gives up another one.
TEST(FailureTest, AForkedChildWaitsForNobodyWhoGivesUpAServer) {
  ServerProcess one;
  ServerProcess other;
  auto store =
      filled("remote://" + one.address + "," + other.address + "/set?layout=replicated&copies=1&timeout=4s", mebi, 9);
  other.signal(SIGSTOP);
  one.signal(SIGKILL);
  one.wait();
  std::thread writing([&] {
    char byte = 1;
    store->write(&byte, 1, 0);
  });
  std::this_thread::sleep_for(1s);  // It is at that now.
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    char byte = 0;
    const bool failed = store->read(&byte, 1, 0) == -EIO && store->write(&byte, 1, 0) == -EIO &&
                        store->flush() == -EIO && store->resize(1) == -EIO;
    store.reset();
    ::_exit(failed ? 0 : 1);
  }
  int status = 0;
  if (!comes_true([&] { return ::waitpid(child, &status, WNOHANG) == child; }, 20s)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  EXPECT_EQ(status, 0);
  writing.join();
}

/// UCX has threads while it is open, which the child has not: it would wait for them until the timeout.
TEST(FailureTest, AForkedChildOfWhoHasAStoreOpenIsRefusedAnother) {
  const ServerProcess server;
  const auto parents = filled(server.url("set"), mebi, 9);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string told;
    try {
      open_store(server.url("set"), OpenMode::read_only);
    } catch (const StoreError& error) {
      told = error.what();
    }
    ::_exit(told.find("the child of a process that had them open when it forked") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(FailureTest, ForkedChildrenOfWhoHasNoneOpenOpenTheirOwn) {
  const ServerProcess server;
  filled(server.url("set"), mebi, 9).reset();
  std::vector<pid_t> children;
  for (int number = 0; number < 3; ++number) {
    children.push_back(::fork());
    if (children.back() == 0) {
      std::vector<std::byte> got(mebi);
      const auto own = open_store(server.url("set"), OpenMode::read_only);
      const bool right = own->read(got.data(), got.size(), 0) == static_cast<std::int64_t>(mebi) &&
                         same_bytes(got, test_body(mebi, 9));
      ::_exit(right ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(FailureTest, APageThatCannotBeReadIsASigbus) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer takes the signal, and ends with an exit code";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        auto server = std::make_unique<ServerProcess>();
        std::shared_ptr<Store> store = filled(server->url("set", "?timeout=1s"), mebi, 6);
        CacheOptions options;
        options.budget_bytes = mebi;
        Cache cache(options);
        const Region region = cache.map(store);
        server->signal(SIGKILL);
        server->wait();
        const volatile std::byte first = *region.data();
        (void)first;
        ::_exit(0);
      },
      testing::KilledBySignal(SIGBUS), "server '127.0.0.1:.*see whether it runs, and open the store again");
}

TEST(FailureTest, WhatIsNoTiermapIsShownTheDoor) {
  const ServerProcess server;
  const std::uint16_t port = parse_host_and_port(server.address, "address").port;
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 10; ++round) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const auto garbage = test_body(1 + random() % 5000, random());
    (void)::send(socket, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    ::close(socket);
  }
  EXPECT_NE(filled(server.url("after"), mebi, 7), nullptr);
}

TEST(FailureTest, MoreClientsThanThereAreDescriptorsForAreRefusedAndTheServerGoesOn) {
  ChildProcess server({"/bin/sh", "-c",
                       std::string("ulimit -n 200; exec ") + TIERMAP_BINARY_FOLDER +
                           "/tiermap serve --listen 127.0.0.1:0 --memory 1MiB"});
  const std::string said = server.line();
  const HostAndPort address = parse_host_and_port(said.substr(13, said.find(',') - 13), said);
  for (int round = 0; round < 2; ++round) {
    Wire wire{WireOptions{}};
    std::vector<std::shared_ptr<WireConnection>> clients;
    EXPECT_THROW(while (clients.size() < 200) { clients.push_back(wire.connect(address, {})); }, StoreError);
    EXPECT_GE(clients.size(), 20U);
    EXPECT_TRUE(std::ranges::all_of(clients, [](const auto& client) { return client->open(); }));
  }
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.errors();
}

/// UCX says something else, or nothing until the timeout.
TEST(FailureTest, AClientWithoutDescriptorsIsToldSo) {
  const ServerProcess server;
  filled(server.url("set"), mebi, 9).reset();
  for (int files = 8; files <= 40; ++files) {
    ChildProcess client({"/bin/sh", "-c",
                         "ulimit -n " + std::to_string(files) + "; exec " + TIERMAP_BINARY_FOLDER +
                             "/tiermap serve stat " + server.url("set")});
    const std::string errors = client.errors();
    EXPECT_TRUE(client.wait() == 0 || errors.find("ulimit -n") != std::string::npos) << files << ": " << errors;
  }
}

/// Of the sockets of a process that listen, those that another machine could reach, as the kernel writes them.
std::vector<std::string> open_listeners(pid_t process) {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  std::vector<std::string> found;
  std::ifstream table("/proc/" + std::to_string(process) + "/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, skipped, inode;
    words >> number >> local >> remote >> state;
    for (int column = 0; column < 5; ++column) {
      words >> skipped;
    }
    words >> inode;
    if (state == "0A" && own.contains("socket:[" + inode + "]") && !local.starts_with("0100007F")) {
      found.push_back(local);
    }
  }
  return found;
}

TEST(FailureTest, AServerOnLoopbackHasNoSocketThatOthersCouldReach) {
  const ServerProcess server;
  EXPECT_EQ(open_listeners(server.pid()), std::vector<std::string>{});
}

TEST(FailureTest, NorHasWhoUsesIt) {
  const ServerProcess server;
  const auto store = open_store(server.url("set"), OpenMode::create, mebi);
  JobOptions options;
  options.rank = 0;
  options.ranks = 1;
  options.servers = server.address;
  Job job(options);
  EXPECT_EQ(open_listeners(::getpid()), std::vector<std::string>{});
  job.end();
}

TEST(FailureTest, ATermEndsTheServerAndItsFilesHaveEverything) {
  const TemporaryDirectory directory(".");
  const std::string file = std::filesystem::absolute(directory / "kept").string();
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\ndata_sets:\n  - {name: kept, store: " << file
                                         << ", size: 1MiB, tiers: " << (directory / "tiers.yaml") << "}\n";
  std::ofstream(directory / "tiers.yaml") << "block: 64KiB\ntiers:\n  - {name: near, capacity: 1MiB}\n";
  ServerProcess server({"--config", directory / "node.yaml"});
  {
    const auto store = open_store(server.url("kept"), OpenMode::read_write);
    const auto content = test_body(mebi, 8);
    EXPECT_EQ(store->write(content.data(), mebi, 0), static_cast<std::int64_t>(mebi));
  }
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.errors();
  std::vector<std::byte> got(mebi);
  std::ifstream(file).read(reinterpret_cast<char*>(got.data()), mebi);
  EXPECT_TRUE(same_bytes(got, test_body(mebi, 8)));
}

TEST(FailureTest, WhoIsNotToEndWithTheTerminalGoesOn) {
  ChildProcess server({"/usr/bin/env", "nohup", std::string(TIERMAP_BINARY_FOLDER) + "/tiermap", "serve", "--listen",
                       "127.0.0.1:0", "--memory", "1MiB"});
  const std::string said = server.line();
  const std::string before = "listening on ";
  ASSERT_TRUE(said.starts_with(before)) << said;
  EXPECT_TRUE(server.signal(SIGHUP));
  ChildProcess list({"tiermap", "serve", "list", said.substr(before.size(), said.find(',') - before.size())});
  EXPECT_EQ(list.wait(), 0) << list.errors();
  EXPECT_TRUE(server.signal(SIGTERM));
  EXPECT_EQ(server.wait(), 0) << server.errors();
}

}  // namespace
}  // namespace tiermap
