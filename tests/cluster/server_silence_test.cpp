// What takes long on a server keeps nobody else waiting: a thread of its own answers everybody.
#include <atomic>
#include <thread>

#include "cluster/remote/memory_client.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/wire_fixture.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

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
  JobOptions one_rank;
  one_rank.rank = 0;
  one_rank.ranks = 1;
  one_rank.servers = served.hosts();
  Job job(one_rank);
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

}  // namespace
}  // namespace tiermap
