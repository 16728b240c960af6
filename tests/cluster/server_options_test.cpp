// What a server's YAML may say, and what is said of the rest.
#include <sys/stat.h>

#include <fstream>

#include "cluster/memory_protocol.hpp"
#include "cluster/remote/placement.hpp"
#include "cluster/remote/remote_url.hpp"
#include "cluster/server/server_options.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

TEST(ServerOptionsTest, EverythingThatCanBeSaid) {
  const ServerOptions options = parse_server_options(R"(
listen: 127.0.0.1:7171
timeout_seconds: 2.5
memory: 3GiB
directory: /scratch
directory_size: 1TiB
one_sided: true
least_workers: 2
most_workers: 12
users:
  - {name: ann, secret: 12345678, administrator: true}
  - {name: bob, secret: 87654321}
data_sets:
  - name: kmers
    store: file:///data/kmers.db
    size: 1GiB
    read_only: true
    owner: ann
    readers: "*"
    writers: [bob, ann]
)",
                                                     "node.yaml");
  EXPECT_EQ(options.listen.text(), "127.0.0.1:7171");
  EXPECT_EQ(options.timeout, 2500ms);
  EXPECT_EQ(options.memory_bytes, 3ULL << 30);
  EXPECT_EQ(options.directory, "/scratch");
  EXPECT_EQ(options.directory_bytes, 1ULL << 40);
  EXPECT_TRUE(options.one_sided);
  EXPECT_EQ(options.workers.least, 2U);
  EXPECT_EQ(options.workers.most, 12U);
  EXPECT_EQ(parse_server_options("least_workers: 9\n", "node.yaml").workers.most, 9U);
  EXPECT_EQ(parse_server_options("{}\n", "node.yaml").workers.most, 8U);
  ASSERT_EQ(options.users.size(), 2U);
  EXPECT_TRUE(options.users.at("ann").administrator);
  EXPECT_EQ(options.users.at("bob").secret, "87654321");
  ASSERT_EQ(options.data_sets.size(), 1U);
  const ServedDataSet& set = options.data_sets[0];
  EXPECT_EQ(set.bytes, 1ULL << 30);
  EXPECT_TRUE(set.read_only);
  EXPECT_EQ(set.rights.owner, "ann");
  EXPECT_EQ(set.rights.readers, std::vector<std::string>{"*"});
  EXPECT_EQ(set.rights.writers, (std::vector<std::string>{"bob", "ann"}));
}

struct Wrong {
  const char* yaml;
  const char* part;
};

TEST(ServerOptionsTest, WhatCannotBeIsSaidWithItsLine) {
  const Wrong wrong[] = {
      {"listen: 127.0.0.1:7070\nport: 5\n", "node.yaml:2: the file has the unknown key 'port': choose among"},
      {"memroy: 1GiB\n",
       "choose among data_sets, directory, directory_size, least_workers, listen, memory, most_workers, one_sided, "
       "tiers, timeout_seconds, users"},
      {"listen: 127.0.0.1\n", "names no port"},
      {"users: ann\n", "users of the file is no list"},
      {"data_sets: {name: set, store: memory:1MiB}\n", "data_sets of the file is no list"},
      {"listen: 0.0.0.0:7070\nmemory: 1GiB\n", "has no users"},
      {"timeout_seconds: 0\n", "choose 0.01 to 3600"},
      {"memory: much\n", "memory"},
      {"least_workers: 0\n", "least_workers of the file cannot be 0: choose a whole number from 1 to 256"},
      {"least_workers: 1.5\n", "cannot be 1.5"},
      {"most_workers: 257\n", "most_workers of the file cannot be 257: choose a whole number from 1 to 256"},
      {"least_workers: 4\nmost_workers: 3\n", "cannot be 3: choose a whole number from 4 to 256"},
      {"directory: /tmp\n", "give directory and directory_size"},
      {"directory_size: 1GiB\n", "give directory and directory_size"},
      {"one_sided: maybe\n", "neither"},
      {"users:\n  - {name: ann}\n", "two secrets or none"},
      {"users:\n  - {name: ann, secret: short}\n", "fewer than 8 bytes"},
      {"users:\n  - {secret: 12345678}\n", "without a name"},
      {"users:\n  - {name: 'a b', secret: 12345678}\n", "is no name"},
      {"users:\n  - {name: ann, secret: 12345678}\n  - {name: ann, secret: 12345678}\n", "another user's already"},
      {"users:\n  - {name: ann, secret: 12345678, key: 1}\n", "unknown key 'key'"},
      {"users: {ann: 12345678}\n", "is no list"},
      {"users:\n", "is no list"},
      {"data_sets:\n  - {name: set, store: memory:1MiB, readers: [bob]}\n", "to be read by 'bob', who is no user"},
      {"data_sets:\n  - {name: set, store: memory:1MiB, writers: bob}\n", "to be written by 'bob', who is no user"},
      {"data_sets:\n  - {name: set}\n", "without name or store"},
      {"data_sets:\n  - {name: .set, store: memory:1MiB}\n", "is no name"},
      {"data_sets:\n  - {name: set, store: memory:1MiB, owner: ann}\n", "who is no user"},
      {"data_sets:\n  - {name: set, store: memory:1MiB, color: red}\n", "unknown key 'color'"},
      {"[1, 2]\n", "no mapping"},
      {"listen: [\n", "malformed YAML"},
  };
  for (const Wrong& one : wrong) {
    try {
      parse_server_options(one.yaml, "node.yaml");
      ADD_FAILURE() << one.yaml;
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find(one.part), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

TEST(ServerOptionsTest, WhereToListenIsSaidAboveTheFile) {
  const HostAndPort loopback{"127.0.0.1", 0};
  EXPECT_EQ(parse_server_options("listen: 0.0.0.0:7070\n", "node.yaml", loopback).listen.text(), loopback.text());
  EXPECT_THROW(parse_server_options("{}\n", "node.yaml", HostAndPort{"0.0.0.0", 7070}), OptionError);
}

TEST(ServerOptionsTest, ASecretFileIsItsOwners) {
  const TemporaryDirectory directory(".");
  const std::string path = directory / "secret";
  EXPECT_THROW(read_secret_file(path), OptionError);
  std::ofstream(path) << "the first line\nand another\n";
  ::chmod(path.c_str(), 0644);
  EXPECT_THROW(read_secret_file(path), OptionError);
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(read_secret_file(path), "the first line");
  std::ofstream(path, std::ios::trunc) << "of another system\r\n";
  EXPECT_EQ(read_secret_file(path), "of another system");
  const std::string longest(4096, 'x');
  std::ofstream(path, std::ios::trunc) << longest << "\r\n";
  EXPECT_EQ(read_secret_file(path), longest);
  std::ofstream(path, std::ios::trunc) << longest << "xand more";
  EXPECT_THROW(read_secret_file(path), OptionError);
  std::ofstream(path, std::ios::trunc) << "\n";
  EXPECT_THROW(read_secret_file(path), OptionError);
}

TEST(ServerOptionsTest, Timeouts) {
  EXPECT_EQ(parse_timeout("5s"), 5000ms);
  EXPECT_EQ(parse_timeout("250ms"), 250ms);
  EXPECT_EQ(parse_timeout("0.5"), 500ms);
  for (const char* const text : {"", "s", "1h", "0", "-1s", "nan", "3601s", "1ms"}) {
    EXPECT_THROW(parse_timeout(text), OptionError) << text;
  }
}

/// Every byte has its copies on different servers, no two bytes share a place, and nothing is past what a server has.
TEST(PlacementTest, NoTwoBytesShareAPlace) {
  for (std::uint32_t servers = 2; servers <= 5; ++servers) {
    for (std::uint32_t copies = 1; copies <= servers; ++copies) {
      const DataSetLayout layout{DataSetLayout::Kind::striped, servers, 0, copies, 4096};
      const DataSetPlacement placement(layout);
      const std::uint64_t bytes = 41 * 4096 + 100;
      std::set<std::pair<std::uint32_t, std::uint64_t>> places;
      for (std::uint64_t offset = 0; offset < bytes; offset += 4096) {
        for (std::uint32_t copy = 0; copy < copies; ++copy) {
          const std::uint64_t local = placement.local_offset(offset, copy);
          EXPECT_TRUE(places.emplace(placement.server(offset, copy), local).second);
          EXPECT_LE(local + 4096, placement.local_bytes(bytes));
          EXPECT_EQ(placement.local_offset(offset + 99, copy), local + 99);
        }
      }
      EXPECT_EQ(placement.run(4000, 1000), 96U);
    }
  }
}

TEST(ProtocolTest, WhatIsEncodedIsDecoded) {
  const DataSetLayout layout{DataSetLayout::Kind::striped, 3, 1, 2, 65536};
  const CreateForm form{"name", "", {"*"}, {}, 12345, 99, layout};
  const std::optional<CreateForm> back = decode_form(encode(form));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->name, "name");
  EXPECT_EQ(back->place, "");
  EXPECT_EQ(back->readers, form.readers);
  EXPECT_EQ(back->writers, form.writers);
  EXPECT_EQ(back->whole_bytes, 12345U);
  EXPECT_EQ(back->identity, 99U);
  EXPECT_EQ(back->layout.text(), "striped over 3 servers, 2 copies, stripes of 64KiB");
  const DataSetFacts facts{1, 2, 3, 4, 5, 6, layout};
  EXPECT_EQ(decode_facts(encode(facts))->whole_bytes, 4U);
  EXPECT_EQ(decode_facts(encode(facts))->read_nanoseconds, 5U);
  EXPECT_EQ(decode_facts(encode(facts))->announced, 6U);
  const auto bytes = encode(form);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    decode_form(std::span(bytes).first(length));  // Nothing is read past the end: for AddressSanitizer to see.
    decode_facts(std::span(bytes).first(length));
  }
  EXPECT_FALSE(decode_form({}).has_value());
}

TEST(MessageTest, AChangedBitIsSeen) {
  const auto body = test_body(100, 1);
  SealedMessage message = WireMessage(7, {1, 2, 3, 4}, body).seal(42);
  std::span<std::byte> bytes(message.bytes.get(), message.length);
  std::span<const std::byte> frame = bytes;
  const auto whole = take_message(frame);
  ASSERT_TRUE(whole.has_value() && whole->intact);
  EXPECT_TRUE(frame.empty());
  EXPECT_EQ(whole->header.id, 42U);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << bit % 8);
    bytes[bit / 8] ^= mask;
    frame = bytes;
    const auto changed = take_message(frame);
    EXPECT_TRUE(!changed.has_value() || !changed->intact) << bit;
    bytes[bit / 8] ^= mask;
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    frame = std::span<const std::byte>(bytes).first(length);
    EXPECT_FALSE(take_message(frame).has_value());
  }
}

}  // namespace
}  // namespace tiermap
