// Tiers on memory servers: what they have is elsewhere too, so that a server may die at any time, and nothing of them
// is left on it.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>

#include "cluster/remote/memory_client.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/faulty_store.hpp"
#include "store/memory_store.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tier/tiered_store.hpp"
#include "tiermap/error.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t store_bytes = 100 * block_bytes + 1234;

TierOptions in_memory(std::uint64_t blocks) {
  TierOptions tier;
  tier.name = "dram";
  tier.capacity_bytes = blocks * block_bytes;
  return tier;
}

TierOptions on_server(const std::string& url, std::uint64_t blocks) {
  TierOptions tier;
  tier.name = "far";
  tier.kind = TierKind::remote;
  tier.url = url;
  tier.capacity_bytes = blocks * block_bytes;
  return tier;
}

class RemoteTierTest : public testing::Test {
 protected:
  /// Restless: all the time something moves.
  std::unique_ptr<TieredStore> open(std::vector<TierOptions> tiers) {
    TieringOptions options;
    options.tiers = std::move(tiers);
    options.block_bytes = block_bytes;
    options.organize_seconds = 0.001;
    options.write_down_seconds = 0.002;
    options.retry_seconds = 0.01;
    options.warn = [this](const std::string& line) {
      const std::lock_guard held(mutex_);
      told_.push_back(line);
    };
    return std::make_unique<TieredStore>(backing_, options);
  }
  std::vector<std::string> told() {
    const std::lock_guard held(mutex_);
    return told_;
  }
  /// Works on it, has its server fail, works on, and looks whether anything is lost.
  void expect_that_nothing_is_lost(const std::string& url, const std::function<void()>& fail) {
    std::vector<char> expected(store_bytes);
    {
      const auto store = open({in_memory(5), on_server(url, 60)});
      random_work(*store, expected, 0, store_bytes, 200, 1);
      EXPECT_TRUE(comes_true([&] { return store->reports()[1].used_bytes > 0; }));
      fail();
      random_work(*store, expected, 0, store_bytes, 200, 2);
      expect_equal(*store, expected);
      EXPECT_TRUE(comes_true([&] { return store->reports()[1].failed; }));
      EXPECT_EQ(store->flush(), 0);
      expect_equal(*backing_, expected);
      random_work(*store, expected, 0, store_bytes, 50, 3);
    }
    expect_equal(*backing_, expected);
    ASSERT_EQ(told().size(), 1U) << told().back();
    EXPECT_EQ(told()[0], "tier 'far' at '" + url + "' takes nothing more (" + std::strerror(EIO) +
                             "): slower ones are used; nothing is lost");
  }

  const std::shared_ptr<FaultyStore> backing_ =
      std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(store_bytes));
  std::mutex mutex_;
  std::vector<std::string> told_;
};

TEST_F(RemoteTierTest, all_is_in_the_backing_store_and_nothing_on_the_server_in_the_end) {
  const ServedStores served(1);
  std::vector<char> expected(store_bytes);
  {
    const auto store = open({in_memory(5), on_server("remote://" + served.hosts(), 20)});
    EXPECT_EQ(served.servers[0]->data_sets(), 1U);
    random_work(*store, expected, 0, store_bytes, 400, 1);
    expect_equal(*store, expected);
    EXPECT_GT(store->reports()[1].reads, 0U);
    EXPECT_EQ(store->reports()[1].dirty_bytes, 0U);
    random_work(*store, expected, 0, store_bytes, 100, 2);
  }
  expect_equal(*backing_, expected);
  EXPECT_EQ(served.servers[0]->data_sets(), 0U);
  EXPECT_EQ(told(), std::vector<std::string>());
}

TEST_F(RemoteTierTest, what_is_written_is_in_the_backing_store_at_once_where_no_other_tier_has_room) {
  const ServedStores served(1);
  const auto store = open({on_server("remote://" + served.hosts() + "/scratch", 200)});
  std::vector<char> expected(store_bytes);
  expect_equal(*store, expected);  // All of it comes into the tier.
  EXPECT_EQ(store->reports()[0].used_bytes, 101 * block_bytes);
  random_work(*store, expected, 0, store_bytes, 100, 3);
  expect_equal(*backing_, expected);
  EXPECT_GT(store->reports()[0].writes, 0U);
  // And what could not be written there is not read from the tier either.
  backing_->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  const std::vector<char> other(block_bytes, 'x');
  EXPECT_EQ(store->write(other.data(), other.size(), 7 * block_bytes), -EIO);
  backing_->on_write({});
  expect_equal(*store, expected);
}

TEST_F(RemoteTierTest, a_server_that_is_killed_takes_nothing_with_it) {
  ServerProcess server;
  expect_that_nothing_is_lost("remote://" + server.address, [&] {
    server.signal(SIGKILL);
    server.wait();
  });
}

TEST_F(RemoteTierTest, a_server_that_does_not_answer_in_time_is_left) {
  const ServerProcess server;
  expect_that_nothing_is_lost("remote://" + server.address + "/?timeout=1s", [&] { server.signal(SIGSTOP); });
  server.signal(SIGCONT);
}

TEST_F(RemoteTierTest, a_server_that_is_not_there_or_has_no_room_is_refused) {
  const auto refusal = [&](const TierOptions& tier) -> std::string {
    try {
      open({tier});
    } catch (const StoreError& error) {
      return error.what();
    }
    return "";
  };
  std::string gone;
  {
    const ServedStores served(1);
    gone = "remote://" + served.hosts();
    const std::string full = refusal(on_server(gone, 1 << 20));
    EXPECT_TRUE(full.starts_with("tier 'far': store '" + gone + "?temporary=true': server ")) << full;
    EXPECT_NE(full.find("of 16GiB does not fit: 64MiB are left in memory"), std::string::npos) << full;
    EXPECT_EQ(served.servers[0]->data_sets(), 0U);
  }
  const std::string missing = refusal(on_server(gone, 10));
  EXPECT_TRUE(missing.starts_with("tier 'far': store '" + gone)) << missing;
}

TEST_F(RemoteTierTest, nothing_is_made_where_a_tier_cannot_be) {
  const TemporaryDirectory directory;
  const ServedStores served(1);
  const std::string yaml = directory / "tiers.yaml";
  std::ofstream(yaml) << "block: 16KiB\ntiers:\n  - {url: 'remote://" << served.hosts() << "', capacity: 1MiB}\n"
                      << "  - {url: 'remote://" << served.hosts() << "?place=directory', capacity: 1MiB}\n";
  EXPECT_THROW(open_store("tiered:" + yaml + "?store=" + (directory / "made"), OpenMode::create, store_bytes),
               StoreError);
  EXPECT_FALSE(std::filesystem::exists(directory / "made"));
  EXPECT_EQ(served.servers[0]->data_sets(), 0U);
}

TEST(TemporaryDataSetTest, is_there_for_who_made_it_and_until_he_closes_it) {
  const ServedStores served(2);
  const std::string url = served.url("scratch", "?layout=replicated&temporary=true");
  {
    const auto one = open_store(url, OpenMode::create, 5000);
    const auto other = open_store(url, OpenMode::open_or_create, 5000);
    EXPECT_EQ(one->write("x", 1, 4999), 1);
    char byte = 1;
    EXPECT_EQ(other->read(&byte, 1, 4999), 1);
    EXPECT_EQ(byte, 0);
    EXPECT_EQ(served.servers[1]->data_sets(), 2U);
  }
  EXPECT_EQ(served.servers[0]->data_sets() + served.servers[1]->data_sets(), 0U);
  try {
    open_store(url, OpenMode::read_write);
    ADD_FAILURE() << "it was opened";
  } catch (const StoreError& error) {
    EXPECT_EQ(std::string(error.what()), "store '" + url +
                                             "': what is temporary is there for whoever makes it alone: "
                                             "leave out temporary=true");
  }
}

TEST(TemporaryDataSetTest, ends_with_the_connection_of_who_made_it) {
  const ServedStores served(1);
  Wire wire{WireOptions{}};
  const auto make = [&](const std::string& name, bool attaches) {
    MemoryClient client(wire, served.addresses[0], {});
    client.create({name, "", {}, {}, 40 << 20, 1, {}}, 40 << 20, true);
    DataSetFacts facts;
    if (attaches) {
      client.attach(name, true, facts);
    }
    EXPECT_EQ(client.list(name).size(), 1U);
    client.connection().close("the client has died");
  };
  make("attached", true);
  EXPECT_TRUE(comes_true([&] { return served.servers[0]->data_sets() == 0; }));
  make("not_attached", false);
  EXPECT_TRUE(comes_true([&] { return served.servers[0]->data_sets() == 0; }));
}

/// Who waits until a data set is loaded would take it for one, and read zeros.
TEST(TemporaryDataSetTest, is_nobody_elses_before_who_made_it_has_it) {
  const ServedStores served(1);
  Wire wire{WireOptions{}};
  MemoryClient maker(wire, served.addresses[0], {});
  maker.create({"set", "", {}, {}, 4096, 1, {}}, 4096, true);
  try {
    open_store(served.url("set"), OpenMode::read_only);
    ADD_FAILURE() << "it was opened";
  } catch (const StoreError& error) {
    EXPECT_NE(std::string(error.what()).find("is being made by another client"), std::string::npos) << error.what();
  }
  DataSetFacts facts;
  maker.attach("set", true, facts);
}

}  // namespace
}  // namespace tiermap
