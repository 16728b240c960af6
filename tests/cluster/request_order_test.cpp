// Requests of one client for the same bytes, sent one behind the other without waiting: done in that order.
#include "cluster/remote/remote_data_set.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

/// Each round writes all of it at once, more than the wire's own thread copies, and reads the last bytes behind that.
void expect_order(const ServerOptions& options, const std::string& place) {
  const ServedStores served(1, options);
  static_cast<void>(open_store(served.url("set", "?place=" + place), OpenMode::create, mebi));
  Wire wire{WireOptions{}};
  RemoteDataSet set(std::make_shared<MemoryClient>(wire, served.addresses[0], WireLogin{}), "set", true);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    const auto content = test_body(mebi, round);
    const std::uint64_t offset = mebi - 100;
    WireCall whole = set.start_write(0, content);
    WireCall before = set.start_read(offset, 50);
    const std::vector<std::byte> part(50, static_cast<std::byte>(round));
    WireCall small = set.start_write(offset, part);
    WireCall after = set.start_read(offset, 50);
    EXPECT_EQ(whole.wait().status, 0);
    EXPECT_EQ(small.wait().status, 0);
    EXPECT_TRUE(same_bytes(before.wait().body.bytes(), std::span(content).subspan(offset, 50))) << round;
    EXPECT_TRUE(same_bytes(after.wait().body.bytes(), part)) << round;
  }
}

TEST(RequestOrderTest, InMemory) {
  expect_order(test_server_options(), "memory");
}

TEST(RequestOrderTest, InFiles) {
  const TemporaryDirectory directory;
  ServerOptions options = test_server_options();
  options.directory = directory.path();
  options.directory_bytes = 2 * mebi;
  options.workers = {3, 3};
  expect_order(options, "directory");
}

}  // namespace
}  // namespace tiermap
