// What is let go of, and what is under way meanwhile: others find it free when they are told that it is.
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "cluster/job/job_client.hpp"
#include "cluster/remote/remote_data_set.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Is read when the test lets it be.
class ReadLater final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 4096; }
  bool writable() const override { return true; }
  std::string name() const override { return "later"; }
  std::int64_t read(void*, std::size_t bytes, std::uint64_t) override {
    std::unique_lock lock(mutex_);
    reading_ = true;
    changed_.wait(lock, [this] { return may_read_; });
    return static_cast<std::int64_t>(bytes);
  }
  bool reading() {
    const std::lock_guard lock(mutex_);
    return reading_;
  }
  void let_read() {
    const std::lock_guard lock(mutex_);
    may_read_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reading_ = false;
  bool may_read_ = false;
};

/// With one data set, "later", of that store.
ServerOptions with_store(const std::shared_ptr<ReadLater>& later) {
  ServerOptions options = test_server_options("later", later);
  options.workers = {1, 1};
  return options;
}

TEST(LettingGoTest, WhoHasLetGoIsAnsweredWhenOthersMayHaveIt) {
  const auto later = std::make_shared<ReadLater>();
  const ServedStores served(1, with_store(later));
  Wire wire{WireOptions{}};
  const auto client = std::make_shared<MemoryClient>(wire, served.addresses[0], WireLogin{});
  DataSetFacts facts;
  const std::uint64_t handle = client->attach("later", true, facts);
  WireCall read = client->connection().start(
      WireMessage(static_cast<std::uint16_t>(MemoryRequest::read), {handle, 0, 512, 0}), std::nullopt);
  EXPECT_TRUE(comes_true([&] { return later->reading(); }));
  std::atomic<bool> has_let_go{false};
  client->connection().start_then(WireMessage(static_cast<std::uint16_t>(MemoryRequest::detach), {handle, 0, 0, 0}),
                                  std::nullopt, [&](const WireReply& reply) { has_let_go = reply.status == 0; });
  EXPECT_THROW(client->attach("later", true, facts),
               StoreError);  // Which is answered later than what was asked before.
  EXPECT_FALSE(has_let_go);
  later->let_read();
  EXPECT_EQ(read.wait().status, 0);
  EXPECT_TRUE(comes_true([&] { return has_let_go.load(); }));
  EXPECT_NO_THROW(client->attach("later", true, facts));
}

/// As a hint of another rank's that nobody waits for.
TEST(LettingGoTest, AVectorMayFollowAnotherOfItsNameOfWhichSomethingIsUnderWay) {
  const TemporaryDirectory directory;
  const auto later = std::make_shared<ReadLater>();
  ServerOptions options = with_store(later);
  options.memory_bytes = 0;
  options.directory = directory.path();
  options.directory_bytes = 1 << 20;
  const ServedStores served(1, options);
  Wire wire{WireOptions{}};
  RemoteDataSet busy(std::make_shared<MemoryClient>(wire, served.addresses[0], WireLogin{}), "later", true);
  WireCall read = busy.start_read(0, 512);
  EXPECT_TRUE(comes_true([&] { return later->reading(); }));
  JobPlace place;
  place.name = "job";
  place.servers = served.addresses;
  JobClient rank(place);
  const WireWords words = rank.ask(0, JobRequest::open, {4096, 1, 0, 0}, "v").words;
  WireCall hint = rank.start(0, JobRequest::changes, {words[0], 0, 0, 0});
  rank.ask(0, JobRequest::destroy, {words[0], 0, 0, 0}, "");
  EXPECT_NO_THROW(rank.ask(0, JobRequest::open, {4096, 1, 0, 0}, "v"));
  later->let_read();
  EXPECT_EQ(read.wait().status, 0);
  EXPECT_EQ(hint.wait().status, 0);
  rank.leave();
}

}  // namespace
}  // namespace tiermap
