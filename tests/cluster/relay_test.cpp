// Relays in one process, each with a wire of its own: who asks the home how often, and that nobody is given what is
// older than he said.
#include "cluster/job/relay.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "cluster/job/rank_tree.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

/// Answers at once, with bytes that tell which sequence number they are of.
class FakeHome {
 public:
  Relay::AskHome asker() {
    return [this](const Piece& piece, const std::function<void(WireReply)>& done) {
      asked.fetch_add(1);
      WireReply reply;
      reply.status = status.load();
      reply.words[0] = sequence.load();
      const auto frame = std::make_shared<std::byte[]>(piece.bytes);
      std::memset(frame.get(), static_cast<int>(reply.words[0] & 0xffU), piece.bytes);
      reply.body = WireBody(frame, std::span<const std::byte>(frame.get(), piece.bytes));
      done(reply);
    };
  }
  std::atomic<std::uint64_t> sequence{1};
  std::atomic<std::uint64_t> asked{0};
  std::atomic<int> status{0};
};

/// A rank.
struct Station {
  Station(std::uint32_t rank, std::uint64_t most_bytes)
      : relay(rank, {}, 2000ms, most_bytes), wire(options(), &relay), port(wire.listen({"127.0.0.1", 0})) {}
  static WireOptions options() {
    ::setenv("UCX_TLS", "tcp,self", 1);
    WireOptions options;
    options.timeout = 2000ms;
    return options;
  }

  Relay relay;
  Wire wire;
  std::uint16_t port;
};

/// Rank n gets from rank n - 1.
class Chain {
 public:
  explicit Chain(std::uint32_t ranks, std::uint64_t most_bytes = 64 << 20) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      stations.push_back(std::make_unique<Station>(rank, most_bytes));
      std::shared_ptr<WireConnection> parent;
      if (rank > 0) {
        parent = stations[rank]->wire.connect({"127.0.0.1", stations[rank - 1]->port}, {});
      }
      stations[rank]->relay.begin(parent, home.asker(),
                                  rank + 1 < ranks ? std::vector{rank + 1} : std::vector<std::uint32_t>());
    }
  }
  Relay& relay(std::size_t rank) { return stations[rank]->relay; }

  FakeHome home;
  std::vector<std::unique_ptr<Station>> stations;
};

Piece piece_at(std::uint64_t number, std::uint32_t bytes = 4096) {
  return {0, 0, number * bytes, bytes};
}

TEST(RelayTest, ThePieceThatAllWantIsAskedForOnce) {
  Chain chain(3);
  const auto counters = std::make_shared<HomeCounters>();
  chain.relay(1).count(0, 0, counters);
  for (std::uint64_t number = 0; number < 50; ++number) {
    std::vector<std::shared_ptr<Pull>> pulls;
    for (const std::size_t rank : {number % 3, (number + 1) % 3, (number + 2) % 3}) {
      pulls.push_back(chain.relay(rank).start(piece_at(number), 1));
    }
    for (const std::shared_ptr<Pull>& pull : pulls) {
      EXPECT_EQ(pull->wait().status, 0);
      EXPECT_EQ(pull->wait().body.bytes().size(), 4096U);
    }
  }
  EXPECT_EQ(chain.home.asked, 50U);
  EXPECT_EQ(counters->pulls, 50U);
  EXPECT_EQ(counters->pulled_bytes, 50U * 4096);
  EXPECT_EQ(counters->handed_bytes, 50U * 4096);
  EXPECT_EQ(counters->fetches, 0U);
}

TEST(RelayTest, WhatIsTooOldIsAskedForAgain) {
  Chain chain(2);
  EXPECT_EQ(chain.relay(0).start(piece_at(0), 1)->wait().words[0], 1U);
  chain.home.sequence = 5;
  EXPECT_EQ(chain.relay(1).start(piece_at(0), 1)->wait().words[0], 1U);  // New enough, and taken by all now.
  EXPECT_EQ(chain.home.asked, 1U);
  EXPECT_EQ(chain.relay(0).start(piece_at(0), 1)->wait().words[0], 5U);
  chain.home.sequence = 9;
  EXPECT_EQ(chain.relay(1).start(piece_at(0), 6)->wait().words[0], 9U);
  EXPECT_EQ(chain.home.asked, 3U);
  EXPECT_EQ(chain.relay(1).start(piece_at(0), 10)->wait().status, -ESTALE);
}

TEST(RelayTest, NobodyIsGivenWhatIsOlderThanHeSaid) {
  for (const std::uint64_t most_bytes : {std::uint64_t{0}, std::uint64_t{20'000}, std::uint64_t{1} << 20U}) {
    Chain chain(3, most_bytes);
    std::atomic<bool> ends{false};
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < 6; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 random(thread);
        for (int turn = 0; turn < 400; ++turn) {
          const std::uint64_t least = chain.home.sequence.load();
          const std::shared_ptr<Pull> pull = chain.relay(thread % 3).start(piece_at(random() % 20), least);
          const WireReply& reply = pull->wait();
          ASSERT_EQ(reply.status, 0);
          ASSERT_GE(reply.words[0], least);
          for (const std::byte byte : reply.body.bytes()) {
            ASSERT_EQ(byte, static_cast<std::byte>(reply.words[0] & 0xffU));
          }
        }
      });
    }
    std::thread writer([&] {
      while (!ends) {
        chain.home.sequence.fetch_add(1);
        std::this_thread::sleep_for(1ms);
      }
    });
    for (std::thread& thread : threads) {
      thread.join();
    }
    ends = true;
    writer.join();
    EXPECT_LE(chain.home.asked, 2400U);
  }
}

TEST(RelayTest, NothingIsKeptBeyondTheRoomThereIs) {
  Chain chain(2, 10 * 4096);
  for (std::uint64_t number = 0; number < 30; ++number) {
    chain.relay(0).start(piece_at(number), 1)->wait();
  }
  EXPECT_EQ(chain.home.asked, 30U);
  for (std::uint64_t number = 20; number < 30; ++number) {
    chain.relay(1).start(piece_at(number), 1)->wait();
  }
  EXPECT_EQ(chain.home.asked, 30U);
  chain.relay(1).start(piece_at(19), 1)->wait();
  EXPECT_EQ(chain.home.asked, 31U);
  // And nothing of what is no more.
  chain.relay(0).start(piece_at(3), 1)->wait();
  chain.relay(0).forget(0, 0);
  chain.relay(1).start(piece_at(3), 1)->wait();
  EXPECT_EQ(chain.home.asked, 33U);
}

/// A small piece comes in a frame with others, and would keep the room of all of them.
TEST(RelayTest, WhatIsKeptIsNotWhatItCameIn) {
  std::weak_ptr<std::byte[]> came_in;
  Relay relay(0, {}, 2000ms, 1 << 20);
  relay.begin(nullptr,
              [&](const Piece& piece, const std::function<void(WireReply)>& done) {
                const auto frame = std::make_shared<std::byte[]>(64 << 10);
                std::memset(frame.get(), 7, piece.bytes);
                came_in = frame;
                WireReply reply;
                reply.words[0] = 1;
                reply.body = WireBody(frame, std::span<const std::byte>(frame.get(), piece.bytes));
                done(reply);
              },
              {1});
  EXPECT_EQ(relay.start(piece_at(0), 1)->wait().status, 0);
  EXPECT_TRUE(came_in.expired());
  const std::shared_ptr<Pull> again = relay.start(piece_at(0), 1);
  EXPECT_EQ(again->wait().body.bytes().size(), 4096U);
  EXPECT_EQ(again->wait().body.bytes().back(), std::byte{7});
  EXPECT_TRUE(came_in.expired());  // Nothing was asked for.
}

TEST(RelayTest, WhatFailsAboveFailsBelow) {
  Chain chain(3);
  chain.home.status = -EIO;
  EXPECT_EQ(chain.relay(2).start(piece_at(0), 1)->wait().status, -EIO);
  chain.home.status = 0;
  EXPECT_EQ(chain.relay(2).start(piece_at(0), 1)->wait().status, 0);
  chain.stations[0].reset();
  EXPECT_LT(chain.relay(1).start(piece_at(1), 1)->wait().status, 0);
  EXPECT_LT(chain.relay(2).start(piece_at(2), 1)->wait().status, 0);
  chain.relay(2).end();
  EXPECT_EQ(chain.relay(2).start(piece_at(3), 1)->wait().status, -ENOTCONN);
}

TEST(RelayTest, WhoIsNoChildIsAnsweredNothing) {
  Chain chain(2);
  Wire other(Station::options());
  const auto connection = other.connect({"127.0.0.1", chain.stations[0]->port}, {});
  const auto pull = [&](std::uint16_t kind, std::uint64_t rank, std::uint64_t bytes) {
    return connection->call(WireMessage(kind, {0, 0, rank << 32U | bytes, 1})).status;
  };
  EXPECT_EQ(pull(pull_request, 1, 4096), 0);
  EXPECT_EQ(pull(pull_request, 2, 4096), -EPROTO);
  EXPECT_EQ(pull(pull_request, 1, std::uint64_t{1} << 31U), -EPROTO);
  EXPECT_EQ(pull(7, 1, 4096), -EPROTO);
}

/// Against what the header says, for all small numbers of ranks and nodes.
TEST(RankTreeTest, NobodyHasMoreChildrenThanTheDegreeSaysAndAllAreReached) {
  for (std::uint32_t ranks = 1; ranks <= 40; ++ranks) {
    for (std::uint32_t nodes = 1; nodes <= ranks; ++nodes) {
      for (std::uint32_t degree = 1; degree <= 4; ++degree) {
        std::vector<std::string> hosts;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          hosts.push_back(std::to_string(rank * 7 % nodes));
        }
        const std::vector<std::uint32_t> parents = parents_in_tree(hosts, degree);
        std::vector<std::uint32_t> here(ranks);
        std::vector<std::uint32_t> elsewhere(ranks);
        std::vector<std::uint32_t> into(nodes);  // How often a node gets what is not on it.
        std::uint32_t from_home = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const std::uint32_t parent = parents[rank];
          ASSERT_TRUE(parent == no_parent || parent < rank);  // So that it ends at the home.
          const bool on_node = parent != no_parent && hosts[parent] == hosts[rank];
          into[std::stoul(hosts[rank])] += on_node ? 0 : 1;
          from_home += parent == no_parent ? 1 : 0;
          if (parent != no_parent) {
            ++(on_node ? here : elsewhere)[parent];
          }
        }
        ASSERT_LE(from_home, degree);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          ASSERT_LE(here[rank], degree);
          ASSERT_LE(elsewhere[rank], degree);
        }
        for (const std::uint32_t often : into) {
          ASSERT_LE(often, 1U);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tiermap
