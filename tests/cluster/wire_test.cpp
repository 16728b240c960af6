// Requests and replies over real connections.
#include "cluster/wire/wire.hpp"

#include <cerrno>
#include <thread>

#include "cluster/wire_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

class WireTest : public testing::Test {
 protected:
  EchoService echo;
  WireOptions options;

  std::string error_of(Wire& wire, const HostAndPort& address, const WireLogin& login) {
    try {
      wire.connect(address, login);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(WireTest, ARequestGetsItsReply) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  EXPECT_TRUE(connection->open());
  for (const std::size_t bytes : {0UL, 1UL, 4096UL, 65536UL, 1UL << 20, 4UL << 20}) {
    const auto body = test_body(bytes, bytes);
    const WireReply reply = connection->call(WireMessage(echo_kind, {bytes, 2, 3, 4}, body));
    EXPECT_EQ(reply.status, 0);
    EXPECT_EQ(reply.words, (WireWords{bytes, 2, 3, 4}));
    EXPECT_TRUE(same_bytes(reply.body.bytes(), body)) << bytes;
  }
}

TEST_F(WireTest, ABodyLargerThanAgreedIsNotSent) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  WireOptions small;
  small.largest_body = 8192;
  Wire client(small);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  EXPECT_EQ(connection->largest_body(), 8192U);
  EXPECT_EQ(connection->call(WireMessage(echo_kind, {}, 8193)).status, -EMSGSIZE);
  EXPECT_EQ(connection->call(WireMessage(echo_kind, {}, 8192)).status, 0);
}

TEST_F(WireTest, ManyThreadsHaveManyRequestsInFlight) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  constexpr unsigned threads = 8;
  constexpr unsigned rounds = 40;
  constexpr unsigned depth = 16;
  std::atomic<unsigned> right{0};
  std::vector<std::thread> workers;
  for (unsigned thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      for (unsigned round = 0; round < rounds; ++round) {
        std::vector<std::vector<std::byte>> bodies;
        std::vector<WireCall> calls;
        for (unsigned index = 0; index < depth; ++index) {
          const std::uint64_t seed = (thread * rounds + round) * depth + index;
          bodies.push_back(test_body(seed * 7919 % 9000, seed));
          calls.push_back(connection->start(WireMessage(echo_kind, {seed, 0, 0, 0}, bodies.back()), std::nullopt));
        }
        for (unsigned index = 0; index < depth; ++index) {
          const WireReply& reply = calls[index].wait();
          right += reply.status == 0 && same_bytes(reply.body.bytes(), bodies[index]) ? 1U : 0U;
        }
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(right, threads * rounds * depth);
  EXPECT_EQ(echo.requests, threads * rounds * depth);
}

/// As many threads that each have many of them do: none is told that there is no room for its request.
TEST_F(WireTest, WhoAsksWhereAllRequestsAreUnderWayWaitsUntilOneIsAnswered) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  constexpr unsigned rounds = 3;
  std::thread answering([this] {
    for (unsigned round = 0; round < rounds; ++round) {
      EXPECT_TRUE(comes_true([this] {
        const std::lock_guard lock(echo.mutex);
        return echo.kept.size() == most_requests_in_flight;
      }));
      std::vector<WireRequest> all;
      {
        const std::lock_guard lock(echo.mutex);
        all.swap(echo.kept);
      }
      for (WireRequest& request : all) {
        request.reply(0);
      }
    }
  });
  std::vector<WireCall> calls;
  for (std::uint32_t number = 0; number < rounds * most_requests_in_flight; ++number) {
    calls.push_back(connection->start(WireMessage(keep_kind, {}), std::nullopt));
  }
  unsigned right = 0;
  for (WireCall& call : calls) {
    right += call.wait().status == 0 ? 1U : 0U;
  }
  answering.join();
  EXPECT_EQ(right, rounds * most_requests_in_flight);
}

TEST_F(WireTest, RequestsArriveInTheOrderTheyWereStartedIn) {
  class Order : public WireService {
   public:
    void on_request(WireRequest request) override {
      in_order = in_order && request.words()[0] == next++;
      request.reply(0);
    }
    bool in_order = true;
    std::uint64_t next = 0;
  } order;
  Wire server(options, &order);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  std::vector<WireCall> calls;
  for (std::uint64_t number = 0; number < 500; ++number) {
    calls.push_back(
        connection->start(WireMessage(echo_kind, {number, 0, 0, 0}, number % 7 == 0 ? 20000 : 10), std::nullopt));
  }
  for (WireCall& call : calls) {
    EXPECT_EQ(call.wait().status, 0);
  }
  EXPECT_TRUE(order.in_order);
}

TEST_F(WireTest, TheOtherEndMayAskToo) {
  EchoService here;
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options, &here);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  EXPECT_EQ(connection->call(WireMessage(ask_back_kind, {5, 6, 7, 8})).words, (WireWords{5, 6, 7, 8}));
  EXPECT_EQ(here.requests, 1U);
}

TEST_F(WireTest, ARequestThatIsDroppedIsAnswered) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  EXPECT_EQ(connection->call(WireMessage(drop_kind)).status, -EIO);
  Wire silent(options);  // Without a service.
  const std::uint16_t other = silent.listen({"127.0.0.1", 0});
  EXPECT_EQ(client.connect({"127.0.0.1", other}, {})->call(WireMessage(echo_kind)).status, -ENOSYS);
}

TEST_F(WireTest, PatienceEndsAndTheConnectionGoesOn) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  EXPECT_EQ(connection->start(WireMessage(keep_kind), 50ms).wait().status, -ETIMEDOUT);
  {
    const std::lock_guard lock(echo.mutex);
    echo.kept.clear();  // Whose late answers nobody waits for.
  }
  EXPECT_EQ(connection->call(WireMessage(echo_kind)).status, 0);
}

/// One after the other, as slow disks do: all together take longer than anybody's patience.
TEST_F(WireTest, PatienceBeginsWhenWhatWasAskedBeforeIsAnswered) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  constexpr unsigned requests = 12;
  WireCall never = connection->start(WireMessage(keep_kind), 1s);
  std::vector<WireCall> calls;
  for (unsigned number = 0; number < requests; ++number) {
    calls.push_back(connection->start(WireMessage(keep_kind), 1s));
  }
  EXPECT_TRUE(comes_true([this] {
    const std::lock_guard lock(echo.mutex);
    return echo.kept.size() == 1 + requests;
  }));
  std::thread answering([this] {
    for (unsigned number = 1; number <= requests; ++number) {
      std::this_thread::sleep_for(200ms);
      const std::lock_guard lock(echo.mutex);
      echo.kept[number].reply(0);
    }
  });
  for (WireCall& call : calls) {
    EXPECT_EQ(call.wait().status, 0);
  }
  EXPECT_EQ(never.wait().status, -ETIMEDOUT);  // Others were asked later.
  answering.join();
  const std::lock_guard lock(echo.mutex);
  echo.kept.clear();
}

/// As the server's does that was sent a request of which the number was damaged on its way.
TEST_F(WireTest, AnAnswerToWhatNobodyAskedEndsTheConnection) {
  class Mistaken : public WireService {
   public:
    void on_request(WireRequest request) override {
      MessageHeader header;
      header.id = 1ULL << 40U;
      WireRequest(request.from(), header, {}).reply(-EBADMSG);
      kept = std::make_shared<WireRequest>(std::move(request));
    }
    std::shared_ptr<WireRequest> kept;
  } mistaken;
  Wire server(options, &mistaken);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  std::atomic<int> status{1};
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  connection->start_then(WireMessage(echo_kind), std::nullopt, [&](const WireReply& reply) { status = reply.status; });
  EXPECT_TRUE(comes_true([&] { return status != 1; }, 10s));
  EXPECT_EQ(status, -EBADMSG);
}

TEST_F(WireTest, ASlowAnswerIsWaitedForAsLongAsThePeerLives) {
  options.timeout = 200ms;
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  WireCall slow = connection->start(WireMessage(keep_kind), std::nullopt);
  std::this_thread::sleep_for(1s);  // Several timeouts, in which only pings go to and fro.
  EXPECT_TRUE(connection->open()) << connection->failure();
  {
    const std::lock_guard lock(echo.mutex);
    ASSERT_EQ(echo.kept.size(), 1U);
    echo.kept.front().reply(0, {9, 0, 0, 0});
  }
  EXPECT_EQ(slow.wait().words[0], 9U);
}

/// The shorter one says how often each end is heard. Where the machine is busy even that may be too seldom, not ever.
TEST_F(WireTest, AnIdleConnectionLivesWhicheverEndHasTheShorterTimeout) {
  for (const auto& [of_server, of_client] : {std::pair(5000ms, 80ms), std::pair(80ms, 5000ms)}) {
    std::string failure = "none";
    for (int attempt = 0; attempt < 20 && !failure.empty(); ++attempt) {
      options.timeout = of_server;
      Wire server(options, &echo);
      const std::uint16_t port = server.listen({"127.0.0.1", 0});
      options.timeout = of_client;
      Wire client(options);
      try {
        const auto connection = client.connect({"127.0.0.1", port}, {});
        std::this_thread::sleep_for(500ms);
        failure = connection->failure();
      } catch (const StoreError& error) {  // As it could not be made in that time.
        failure = error.what();
      }
    }
    EXPECT_EQ(failure, "") << of_server.count() << " ms, " << of_client.count() << " ms";
  }
}

TEST_F(WireTest, CallsOfAServerThatGoesAwayFail) {
  auto server = std::make_unique<Wire>(options, &echo);
  const std::uint16_t port = server->listen({"127.0.0.1", 0});
  EchoService here;
  Wire client(options, &here);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  WireCall call = connection->start(WireMessage(keep_kind), std::nullopt);
  ASSERT_TRUE(comes_true([&] { return echo.requests == 1; }));
  server.reset();
  EXPECT_EQ(call.wait().status, -ECONNRESET);
  EXPECT_FALSE(connection->open());
  EXPECT_TRUE(comes_true([&] { return here.closed_count() == 1; }));
  EXPECT_EQ(connection->call(WireMessage(echo_kind)).status, -ECONNRESET);
  EXPECT_NE(connection->failure(), "");
}

TEST_F(WireTest, AServerHearsThatAClientIsGone) {
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  {
    Wire client(options);
    client.connect({"127.0.0.1", port}, {})->start(WireMessage(keep_kind), std::nullopt);
    ASSERT_TRUE(comes_true([&] { return echo.requests == 1; }));
  }
  EXPECT_TRUE(comes_true([&] { return echo.closed_count() == 1; }));
  const std::lock_guard lock(echo.mutex);
  echo.kept.clear();  // Answers go nowhere, and nothing happens.
}

TEST_F(WireTest, WhoWaitsInAHandlerIsToldAtOnce) {
  class Waits : public WireService {
   public:
    void on_request(WireRequest request) override {
      const int status = request.from()->call(WireMessage(echo_kind)).status;
      request.reply(status);
    }
  } waits;
  Wire server(options, &waits);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  Wire client(options, &echo);
  EXPECT_EQ(client.connect({"127.0.0.1", port}, {})->call(WireMessage(echo_kind)).status, -EDEADLK);
}

TEST_F(WireTest, OneSidedReads) {
  options.one_sided = true;
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  auto memory = test_body(1 << 20, 5);
  const auto registered = server.register_memory(memory);
  Wire client(options);
  const auto connection = client.connect({"127.0.0.1", port}, {});
  for (const std::size_t bytes : {1UL, 4096UL, 65536UL, 300000UL}) {
    std::vector<std::byte> got(bytes);
    EXPECT_EQ(connection->get(registered->key(), 12345, got), 0);
    EXPECT_TRUE(same_bytes(got, std::span(memory).subspan(12345, bytes)));
  }
  Wire plain(WireOptions{});
  std::vector<std::byte> got(10);
  EXPECT_THROW(plain.register_memory(got), StoreError);
  EXPECT_EQ(plain.connect({"127.0.0.1", port}, {})->get(registered->key(), 0, got), -ENOTSUP);
}

TEST_F(WireTest, SecretsAreProvedByBothSides) {
  echo.secrets = {{"ann", "swordfish"}, {"empty", ""}};
  options.secret_required = true;
  Wire server(options, &echo);
  const std::uint16_t port = server.listen({"127.0.0.1", 0});
  const HostAndPort address{"127.0.0.1", port};
  Wire client(WireOptions{});
  EXPECT_EQ(client.connect(address, {"ann", "swordfish"})->user(), "ann");
  EXPECT_EQ(client.connect(address, {"ann", "swordfish"})->call(WireMessage(echo_kind)).status, 0);
  EXPECT_NE(error_of(client, address, {"ann", "shark"}).find("does not let user 'ann' in"), std::string::npos);
  EXPECT_NE(error_of(client, address, {"bob", "swordfish"}).find("does not let user 'bob' in"), std::string::npos);
  EXPECT_NE(error_of(client, address, {"", ""}).find("asks for a secret"), std::string::npos);
  EXPECT_NE(error_of(client, address, {"empty", "x"}).find("does not let user"), std::string::npos);
  EXPECT_NE(error_of(client, address, {std::string(65, 'u'), "x"}).find("user names"), std::string::npos);
}

TEST_F(WireTest, AnOpenAddressNeedsASecret) {
  Wire server(options, &echo);
  EXPECT_THROW(server.listen({"0.0.0.0", 0}), OptionError);
}

TEST_F(WireTest, WhatCannotBeReachedIsSaidInTime) {
  options.timeout = 2000ms;
  Wire client(options);
  EXPECT_NE(error_of(client, {"no-such-host.invalid", 7070}, {}).find("does not resolve"), std::string::npos);
  std::uint16_t port = 0;
  {
    Wire server(options, &echo);
    port = server.listen({"127.0.0.1", 0});
    Wire second(options, &echo);
    EXPECT_THROW(second.listen({"127.0.0.1", port}), StoreError);
    EXPECT_THROW(second.listen({"192.0.2.1", 7070}), Error);
  }
  const std::string gone = error_of(client, {"127.0.0.1", port}, {});
  EXPECT_NE(gone.find("check that `tiermap serve` runs there"), std::string::npos) << gone;
}

}  // namespace
}  // namespace tiermap
