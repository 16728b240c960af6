// What is written, and in how many pieces: only blocks that changed, neighbours together.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "store/file_descriptor.hpp"
#include "store/file_size_limit.hpp"
#include "store/forwarding_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class WriteBackTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, WriteBackTest, every_engine, engine_name);

// The system calls that have written for this process, by its own account.
std::uint64_t write_calls() {
  std::ifstream account("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  while (account >> name >> value) {
    if (name == "syscw:") {
      return value;
    }
  }
  return 0;
}

TEST_P(WriteBackTest, OnlyChangedBlocksAreWritten) {
  const auto store = std::make_shared<FaultyStore>(known_store(4 * mib));
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(store, read_write(1 * mib));
  // Three blocks far from each other.
  for (const std::uint64_t offset : {100 * kib, 500 * kib, 900 * kib}) {
    touch(region.data() + offset);
    poke(region.data() + offset, std::byte{0});
  }
  region.sync();
  EXPECT_EQ(store->written_bytes(), 3 * 4 * kib);
  EXPECT_EQ(store->writes(), 3U);
  EXPECT_EQ(region.statistics()[Counter::write_backs], 1U);
}

TEST_P(WriteBackTest, BlocksNearEachOtherGoInOneRequest) {
  const auto store = std::make_shared<FaultyStore>(known_store(1 * mib));
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(store, read_write(1 * mib));
  touch(region.data());
  for (std::uint64_t offset = 0; offset < 64 * kib; offset += 8 * kib) {
    poke(region.data() + offset, std::byte{0});
  }
  region.sync();
  EXPECT_EQ(store->writes(), 1U);
  EXPECT_LE(store->written_bytes(), 64 * kib);
}

TEST_P(WriteBackTest, NothingPastTheRegionsEndIsWritten) {
  const auto store = std::make_shared<FaultyStore>(known_store(3 * page + 100));
  store->on_write([](const FaultyStore::Call& call) {
    EXPECT_LE(call.offset + call.bytes, 3 * page + 100);
    return FaultyStore::pass();
  });
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 0, region.size());
  region.unmap();
  EXPECT_EQ(store->written_bytes(), 3 * page + 100);
}

// A file that counts: requests that the engine makes itself never come to write(), and are told by their extents.
class WatchedFile final : public Store {
 public:
  explicit WatchedFile(std::unique_ptr<Store> inner) : inner_(std::move(inner)) {}
  std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
  bool writable() const override { return true; }
  bool growable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return inner_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    ++writes;
    return inner_->write(buffer, bytes, offset);
  }
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override {
    const bool located = inner_->locate_read(offset, bytes, extent);
    constexpr std::uint64_t no_offset = std::uint64_t{1} << 63;
    extent.offset = located && refuses_reads ? no_offset : extent.offset;
    return located;
  }
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    const bool located = inner_->locate_write(offset, std::min(bytes, most_extent_bytes), extent);
    extent.file_descriptor = located && refusing_descriptor >= 0 ? refusing_descriptor : extent.file_descriptor;
    located_bytes += located ? extent.bytes : 0;
    return located;
  }
  std::uint32_t direct_alignment() const override { return inner_->direct_alignment(); }
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> located_bytes{0};
  std::uint64_t most_extent_bytes = 1 << 30;
  int refusing_descriptor = -1;
  bool refuses_reads = false;  ///< With EINVAL, where the engine makes them.

 private:
  const std::unique_ptr<Store> inner_;
};

TEST_P(WriteBackTest, NeighbouringPagesOfAFileGoInFewRequests) {
  const TemporaryDirectory directory;
  write_known_file(directory / "data", 64 * page);
  const auto store = std::make_shared<WatchedFile>(open_store(directory / "data", OpenMode::read_write));
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 1, region.size());
  const std::uint64_t calls = write_calls();
  region.sync();
  const std::uint64_t made = write_calls() - calls;
  EXPECT_EQ(store->located_bytes.load() + store->writes.load() * 0, 64 * page);
  EXPECT_EQ(store->writes.load(), 0U) << "the file was not written directly";
  EXPECT_LE(made, 8U) << "64 neighbouring pages of 16 KiB are a MiB";
  EXPECT_TRUE(is_all(read_bytes(directory / "data"), std::byte{1}));
}

TEST_P(WriteBackTest, ABatchOfMorePiecesThanThereIsRoomForIsWrittenInRounds) {
  const TemporaryDirectory directory;
  constexpr std::uint64_t large_page = 256 * kib;
  write_known_file(directory / "data", 32 * large_page);
  const auto store = std::make_shared<WatchedFile>(open_store(directory / "data", OpenMode::read_write));
  store->most_extent_bytes = 4 * kib;
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(store, read_write(large_page));
  std::memset(region.data(), 1, region.size());
  region.sync();
  EXPECT_GE(store->located_bytes.load(), 32 * large_page);
  EXPECT_EQ(store->writes.load(), 0U) << "the file was not written directly";
  EXPECT_TRUE(is_all(read_bytes(directory / "data"), std::byte{1}));
}

TEST_P(WriteBackTest, WhereAnExtentHasNothingTheStoreIsAsked) {
  const TemporaryDirectory directory;
  write_known_file(directory / "data", 4 * page);
  class NoExtents final : public ForwardingStore {
   public:
    explicit NoExtents(std::shared_ptr<Store> base) : ForwardingStore(std::move(base)) {}
    bool locate_write(std::uint64_t, std::uint64_t, Extent& extent) noexcept override {
      extent = {};
      return true;
    }
  };
  const auto store = std::make_shared<NoExtents>(open_store(directory / "data", OpenMode::read_write));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 1, region.size());
  region.sync();
  EXPECT_TRUE(is_all(read_bytes(directory / "data"), std::byte{1}));
}

TEST_P(WriteBackTest, AStoreThatLikesFewRequestsGetsFew) {
  class Modest final : public Store {
   public:
    std::uint64_t size_bytes() const override { return 4 * mib; }
    bool writable() const override { return true; }
    std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t) override {
      const Visit visit(reading, most_reading);
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      std::memset(buffer, 1, bytes);
      return static_cast<std::int64_t>(bytes);
    }
    std::int64_t write(const void*, std::size_t bytes, std::uint64_t) override {
      const Visit visit(writing, most_writing);
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      return static_cast<std::int64_t>(bytes);
    }
    std::uint32_t max_reads_in_flight() const override { return 2; }
    std::uint32_t max_writes_in_flight() const override { return 1; }
    struct Visit {
      Visit(std::atomic<int>& now, std::atomic<int>& most) : now_(now) {
        const int visitors = ++now;
        int seen = most.load();
        while (visitors > seen && !most.compare_exchange_weak(seen, visitors)) {
        }
      }
      ~Visit() { --now_; }
      std::atomic<int>& now_;
    };
    std::atomic<int> reading{0}, most_reading{0}, writing{0}, most_writing{0};
  };
  const auto store = std::make_shared<Modest>();
  CacheOptions options = cache_options(1 * mib);
  options.fillers = 8;
  options.evictors = 4;
  Cache cache(options);
  {
    Region region = cache.map(store, read_write(page));
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < 8; ++number) {
      threads.emplace_back([&, number] {
        for (std::uint64_t offset = number * page; offset < region.size(); offset += 8 * page) {
          poke(region.data() + offset, std::byte{2});
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    region.sync();
  }
  EXPECT_EQ(store->most_reading.load(), 2);
  EXPECT_EQ(store->most_writing.load(), 1);
}

TEST_P(WriteBackTest, AfterAnErrorWhatWasNotWrittenIsWrittenAgainAndNoMore) {
  const auto store = std::make_shared<FaultyStore>(known_store(1 * mib));
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(store, read_write(256 * kib));
  touch(region.data());
  for (const std::uint64_t offset : {5 * kib, 100 * kib, 200 * kib}) {
    poke(region.data() + offset, std::byte{0});
  }
  store->on_write(
      [](const FaultyStore::Call& call) { return call.number == 1 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  EXPECT_THROW(region.sync(), Error);
  // As it was, which is not what the store may have.
  poke(region.data() + 100 * kib, known_byte(100 * kib));
  const std::uint64_t before = store->written_bytes();
  region.sync();
  EXPECT_EQ(store->written_bytes() - before, 2 * 4 * kib) << "the one that failed, and the one that was not tried";
  poke(region.data() + 5 * kib, known_byte(5 * kib));
  poke(region.data() + 200 * kib, known_byte(200 * kib));
  region.sync();
  EXPECT_TRUE(is_known(read_store(*store, 0, 1 * mib), 0));
}

// Where one piece of a page fails, those that the same request leaves over are not tried, and not taken for written.
TEST_P(WriteBackTest, WhatAShortRequestLeavesOverBehindAnErrorIsWrittenNextTime) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data";
  write_known_file(path, 2 * mib);
  const auto store = std::make_shared<WatchedFile>(open_store(path, OpenMode::read_write));
  store->most_extent_bytes = 4 * kib;
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(store, read_write(64 * kib));
  for (std::uint64_t offset = 0; offset < region.size(); offset += 64 * kib) {
    touch(region.data() + offset);  // What is read before it is changed is compared with what it was.
  }
  std::memset(region.data(), 1, region.size());
  {
    const FileSizeLimit limit(8 * kib);
    EXPECT_THROW(region.sync(), Error);
    EXPECT_GT(store->located_bytes.load(), 8 * kib) << "the file was not written directly";
  }
  region.sync();
  EXPECT_TRUE(is_all(read_bytes(path), std::byte{1}));
}

// As of file systems that let a file be opened for direct I/O, and then refuse it.
TEST_P(WriteBackTest, WhatIsRefusedDirectlyIsWrittenByTheStore) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data";
  write_known_file(path, 1 * mib);
  const auto store = std::make_shared<WatchedFile>(open_store(path, OpenMode::read_write));
  const FileDescriptor read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  store->refusing_descriptor = read_only.get();
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 1, region.size());
  EXPECT_NO_THROW(region.sync());
  EXPECT_EQ(store->located_bytes.load(), 1 * mib);
  EXPECT_TRUE(is_all(read_bytes(path), std::byte{1}));
}

TEST_P(WriteBackTest, WhatIsRefusedDirectlyIsReadByTheStore) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data";
  write_known_file(path, 1 * mib);
  const auto store = std::make_shared<WatchedFile>(open_store(path, OpenMode::read_write));
  store->refuses_reads = true;
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  EXPECT_EQ(region.prefetch({512 * kib, 512 * kib}).wait(), 512 * kib / page);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(WriteBackTest, HolesBetweenChangedBlocksStayHoles) {
  const TemporaryDirectory directory;
  const std::string path = directory / "sparse";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, 4 * mib);
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(path, read_write(256 * kib));
  for (std::uint64_t offset = 0; offset < region.size(); offset += 8 * kib) {
    poke(region.data() + offset, std::byte{1});
  }
  region.sync();
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 3 * mib);
}

}  // namespace
}  // namespace tiermap
