// What clients and ranks say of how soon they need pages, and what the tiers of a server make of it.
#include <cerrno>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "cluster/job/job_client.hpp"
#include "cluster/remote/memory_client.hpp"
#include "cluster/remote/remote_store.hpp"
#include "cluster/remote/score_sender.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/wire_fixture.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"
#include "tiermap/tiers.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t mebi = 1 << 20;

/// What lies behind the tiers: each element is its number. Remembers which blocks were read.
class BehindTiers final : public Store {
 public:
  explicit BehindTiers(std::uint64_t bytes) : numbers_(bytes / sizeof(std::uint64_t)) {
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }
  std::uint64_t size_bytes() const override { return numbers_.size() * sizeof(std::uint64_t); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::size_t got = std::min<std::uint64_t>(bytes, size_bytes() - std::min(size_bytes(), offset));
    const std::lock_guard lock(mutex_);
    std::memcpy(buffer, reinterpret_cast<const std::byte*>(numbers_.data()) + offset, got);
    for (std::uint64_t block = offset / block_bytes; block * block_bytes < offset + got; ++block) {
      read_.insert(block);
    }
    return static_cast<std::int64_t>(got);
  }
  bool writable() const override { return true; }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    std::memcpy(reinterpret_cast<std::byte*>(numbers_.data()) + offset, buffer, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::string name() const override { return "behind"; }

  std::multiset<std::uint64_t> read_blocks() const {
    const std::lock_guard lock(mutex_);
    return read_;
  }
  std::set<std::uint64_t> distinct_blocks() const {
    const std::multiset<std::uint64_t> all = read_blocks();
    return {all.begin(), all.end()};
  }

 private:
  std::vector<std::uint64_t> numbers_;
  mutable std::mutex mutex_;
  std::multiset<std::uint64_t> read_;
};

std::set<std::uint64_t> blocks_from(std::uint64_t first, std::uint64_t end) {
  std::set<std::uint64_t> blocks;
  for (std::uint64_t block = first; block < end; ++block) {
    blocks.insert(block);
  }
  return blocks;
}

/// A server of two data sets, "set" and "home", each with a tier of `tier_bytes` in front, or with none.
class ScoresTest : public testing::Test {
 protected:
  void serve(std::uint64_t bytes, std::uint64_t tier_bytes) {
    ServerOptions options = test_server_options();
    for (const auto& [name, store] : {std::pair{"set", &behind}, std::pair{"home", &behind_home}}) {
      *store = std::make_shared<BehindTiers>(bytes);
      ServedDataSet set;
      set.name = name;
      set.store = "behind";
      set.opened = *store;
      if (tier_bytes > 0) {
        set.tiers.emplace();
        set.tiers->block_bytes = block_bytes;
        set.tiers->organize_seconds = 0.002;
        set.tiers->score_window_seconds = 3600;
        set.tiers->tiers.resize(1);
        set.tiers->tiers[0].capacity_bytes = tier_bytes;
      }
      options.data_sets.push_back(set);
    }
    served = std::make_unique<ServedStores>(1, options);
  }
  std::unique_ptr<Store> open() const { return open_store(served->url("set"), OpenMode::read_only); }
  JobOptions job() const {
    JobOptions options;
    options.rank = 0;
    options.ranks = 1;
    options.servers = served->hosts();
    return options;
  }
  static void score(Store& store, std::uint64_t first, std::uint64_t end, double value, std::uint64_t sharer = 1) {
    store.score(first * block_bytes, (end - first) * block_bytes, value, sharer);
  }
  static bool were_read(const BehindTiers& store, const std::set<std::uint64_t>& blocks) {
    return comes_true([&] { return std::ranges::includes(store.distinct_blocks(), blocks); });
  }

  std::shared_ptr<BehindTiers> behind;
  std::shared_ptr<BehindTiers> behind_home;
  std::unique_ptr<ServedStores> served;
};

TEST_F(ScoresTest, WhatIsNeededSoonComesIntoTheTierAndNothingElseDoes) {
  serve(mebi, 16 * block_bytes);
  const auto store = open();
  EXPECT_GT(store->read_microseconds(0, block_bytes), 0);
  score(*store, 20, 24, 1);
  score(*store, 40, 44, 0.5);
  score(*store, 50, 54, 0);
  std::set<std::uint64_t> wanted = blocks_from(20, 24);
  wanted.merge(blocks_from(40, 44));
  EXPECT_TRUE(were_read(*behind, wanted));
  std::vector<std::byte> got(4 * block_bytes);
  for (const std::uint64_t first : {20U, 40U}) {
    EXPECT_EQ(store->read(got.data(), got.size(), first * block_bytes), static_cast<std::int64_t>(got.size()));
    EXPECT_EQ(reinterpret_cast<const std::uint64_t*>(got.data())[1], first * block_bytes / 8 + 1);
  }
  EXPECT_EQ(behind->read_blocks(), (std::multiset<std::uint64_t>(wanted.begin(), wanted.end())));
  EXPECT_GE(dynamic_cast<RemoteStore&>(*store).score_messages(), 1U);
}

TEST_F(ScoresTest, OfTwoClientsTheHigherScoreWinsUntilItIsTakenBack) {
  serve(mebi, 16 * block_bytes);  // Of which the organizer uses fifteen.
  const auto one = open();
  const auto other = open();
  score(*one, 0, 8, 1);
  ASSERT_TRUE(were_read(*behind, blocks_from(0, 8)));
  ASSERT_TRUE(comes_true([&] {
    score(*other, 0, 8, 0);
    score(*other, 8, 32, 0.5);
    return behind->distinct_blocks().size() >= 15;
  }));
  std::vector<std::byte> got(8 * block_bytes);
  EXPECT_EQ(one->read(got.data(), got.size(), 0), static_cast<std::int64_t>(got.size()));
  const std::multiset<std::uint64_t> read = behind->read_blocks();
  for (std::uint64_t block = 0; block < 8; ++block) {
    EXPECT_EQ(read.count(block), 1U) << block;
  }
  score(*one, 0, 8, 0);
  EXPECT_TRUE(comes_true([&] {
    score(*other, 8, 32, 0.5);
    return behind->distinct_blocks().size() >= 8 + 15;
  }));
}

TEST_F(ScoresTest, ATransactionOfARankSaysWhatComesAfterItsWindow) {
  constexpr std::uint64_t pages = 512;
  serve(pages * block_bytes, 384 * block_bytes);
  Job only(job());
  SharedVectorOptions options;
  options.page_size_bytes = block_bytes;
  options.budget_bytes = 2 * mebi;
  options.advice = Advice::random;
  options.read_ahead_bytes = 0;
  auto vector = SharedVector<std::uint64_t>::open(only, "home", options);
  vector.set_phase(Phase::read_only);
  const std::uint64_t questions = vector.statistics().questions;
  // Half of three quarters of the budget are fetched, and four times as much is said to be needed after that.
  constexpr std::uint64_t window = 48;
  {
    auto transaction = vector.read(vector.all());
    EXPECT_EQ(transaction.next()[0], 0U);
    EXPECT_TRUE(were_read(*behind_home, blocks_from(0, 5 * window)));
    EXPECT_EQ(behind_home->distinct_blocks(), blocks_from(0, 5 * window));
  }
  std::uint64_t next = 0;
  vector.read(vector.all()).for_each([&](std::uint64_t number) { EXPECT_EQ(number, next++); });
  const SharedStatistics counted = vector.statistics();
  EXPECT_GT(counted.scores, 0U);
  EXPECT_EQ(counted.score_bytes % sizeof(ScoredRange), 0U);
  EXPECT_GE(counted.score_bytes, counted.scores * sizeof(ScoredRange));
  EXPECT_EQ(counted.questions, questions);
  vector.close();
  only.end();
}

TEST_F(ScoresTest, WithoutTiersNothingIsSaid) {
  serve(4 * mebi, 0);
  {
    const auto store = open();
    EXPECT_EQ(store->read_microseconds(0, block_bytes), 0);
    score(*store, 0, 8, 1);
    EXPECT_EQ(dynamic_cast<RemoteStore&>(*store).score_messages(), 0U);
  }
  Job only(job());
  SharedVectorOptions options;
  options.page_size_bytes = block_bytes;
  options.budget_bytes = mebi;
  auto vector = SharedVector<std::uint64_t>::open(only, "home", options);
  std::uint64_t next = 0;
  vector.read(vector.all()).for_each([&](std::uint64_t number) { EXPECT_EQ(number, next++); });
  EXPECT_EQ(vector.statistics().scores, 0U);
  EXPECT_EQ(vector.statistics().score_bytes, 0U);
  vector.close();
  auto made = SharedVector<std::uint64_t>::create(only, "made", mebi / 8, options);
  made.read_write(made.all()).for_each([](std::uint64_t& number) { ++number; });
  EXPECT_EQ(made.statistics().scores, 0U);
  made.close();
  only.end();
}

std::vector<ScoredRange> ranges_of(std::size_t count, const ScoredRange& range) {
  return std::vector<ScoredRange>(count, range);
}

TEST_F(ScoresTest, WhatIsNoScoreOfTheDataSetIsRefused) {
  serve(mebi, 16 * block_bytes);
  Wire wire{WireOptions{}};
  MemoryClient client(wire, served->addresses[0], {});
  DataSetFacts facts;
  const std::uint64_t handle = client.attach("set", false, facts);
  EXPECT_GT(facts.read_nanoseconds, 0U);
  JobPlace place;
  place.name = "job";
  place.servers = served->addresses;
  JobClient rank(place);
  const std::uint64_t home = rank.ask(0, JobRequest::open, {0, 0, 0, 0}, "home").words[0];
  const auto status = [&](std::uint64_t whose_handle, std::span<const std::byte> body) {
    return client.connection()
        .call(WireMessage(static_cast<std::uint16_t>(MemoryRequest::score), {whose_handle, 0, 0, 0}, body))
        .status;
  };
  const auto expect = [&](int wanted, std::span<const std::byte> body) {
    EXPECT_EQ(status(handle, body), wanted);
    EXPECT_EQ(rank.start(0, JobRequest::score, {home, 0, 0, 0}, body).wait().status, wanted);
  };
  const auto expect_of = [&](int wanted, const std::vector<ScoredRange>& ranges) {
    expect(wanted, std::as_bytes(std::span(ranges)));
  };
  expect_of(0, {{mebi - 1, 1, 65535, 3}});
  expect_of(-ERANGE, {{0, 4096, 65535, 3}, {mebi - 1, 2, 65535, 3}});
  expect_of(-ERANGE, {{mebi, 1, 1, 1}});
  expect_of(-ERANGE, {{UINT64_MAX, 1, 1, 1}});
  expect_of(-ERANGE, {{0, 0, 1, 1}});
  expect_of(-ERANGE, ranges_of(most_scored_ranges + 1, {0, 1, 1, 1}));
  expect_of(0, ranges_of(most_scored_ranges, {0, mebi, 0, 1}));
  expect(-EPROTO, {});
  const std::vector<std::byte> cut(sizeof(ScoredRange) + 1);
  expect(-EPROTO, cut);
  const std::vector<ScoredRange> one = {{0, 1, 1, 1}};
  EXPECT_EQ(status(handle + 1, std::as_bytes(std::span(one))), -EBADF);
  EXPECT_EQ(rank.start(0, JobRequest::score, {home + 1, 0, 0, 0}, std::as_bytes(std::span(one))).wait().status, -EBADF);
  const auto store = open();
  std::uint64_t number = 1;
  EXPECT_EQ(store->read(&number, 8, 0), 8);
  EXPECT_EQ(number, 0U);
  rank.leave();
}

TEST(ScoredRangesTest, OneMessageSpeaksOfSoMuchAndNoMore) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 40U;
  constexpr std::uint32_t half = 1U << 29U;
  std::vector<ScoredRange> taken;
  std::vector<ScoredRange> said = {{0, half, 1, 1}, {limit - half, half, 2, 1}};
  EXPECT_EQ(decode_scores(std::as_bytes(std::span(said)), limit, taken), 0);
  EXPECT_EQ(taken.size(), 2U);
  said.push_back({0, 1, 1, 1});
  EXPECT_EQ(decode_scores(std::as_bytes(std::span(said)), limit, taken), -ERANGE);
  EXPECT_TRUE(taken.empty());
}

/// Keeps what is sent until the test answers. Who waits for an answer keeps it: forget() at the end.
class SilentConnection final : public WireConnection {
 public:
  WireCall start(WireMessage, std::optional<std::chrono::milliseconds>) override { throw std::logic_error("waits"); }
  WireCall start(WireMessage) override { throw std::logic_error("waits"); }
  void start_then(WireMessage request, std::optional<std::chrono::milliseconds>,
                  std::function<void(WireReply)> done) override {
    sent.emplace_back(request.body().size() / sizeof(ScoredRange));
    std::memcpy(sent.back().data(), request.body().data(), request.body().size());
    answers.push_back(std::move(done));
  }
  int get(const RemoteMemory&, std::uint64_t, std::span<std::byte>) override { return -ENOTSUP; }
  const std::string& user() const noexcept override { return nobody_; }
  const std::string& peer() const noexcept override { return nobody_; }
  std::uint32_t largest_body() const noexcept override { return 4 << 20; }
  bool open() const noexcept override { return true; }
  std::string failure() const override { return ""; }
  void close(const std::string&) override {}
  void forget() { answers.clear(); }
  void answer(std::int32_t status) { std::exchange(answers.back(), nullptr)({status, {}, {}}); }

  std::vector<std::vector<ScoredRange>> sent;
  std::vector<std::function<void(WireReply)>> answers;

 private:
  const std::string nobody_;
};

TEST(ScoreSenderTest, OneMessageIsUnderWayAndWhatDoesNotFitIntoTheNextIsLost) {
  const auto connection = std::make_shared<SilentConnection>();
  const auto sender = std::make_shared<ScoreSender>(connection, std::uint16_t{1}, 5);
  sender->add({0, 4096, 9, 1});
  ASSERT_EQ(connection->sent.size(), 1U);
  for (std::uint64_t number = 0; number < 2 * most_scored_ranges; ++number) {
    sender->add({2 * number * 4096, 4096, 9, 1});
  }
  EXPECT_EQ(connection->sent.size(), 1U);
  connection->answer(0);
  ASSERT_EQ(connection->sent.size(), 2U);
  EXPECT_EQ(connection->sent[1].size(), most_scored_ranges);
  EXPECT_EQ(connection->sent[1].back().offset, 2 * (most_scored_ranges - 1) * 4096);
  connection->answer(0);
  EXPECT_EQ(connection->sent.size(), 2U);
  EXPECT_EQ(sender->messages(), 2U);
  EXPECT_EQ(sender->bytes(), (1 + most_scored_ranges) * sizeof(ScoredRange));
  connection->forget();
}

TEST(ScoreSenderTest, WhatLiesSideBySideAndIsNeededAsSoonIsOneRange) {
  const auto connection = std::make_shared<SilentConnection>();
  const auto sender = std::make_shared<ScoreSender>(connection, std::uint16_t{1}, 5);
  sender->add({0, 4096, 9, 1});
  sender->add({4096, 4096, 9, 1});
  sender->add({8192, 4096, 9, 1});
  sender->add({12288, 4096, 8, 1});
  sender->add({16384, 4096, 8, 2});
  connection->answer(0);
  ASSERT_EQ(connection->sent.size(), 2U);
  ASSERT_EQ(connection->sent[1].size(), 3U);
  EXPECT_EQ(connection->sent[1][0].offset, 4096U);
  EXPECT_EQ(connection->sent[1][0].bytes, 8192U);
  connection->forget();
}

TEST(ScoreSenderTest, AServerThatRefusesIsSentNoMore) {
  const auto connection = std::make_shared<SilentConnection>();
  const auto sender = std::make_shared<ScoreSender>(connection, std::uint16_t{1}, 5);
  sender->add({0, 4096, 9, 1});
  sender->add({0, 4096, 0, 1});
  connection->answer(-ECONNRESET);
  sender->add({0, 4096, 9, 1});
  EXPECT_EQ(connection->sent.size(), 1U);
  connection->forget();
}

TEST(DataSetScoresTest, OfAStripedDataSetEachServerHearsOfItsOwn) {
  DataSetLayout layout;
  layout.kind = DataSetLayout::Kind::striped;
  layout.servers = 2;
  layout.stripe_bytes = mebi;
  DataSetScores scores{DataSetPlacement(layout)};
  std::vector<std::shared_ptr<SilentConnection>> connections;
  for (int server = 0; server < 2; ++server) {
    connections.push_back(std::make_shared<SilentConnection>());
    scores.add_server(std::make_shared<ScoreSender>(connections.back(), std::uint16_t{1}, 5), 1000);
  }
  EXPECT_EQ(scores.read_microseconds(128 << 10), 2);
  scores.score(3 * mebi / 2, 3 * mebi, 0.5, 77);
  connections[0]->answer(0);
  connections[1]->answer(0);
  ASSERT_EQ(connections[1]->sent.size(), 2U);
  EXPECT_EQ(connections[1]->sent[0][0].offset, mebi / 2);
  EXPECT_EQ(connections[1]->sent[0][0].bytes, mebi / 2);
  EXPECT_EQ(connections[1]->sent[1][0].offset, mebi);
  EXPECT_EQ(connections[1]->sent[1][0].score, 32768U);
  ASSERT_EQ(connections[0]->sent.size(), 2U);
  EXPECT_EQ(connections[0]->sent[1][0].offset, 2 * mebi);
  EXPECT_EQ(connections[0]->sent[1][0].bytes, mebi / 2);
  EXPECT_EQ(scores.messages(), 4U);
  connections[0]->forget();
  connections[1]->forget();
}

TEST(DataSetScoresTest, PagesOfNearlyTheSameScoreAreFewRanges) {
  DataSetScores scores{DataSetPlacement(DataSetLayout())};
  const auto connection = std::make_shared<SilentConnection>();
  scores.add_server(std::make_shared<ScoreSender>(connection, std::uint16_t{1}, 5), 1000);
  scores.score(0, 1, 0, 1);
  constexpr std::uint64_t pages = 10'000;
  for (std::uint64_t page = 0; page < pages; ++page) {
    scores.score(page * 4096, 4096, 1 - static_cast<double>(page) / pages, 1);
  }
  connection->answer(0);
  ASSERT_EQ(connection->sent.size(), 2U);
  const std::vector<ScoredRange>& ranges = connection->sent[1];
  EXPECT_EQ(ranges.size(), 64U);
  EXPECT_EQ(ranges.front().score, 65535U);
  EXPECT_EQ(ranges.back().score, 1024U);
  EXPECT_EQ(ranges.back().offset + ranges.back().bytes, pages * 4096);
  connection->forget();
}

}  // namespace
}  // namespace tiermap
