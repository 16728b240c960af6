// What takes long on a server keeps nobody else waiting: a thread of its own answers everybody.
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "cluster/job/job_client.hpp"
#include "cluster/remote/memory_client.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

/// Takes its time to be durable.
class SlowlyFlushed final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 4096; }
  std::int64_t read(void*, std::size_t, std::uint64_t) override { return 0; }
  bool writable() const override { return true; }
  std::string name() const override { return "slow"; }
  int flush() override {
    std::call_once(once, [this] {
      begun.set_value();
      may_end.get_future().wait();
    });
    return 0;
  }
  std::once_flag once;
  std::promise<void> begun;
  std::promise<void> may_end;
};

/// Is written when the test lets it be.
class SlowlyWritten final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 4096; }
  std::int64_t read(void*, std::size_t, std::uint64_t) override { return 0; }
  bool writable() const override { return true; }
  std::string name() const override { return "slow"; }
  std::int64_t write(const void*, std::size_t bytes, std::uint64_t) override {
    begun.set_value();
    may_end.get_future().wait();
    return static_cast<std::int64_t>(bytes);
  }
  std::promise<void> begun;
  std::promise<void> may_end;
};

/// Its tiers bring down what they have, at half a mebibyte a second.
TEST(ServerSilenceTest, OthersAreAnsweredWhileAVectorIsDestroyed) {
  ServerOptions options = test_server_options();
  options.memory_bytes = 0;
  options.directory = testing::TempDir();
  options.directory_bytes = 8 * mebi;
  options.tiers.emplace();
  options.tiers->backing_bytes_per_second = static_cast<double>(mebi) / 2;
  options.tiers->backing_emulated = true;
  options.tiers->write_down_seconds = 3600;
  options.tiers->tiers.resize(1);
  options.tiers->tiers[0].capacity_bytes = 4 * mebi;
  const ServedStores served(1, options);
  Job job(one_rank_on(served));
  auto numbers = SharedVector<std::uint64_t>::create(job, "numbers", 2 * mebi / sizeof(std::uint64_t));
  for (std::uint64_t& number : numbers.span({0, numbers.size()})) {
    number = 7;
  }
  numbers.release();
  Wire wire{WireOptions()};
  MemoryClient bystander(wire, served.addresses[0], {});
  std::atomic<bool> destroyed{false};
  std::thread destroying([&] {
    numbers.destroy();
    destroyed.store(true);
  });
  // It is out of the list when the tiers begin to bring down what they have, which takes four seconds.
  EXPECT_TRUE(comes_true([&] { return bystander.list("").empty(); }));
  for (int times = 0; times < 20; ++times) {
    EXPECT_TRUE(bystander.list("").empty());
  }
  EXPECT_FALSE(destroyed.load());
  destroying.join();
  job.end();
}

/// A tier of its data sets is another server's, which is there and says nothing.
TEST(ServerSilenceTest, OthersAreAnsweredWhileAVectorIsMade) {
  const ServerProcess silent;
  ASSERT_TRUE(silent.signal(SIGSTOP));
  ServerOptions options = test_server_options();
  options.memory_bytes = 0;
  options.directory = testing::TempDir();
  options.directory_bytes = 8 * mebi;
  options.tiers.emplace();
  options.tiers->tiers.resize(1);
  options.tiers->tiers[0].name = "far";
  options.tiers->tiers[0].kind = TierKind::remote;
  options.tiers->tiers[0].url = "remote://" + silent.address + "?timeout=6s";
  options.tiers->tiers[0].capacity_bytes = mebi;
  const ServedStores served(1, options);
  Job job(one_rank_on(served));
  WireOptions impatient;
  impatient.timeout = std::chrono::seconds(4);
  Wire wire(impatient);
  MemoryClient bystander(wire, served.addresses[0], {});
  DataSetFacts facts;
  std::atomic<bool> made{false};
  std::thread making([&] {
    EXPECT_THROW(SharedVector<std::uint64_t>::create(job, "numbers", 1024), StoreError);
    made.store(true);
  });
  do {
    EXPECT_THROW(bystander.attach("none", true, facts), StoreError);
    EXPECT_TRUE(bystander.connection().open()) << bystander.connection().failure();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (!made.load());
  making.join();
  job.end();
}

/// Another rank may make one of the same name at once.
TEST(ServerSilenceTest, AVectorsNameIsFreeWhileWhoLetsGoOfItIsBusy) {
  const auto slow = std::make_shared<SlowlyFlushed>();
  ServerOptions options = test_server_options("slow", slow);
  options.workers = {1, 1};
  const ServedStores served(1, options);
  Job job(one_rank_on(served));
  auto numbers = SharedVector<std::uint64_t>::create(job, "numbers", 1024);
  Wire wire{WireOptions()};
  MemoryClient bystander(wire, served.addresses[0], {});
  DataSetFacts facts;
  const std::uint64_t handle = bystander.attach("slow", true, facts);
  WireCall flush = bystander.connection().start(
      WireMessage(static_cast<std::uint16_t>(MemoryRequest::flush), {handle, 0, 0, 0}), std::nullopt);
  slow->begun.get_future().wait();
  std::thread destroying([&] { numbers.destroy(); });
  EXPECT_TRUE(comes_true([&] { return bystander.list("").size() == 1; }));
  slow->may_end.set_value();
  destroying.join();
  EXPECT_EQ(flush.wait().status, 0);
  job.end();
}

/// It is gone when the server comes to it, and who would be told that it does not answer would take it for there.
TEST(ServerSilenceTest, WhoMakesAndDropsADataSetWaitsForAServerThatIsBusy) {
  const auto slow = std::make_shared<SlowlyFlushed>();
  ServerOptions options = test_server_options("slow", slow);
  options.workers = {1, 1};
  const ServedStores served(1, options);
  WireOptions impatient;
  impatient.timeout = std::chrono::milliseconds(500);
  Wire wire(impatient);
  MemoryClient flushing(wire, served.addresses[0], {});
  DataSetFacts facts;
  const std::uint64_t handle = flushing.attach("slow", true, facts);
  WireCall flush = flushing.connection().start(
      WireMessage(static_cast<std::uint16_t>(MemoryRequest::flush), {handle, 0, 0, 0}), std::nullopt);
  slow->begun.get_future().wait();
  auto done = std::async(std::launch::async, [&] {
    MemoryClient client(wire, served.addresses[0], {});
    client.create({"set", "memory", {}, {}, mebi, 7, {}}, mebi);
    client.drop("set");
    return client.list("set").size();
  });
  EXPECT_EQ(done.wait_for(std::chrono::milliseconds(1500)), std::future_status::timeout);
  slow->may_end.set_value();
  EXPECT_EQ(done.get(), 0U);
  EXPECT_EQ(flush.wait().status, 0);
}

/// Ranks open a vector one by one, and who has it writes to it.
TEST(ServerSilenceTest, OthersAreAnsweredWhileARankOpensWhatAnotherWrites) {
  const auto slow = std::make_shared<SlowlyWritten>();
  ServerOptions options = test_server_options("home", slow);
  const ServedStores served(1, options);
  JobPlace place;
  place.name = "job";
  place.ranks = 2;
  place.servers = served.addresses;
  std::unique_ptr<JobClient> first;
  std::thread joining([&, place] { first = std::make_unique<JobClient>(place); });
  place.rank = 1;
  JobClient second(place);
  joining.join();
  const std::uint64_t handle = first->ask(0, JobRequest::open, {0, 0, 0, 0}, "home").words[0];
  ChangeList list;
  list.add(0, test_body(512, 1));
  WireCall change = first->start(0, JobRequest::change, {handle, 0, 0, 0}, list.encoded());
  slow->begun.get_future().wait();
  WireCall open = second.start(0, JobRequest::open, {0, 0, 0, 0}, std::as_bytes(std::span("home", 4)));
  std::atomic<bool> answered{false};
  second.server(0).start_then(WireMessage(static_cast<std::uint16_t>(MemoryRequest::list)), std::nullopt,
                              [&](const WireReply& reply) { answered = reply.status == 0; });
  EXPECT_TRUE(comes_true([&] { return answered.load(); }, std::chrono::seconds(10)));
  slow->may_end.set_value();
  EXPECT_EQ(change.wait().status, 0);
  EXPECT_EQ(open.wait().status, 0);
  std::thread leaving([&] { EXPECT_NO_THROW(first->leave()); });
  EXPECT_NO_THROW(second.leave());
  leaving.join();
}

}  // namespace
}  // namespace tiermap
