// What a rank that is lost has sent to a server's disks is done before another rank is told that nothing more comes.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "cluster/job/job_client.hpp"
#include "cluster/job/job_protocol.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/wire_fixture.hpp"

namespace tiermap {
namespace {

/// As slow a disk as the test wants: writes wait until it lets them.
class SlowStore final : public Store {
 public:
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    std::memcpy(buffer, bytes_.data() + offset, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    std::unique_lock lock(mutex_);
    waits_ = true;
    may_write_.wait(lock, [&] { return !held_; });
    std::memcpy(bytes_.data() + offset, buffer, bytes);
    written_ = true;
    return static_cast<std::int64_t>(bytes);
  }
  std::string name() const override { return "slow"; }

  bool waits() const {
    const std::lock_guard lock(mutex_);
    return waits_;
  }
  bool written() const {
    const std::lock_guard lock(mutex_);
    return written_;
  }
  void let_write() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    may_write_.notify_all();
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(64 << 10);
  mutable std::mutex mutex_;
  std::condition_variable may_write_;
  bool held_ = true;
  bool waits_ = false;
  bool written_ = false;
};

TEST(FenceTest, ItIsAnsweredWhenTheDisksHaveWhatTheLostRankSent) {
  const auto slow = std::make_shared<SlowStore>();
  ServerOptions options = test_server_options("home", slow);
  const ServedStores served(1, options);
  const auto place_of = [&](std::uint32_t number) {
    JobPlace place;
    place.name = "job";
    place.rank = number;
    place.ranks = 2;
    place.servers = served.addresses;
    place.goes_on = true;
    return place;
  };
  std::unique_ptr<JobClient> lost;
  std::thread joining([&] { lost = std::make_unique<JobClient>(place_of(0)); });
  JobClient left(place_of(1));
  joining.join();
  const std::uint64_t handle = lost->ask(0, JobRequest::open, {0, 0, 0, 0}, "home").words[0];

  ChangeList list;
  list.add(0, test_body(home_block_bytes, 1));
  lost->start(0, JobRequest::change, {handle, 0, 0, 0}, list.encoded());
  EXPECT_TRUE(comes_true([&] { return slow->waits(); }));
  lost->server(0).close("it is killed");
  EXPECT_TRUE(comes_true([&] { return !left.ask(0, JobRequest::lost, {}, "").body.bytes().empty(); }));

  std::atomic<bool> answered{false};
  std::atomic<bool> was_written{false};
  const std::uint32_t rank = 0;
  left.server(0).start_then(
      WireMessage(static_cast<std::uint16_t>(JobRequest::fence), {}, std::as_bytes(std::span(&rank, 1))), std::nullopt,
      [&](const WireReply& reply) {
        EXPECT_EQ(reply.status, 0);
        was_written = slow->written();
        answered = true;
      });
  left.ask(0, JobRequest::fetch_add, {1, 0, 0, 0}, "what was asked later is answered later, if nothing waits");
  EXPECT_FALSE(answered);
  slow->let_write();
  EXPECT_TRUE(comes_true([&] { return answered.load(); }));
  EXPECT_TRUE(was_written);
  left.leave();
}

}  // namespace
}  // namespace tiermap
