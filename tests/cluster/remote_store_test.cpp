// The remote: store against real servers on loopback.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "cluster/remote/remote_data_set.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/forwarding_store.hpp"
#include "store/memory_store.hpp"
#include "tiermap/error.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

std::string open_refusal(const std::string& url, OpenMode mode, std::uint64_t bytes = 0) {
  return refusal([&] { open_store(url, mode, bytes); });
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// The environment's secret, for as long as it lives.
class Secret {
 public:
  Secret(const char* user, const char* secret) {
    ::setenv("TIERMAP_USER", user, 1);
    ::setenv("TIERMAP_SECRET", secret, 1);
  }
  ~Secret() {
    ::unsetenv("TIERMAP_USER");
    ::unsetenv("TIERMAP_SECRET");
  }
};

void fill(Store& store, std::uint64_t seed) {
  const auto content = test_body(store.size_bytes(), seed);
  ASSERT_EQ(store.write(content.data(), content.size(), 0), static_cast<std::int64_t>(content.size()));
}

bool holds(Store& store, std::uint64_t seed) {
  std::vector<std::byte> got(store.size_bytes());
  return store.read(got.data(), got.size(), 0) == static_cast<std::int64_t>(got.size()) &&
         same_bytes(got, test_body(got.size(), seed));
}

TEST(RemoteStoreTest, WhatIsWrittenStaysOnTheServer) {
  const ServedStores served(1);
  const std::string url = served.url("points");
  {
    const auto store = open_store(url, OpenMode::create, 3 * mebi + 17);
    EXPECT_EQ(store->size_bytes(), 3 * mebi + 17);
    fill(*store, 1);
    EXPECT_EQ(store->flush(), 0);
  }
  EXPECT_TRUE(holds(*open_store(url, OpenMode::read_only), 1));
  EXPECT_TRUE(holds(*open_store(url, OpenMode::open_or_create, 5), 1));
  {
    const auto store = open_store(url, OpenMode::read_write);
    EXPECT_EQ(store->resize(mebi), 0);
    EXPECT_EQ(store->size_bytes(), mebi);
  }
  EXPECT_EQ(open_store(url, OpenMode::read_only)->size_bytes(), mebi);
}

TEST(RemoteStoreTest, ARegionOverIt) {
  const ServedStores served(2);
  const std::string url = served.url("region", "?layout=striped&stripe=64KiB");
  CacheOptions options;
  options.budget_bytes = 4 * mebi;
  {
    Cache cache(options);
    RegionOptions writing;
    writing.access = Access::read_write;
    Region region = cache.map(open_store(url, OpenMode::create, 16 * mebi), writing);
    auto* const words = reinterpret_cast<std::uint64_t*>(region.data());
    for (std::uint64_t word = 0; word < 2 * mebi; ++word) {
      words[word] = word * 3;
    }
    region.sync();
  }
  Cache cache(options);
  Region region = cache.map(open_store(url, OpenMode::read_only));
  const auto* const words = reinterpret_cast<const std::uint64_t*>(region.data());
  std::uint64_t wrong = 0;
  for (std::uint64_t word = 0; word < 2 * mebi; ++word) {
    wrong += words[word] == word * 3 ? 0U : 1U;
  }
  EXPECT_EQ(wrong, 0U);
}

TEST(RemoteStoreTest, OneWritesOrManyRead) {
  const ServedStores served(1);
  const std::string url = served.url("shared");
  auto writer = open_store(url, OpenMode::create, mebi);
  EXPECT_SAYS(open_refusal(url, OpenMode::read_write), "is being written by");
  EXPECT_SAYS(open_refusal(url, OpenMode::read_only), "is being written by");
  EXPECT_SAYS(open_refusal(url, OpenMode::create, mebi), "is there already");
  writer.reset();
  auto reader = open_store(url, OpenMode::read_only);
  auto another = open_store(url, OpenMode::read_only);
  EXPECT_SAYS(open_refusal(url, OpenMode::read_write), "is being read by 2 clients");
  char byte = 1;
  EXPECT_EQ(reader->write(&byte, 1, 0), -EROFS);
  reader.reset();
  another.reset();
  EXPECT_EQ(open_refusal(url, OpenMode::read_write), "");
}

TEST(RemoteStoreTest, WrongUrls) {
  const ServedStores served(2);
  const std::string hosts = served.hosts();
  const std::string one = served.addresses[0].text();
  EXPECT_SAYS(open_refusal("remote://" + one + "/missing", OpenMode::read_only), "is not here");
  EXPECT_SAYS(open_refusal("remote://" + one + "/", OpenMode::read_only), "there is no data set");
  EXPECT_SAYS(open_refusal("remote://" + one + "/a/b", OpenMode::read_only), "is no name of a data set");
  EXPECT_SAYS(open_refusal("remote:///name", OpenMode::read_only), "there is no server");
  EXPECT_SAYS(open_refusal("remote://localhost/name", OpenMode::read_only), "/name': server 'localhost' names no port");
  EXPECT_SAYS(open_refusal("remote://localhost:x/name", OpenMode::read_only), "no port from 1 to 65535");
  EXPECT_SAYS(open_refusal("remote://no-such-host.invalid:70/name", OpenMode::read_only), "does not resolve");
  EXPECT_SAYS(open_refusal("remote://" + hosts + "/name", OpenMode::read_only), "no layout");
  EXPECT_SAYS(open_refusal("remote://" + hosts + "/name?layout=odd", OpenMode::read_only), "choose striped");
  EXPECT_SAYS(open_refusal("remote://" + hosts + "/n?layout=replicated&copies=3", OpenMode::read_only), "3 copies");
  EXPECT_SAYS(open_refusal("remote://" + hosts + "/n?layout=striped&copies=0", OpenMode::read_only), "choose 1 to 2");
  EXPECT_SAYS(open_refusal("remote://" + one + "/n?copies=0", OpenMode::read_only), "choose 1 to 1");
  EXPECT_SAYS(open_refusal("remote://" + hosts + "/n?layout=striped&stripe=5", OpenMode::read_only), "stripes of");
  EXPECT_SAYS(open_refusal("remote://" + one + "/n?timeout=soon", OpenMode::read_only), "timeout 'soon'");
  EXPECT_SAYS(open_refusal("remote://" + one + "/n?secret=x", OpenMode::read_only), "option 'secret' is unknown");
  EXPECT_SAYS(open_refusal("remote://" + one + "/n?secret=x", OpenMode::read_only), "stripe, copies, timeout, user");
  EXPECT_SAYS(open_refusal("remote://" + one + "," + one + "/n?layout=striped", OpenMode::read_only), "named twice");
  EXPECT_SAYS(open_refusal("remote://" + one + "/big", OpenMode::create, 1ULL << 40), "does not fit");
  EXPECT_SAYS(open_refusal("remote://" + one + "/big", OpenMode::create, (1ULL << 40) + 1),
              "of 1099511627777 bytes does not fit");
  EXPECT_SAYS(open_refusal("remote://" + one + "/n?place=moon", OpenMode::create, 5), "choose memory or directory");
  EXPECT_SAYS(open_refusal("remote://" + one + "/n?place=directory", OpenMode::create, 5), "names none");
}

TEST(RemoteStoreTest, ALayoutIsWhatItWasCreatedAs) {
  const ServedStores served(3);
  open_store(served.url("striped", "?layout=striped&stripe=64KiB"), OpenMode::create, mebi);
  EXPECT_SAYS(open_refusal(served.url("striped", "?layout=striped&stripe=32KiB"), OpenMode::read_only),
              "is striped over 3 servers, 1 copy, stripes of 64KiB, and not striped over 3 servers");
  EXPECT_SAYS(open_refusal(served.url("striped", "?layout=replicated"), OpenMode::read_only), "is striped over");
  EXPECT_SAYS(open_refusal("remote://" + served.addresses[1].text() + "/striped", OpenMode::read_only),
              "and not on one server");
  const std::string turned =
      served.addresses[1].text() + "," + served.addresses[0].text() + "," + served.addresses[2].text();
  EXPECT_SAYS(open_refusal("remote://" + turned + "/striped?layout=striped&stripe=64KiB", OpenMode::read_only),
              "in another order");
}

TEST(RemoteStoreTest, ReadsGoToAnotherCopyWhenAServerIsGone) {
  ServedStores served(2);
  const std::string url = served.url("twice", "?layout=replicated&timeout=5s");
  auto store = open_store(url, OpenMode::create, 2 * mebi);
  fill(*store, 4);
  ASSERT_EQ(store->flush(), 0);
  served.servers[0].reset();
  EXPECT_TRUE(holds(*store, 4));
  char byte = 1;
  EXPECT_EQ(store->write(&byte, 1, 0), -EIO);  // Two copies were asked for.
  EXPECT_EQ(store->flush(), -EIO);
  store.reset();
  EXPECT_TRUE(comes_true([&] { return open_refusal(url, OpenMode::read_only).empty(); }));
}

TEST(RemoteStoreTest, OneCopyIsEnoughIfThatIsAskedFor) {
  ServedStores served(2);
  const std::string url = served.url("once", "?layout=replicated&copies=1");
  auto store = open_store(url, OpenMode::create, mebi);
  fill(*store, 5);
  served.servers[1].reset();
  fill(*store, 6);
  EXPECT_EQ(store->flush(), 0);
  EXPECT_TRUE(holds(*store, 6));
}

TEST(RemoteStoreTest, WhatHasNoCopyIsAnError) {
  ServedStores served(1);
  auto store = open_store(served.url("alone"), OpenMode::create, mebi);
  fill(*store, 7);
  served.servers[0].reset();
  char byte = 1;
  EXPECT_EQ(store->read(&byte, 1, 0), -EIO);
  EXPECT_EQ(store->write(&byte, 1, 0), -EIO);
  EXPECT_EQ(store->flush(), -EIO);
}

TEST(RemoteStoreTest, StripesWithCopiesOutliveAServer) {
  ServedStores served(3);
  const std::string url = served.url("stripes", "?layout=striped&stripe=8KiB&copies=2");
  auto store = open_store(url, OpenMode::create, mebi + 5000);
  fill(*store, 8);
  ASSERT_EQ(store->flush(), 0);
  served.servers[2].reset();
  EXPECT_TRUE(holds(*store, 8));
  served.servers[0].reset();
  EXPECT_FALSE(holds(*store, 8));
}

TEST(RemoteStoreTest, AWriteToOneStripeLeavesNoServerBehind) {
  const ServedStores served(3);
  for (const char* const query : {"?layout=striped&stripe=64KiB", "?layout=striped&stripe=64KiB&copies=2"}) {
    const std::string url = served.url(std::string("few") + std::to_string(std::string(query).size()), query);
    const char byte = 7;
    EXPECT_EQ(open_store(url, OpenMode::create, mebi)->write(&byte, 1, 70'000), 1);
    for (const OpenMode mode : {OpenMode::read_only, OpenMode::read_write}) {
      ASSERT_EQ(open_refusal(url, mode), "");
    }
    char got = 0;
    EXPECT_EQ(open_store(url, OpenMode::read_only)->read(&got, 1, 70'000), 1);
    EXPECT_EQ(got, byte);
  }
}

TEST(RemoteStoreTest, RightsAreTheOwners) {
  ServerOptions options = test_server_options();
  options.users = {{"ann", {"ann's secret", false}}, {"bob", {"bob's secret", false}}, {"root", {"root's own", true}}};
  const ServedStores served(1, options);
  const std::string open = served.url("open", "?readers=*");
  const std::string closed = served.url("closed", "?writers=root");
  EXPECT_SAYS(open_refusal(open, OpenMode::read_only), "and whose it is in TIERMAP_USER");
  {
    const Secret without_a_name("", "ann's secret");
    EXPECT_SAYS(open_refusal(open, OpenMode::read_only), "lets nobody in without a name: give it in TIERMAP_USER");
  }
  {
    const Secret ann("ann", "ann's secret");
    open_store(open, OpenMode::create, mebi);
    open_store(closed, OpenMode::create, mebi);
  }
  {
    const Secret wrong("ann", "bob's secret");
    EXPECT_SAYS(open_refusal(open, OpenMode::read_only), "does not let user 'ann' in");
  }
  const Secret bob("bob", "bob's secret");
  EXPECT_EQ(open_refusal(open, OpenMode::read_only), "");
  EXPECT_SAYS(open_refusal(open, OpenMode::read_write), "may only be read by 'bob'");
  EXPECT_SAYS(open_refusal(closed, OpenMode::read_only), "is not here, or not for 'bob'");
  const Secret root("root", "root's own");
  EXPECT_EQ(open_refusal(closed, OpenMode::read_write), "");
}

TEST(RemoteStoreTest, ADirectoryWithTiersHoldsDataSetsToo) {
  const std::string directory = testing::TempDir();
  ServerOptions options = test_server_options();
  options.directory = directory;
  options.directory_bytes = 8 * mebi;
  options.tiers.emplace();
  options.tiers->tiers.resize(1);
  options.tiers->tiers[0].capacity_bytes = mebi;
  const ServedStores served(1, options);
  const std::string url = served.url("lower", "?place=directory");
  const auto store = open_store(url, OpenMode::create, 4 * mebi);
  fill(*store, 9);
  EXPECT_EQ(store->flush(), 0);
  EXPECT_TRUE(holds(*store, 9));
  EXPECT_SAYS(open_refusal(served.url("more", "?place=directory"), OpenMode::create, 5 * mebi), "4MiB are left");
}

/// Of a client that is not this library's: what it wrote there would be in nobody's share.
TEST(RemoteStoreTest, WhatIsWrittenBehindTheEndIsRefused) {
  ServerOptions options = test_server_options();
  options.memory_bytes = 0;
  options.directory = testing::TempDir();
  options.directory_bytes = mebi;
  const ServedStores served(1, options);
  open_store(served.url("short"), OpenMode::create, 64 << 10).reset();
  Wire wire{WireOptions{}};
  const auto client = std::make_shared<MemoryClient>(wire, served.addresses[0], WireLogin{});
  RemoteDataSet set(client, "short", true);
  const auto content = test_body(8192, 1);
  for (const std::uint64_t offset : {std::uint64_t{60} << 10U, std::uint64_t{64} << 10U, mebi, UINT64_MAX - 100}) {
    EXPECT_EQ(set.start_write(offset, content).wait().status, -ENOSPC) << offset;
  }
  EXPECT_EQ(set.start_write(56 << 10, content).wait().status, 0);
  EXPECT_EQ(client->list("short").at(0).bytes, 64U << 10);
}

/// Takes so many bytes, and then none.
class FullStore final : public ForwardingStore {
 public:
  FullStore() : ForwardingStore(std::make_shared<MemoryStore>(mebi)) {}
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::size_t take = std::min(bytes, left.load());
    left -= take;
    return take == 0 ? -ENOSPC : base_->write(buffer, take, offset);
  }
  std::atomic<std::size_t> left = 0;
};

TEST(RemoteStoreTest, ADiskThatIsFullInTheMidstOfAWriteIsToldAsThat) {
  const auto full = std::make_shared<FullStore>();
  const ServedStores served(1, test_server_options("set", full));
  const auto store = open_store(served.url("set"), OpenMode::read_write);
  const auto content = test_body(64 << 10, 3);
  full->left = 10'000;
  EXPECT_EQ(store->write(content.data(), content.size(), 0), -ENOSPC);
  full->left = mebi;
  EXPECT_EQ(store->write(content.data(), content.size(), 0), static_cast<std::int64_t>(content.size()));
  std::vector<std::byte> got(content.size());
  EXPECT_EQ(store->read(got.data(), got.size(), 0), static_cast<std::int64_t>(got.size()));
  EXPECT_TRUE(same_bytes(got, content));
}

TEST(RemoteStoreTest, ADirectoryThatIsNoneIsRefusedBeforeAnythingIsMadeThere) {
  ServerOptions options = test_server_options();
  options.directory_bytes = 8 * mebi;
  for (const char* const directory : {"/nowhere/at/all", "/proc/self/status"}) {
    options.directory = directory;
    EXPECT_THROW(MemoryServer{options}, OptionError) << directory;
  }
}

TEST(RemoteStoreTest, AListThatNoMessageHoldsIsRefusedInWords) {
  const ServedStores served(1);
  WireOptions options;
  options.largest_body = 4096;
  Wire wire(options);
  MemoryClient client(wire, served.addresses[0], {});
  CreateForm form;
  for (int number = 0; number < 100; ++number) {
    form.name = "one-of-a-hundred-" + std::to_string(number);
    client.create(form, 4096);
  }
  try {
    client.list("");
    FAIL() << "it was told";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), EMSGSIZE) << error.what();
  }
  EXPECT_EQ(client.list("one-of-a-hundred-7").size(), 1U);
}

TEST(RemoteStoreTest, WhatCannotBeSoLongStaysAsItIs) {
  const ServedStores served(2);
  const std::string url = served.url("set", "?layout=striped&stripe=64KiB");
  EXPECT_THROW(open_store(url, OpenMode::create, UINT64_MAX), StoreError);
  const auto store = open_store(url, OpenMode::create, mebi);
  const auto content = test_body(mebi, 1);
  EXPECT_EQ(store->write(content.data(), content.size(), 0), static_cast<std::int64_t>(mebi));
  for (const std::uint64_t bytes : {UINT64_MAX, UINT64_MAX - (64U << 10U), std::uint64_t{1} << 63U}) {
    EXPECT_EQ(store->resize(bytes), -EFBIG) << bytes;
    EXPECT_EQ(store->size_bytes(), mebi);
  }
  std::vector<std::byte> got(mebi);
  EXPECT_EQ(store->read(got.data(), got.size(), 0), static_cast<std::int64_t>(mebi));
  EXPECT_TRUE(same_bytes(got, content));
}

}  // namespace
}  // namespace tiermap
