// A message that is damaged on its way, or that all disks are too full for, costs what it asked for, and not the server
// that it was for.
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>
#include <utility>

#include "cluster/memory_protocol.hpp"
#include "cluster/server/checked_store.hpp"
#include "cluster/wire_fixture.hpp"
#include "tiermap/store.hpp"

namespace tiermap {
namespace {

/// As much of a memory server as one data set needs; answers as the wire does where a request is not what was sent.
class DamagedServer : public WireService {
 public:
  /// Requests, and where they begin.
  using Damaged = std::set<std::pair<MemoryRequest, std::uint64_t>>;
  DamagedServer(const DataSetLayout& layout, Damaged damaged, std::int32_t status = -EBADMSG)
      : layout_(layout), damaged_(std::move(damaged)), status_(status), wire_(WireOptions(), this) {
    address = "127.0.0.1:" + std::to_string(wire_.listen({"127.0.0.1", 0}));
  }

  void on_request(WireRequest request) override {
    const auto kind = static_cast<MemoryRequest>(request.kind());
    if (damaged_.erase({kind, request.words()[1]}) != 0) {  // Once.
      request.reply(status_);
      return;
    }
    switch (kind) {
      case MemoryRequest::attach: {
        DataSetFacts facts;
        facts.identity = 1;
        facts.version = 1;
        facts.bytes = facts.whole_bytes = content.size();
        facts.layout = layout_;
        const std::vector<std::byte> body = encode(facts);
        WireMessage answer = WireMessage::answer(0, {1, 0, 0, 0}, body.size());
        std::ranges::copy(body, answer.body().begin());
        return request.reply(std::move(answer));
      }
      case MemoryRequest::read: {
        const auto part = std::span(content).subspan(request.words()[1], request.words()[2]);
        WireMessage answer = WireMessage::answer(0, {}, part.size());
        std::ranges::copy(part, answer.body().begin());
        return request.reply(std::move(answer));
      }
      case MemoryRequest::write:
        std::ranges::copy(request.body(), content.begin() + static_cast<std::ptrdiff_t>(request.words()[1]));
        return request.reply(0, {request.body().size(), 0, 0, 0});
      default:
        return request.reply(0);
    }
  }

  std::string address;
  std::vector<std::byte> content = std::vector<std::byte>(64 << 10);  ///< Looked at when nothing is under way.

 private:
  const DataSetLayout layout_;
  Damaged damaged_;
  const std::int32_t status_;
  Wire wire_;
};

TEST(DamagedMessagesTest, WhatHasOneCopyIsWrittenWhenItIsTriedAgain) {
  const DamagedServer server({},
                             {{MemoryRequest::write, 4096}, {MemoryRequest::flush, 0}, {MemoryRequest::read, 4096}});
  const auto store = open_store("remote://" + server.address + "/set", OpenMode::read_write);
  const std::vector<std::byte> written = test_body(4096, 1);
  EXPECT_EQ(store->write(written.data(), written.size(), 4096), -EIO);
  EXPECT_EQ(store->write(written.data(), written.size(), 4096), 4096);
  EXPECT_EQ(store->flush(), -EIO);
  EXPECT_EQ(store->flush(), 0);
  std::vector<std::byte> got(4096);
  EXPECT_EQ(store->read(got.data(), got.size(), 4096), 4096);
  EXPECT_TRUE(same_bytes(got, written));
}

DataSetLayout two_copies() {
  DataSetLayout layout;
  layout.kind = DataSetLayout::Kind::replicated;
  layout.servers = 2;
  layout.copies = 2;
  return layout;
}

std::string url_of(const DamagedServer& one, const DamagedServer& other) {
  return "remote://" + one.address + "," + other.address + "/set?layout=replicated";
}

TEST(DamagedMessagesTest, ACopyThatMissedAWriteGetsItFromAnother) {
  const DamagedServer one(two_copies(), {{MemoryRequest::write, 100}});
  const DamagedServer other(two_copies(), {});
  const auto store = open_store(url_of(one, other), OpenMode::read_write);
  const std::vector<std::byte> written = test_body(5000, 2);
  EXPECT_EQ(store->write(written.data(), written.size(), 100), 5000);
  EXPECT_EQ(store->flush(), 0);
  EXPECT_TRUE(same_bytes(std::span(one.content).subspan(100, written.size()), written));
  EXPECT_TRUE(same_bytes(one.content, other.content));
}

/// Nobody is behind anybody then.
TEST(DamagedMessagesTest, WhatNoCopyHasRoomForIsWrittenOnceThereIsSome) {
  const DamagedServer::Damaged refused{{MemoryRequest::write, 100}, {MemoryRequest::flush, 0}};
  const DamagedServer one(two_copies(), refused, -ENOSPC);
  const DamagedServer other(two_copies(), refused, -ENOSPC);
  const auto store = open_store(url_of(one, other), OpenMode::read_write);
  const std::vector<std::byte> written = test_body(5000, 4);
  EXPECT_EQ(store->write(written.data(), written.size(), 100), -ENOSPC);
  std::vector<std::byte> got(5000);
  EXPECT_EQ(store->read(got.data(), got.size(), 100), 5000);
  EXPECT_EQ(store->write(written.data(), written.size(), 100), 5000);
  EXPECT_EQ(store->flush(), -ENOSPC);
  EXPECT_EQ(store->flush(), 0);
  EXPECT_TRUE(same_bytes(std::span(one.content).subspan(100, written.size()), written));
  EXPECT_TRUE(same_bytes(one.content, other.content));
}

/// It is brought there while nobody writes. The same where the rest of its block is damaged.
TEST(DamagedMessagesTest, ACopyThatMissedAWriteGetsItThoughOthersAlwaysWrite) {
  const DamagedServer one(two_copies(), {{MemoryRequest::write, 100}}, -damaged_error);
  const DamagedServer other(two_copies(), {});
  const auto store = open_store(url_of(one, other), OpenMode::read_write);
  const std::vector<std::byte> content = test_body(4096, 3);
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> writing{0};
  std::vector<std::thread> writers;
  for (std::uint64_t number = 1; number <= 8; ++number) {
    writers.emplace_back([&, number] {
      for (++writing; !ends; ++writing) {
        EXPECT_EQ(store->write(content.data(), content.size(), number * 4096), 4096);
      }
    });
  }
  EXPECT_TRUE(comes_true([&] { return writing > 100; }));
  std::atomic<bool> written{false};
  std::thread late([&] {
    EXPECT_EQ(store->write(content.data(), 512, 100), 512);
    written = true;
  });
  EXPECT_TRUE(comes_true([&] { return written.load(); }, std::chrono::seconds(10)));
  ends = true;
  late.join();
  for (std::thread& writer : writers) {
    writer.join();
  }
  EXPECT_TRUE(same_bytes(one.content, other.content));
}

}  // namespace
}  // namespace tiermap
