// The database by itself: indexes against a map, and the rule that everything stands on: whatever mixture of older and
// newer pages a stop leaves, the log makes of it what was committed.
#include "ycsb/pool_store.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "apps/program_fixture.hpp"
#include "parallel/random.hpp"
#include "tiermap/error.hpp"
#include "ycsb/executors.hpp"
#include "ycsb/ordered_index.hpp"

namespace tiermap::test {
namespace {

constexpr std::uint64_t page_bytes = 4096;

/// A pool in memory.
class PoolBytes final : public MappedBytes {
 public:
  explicit PoolBytes(std::uint64_t bytes) : pages_(bytes / page_bytes) {
    data_ = pages_.front().data();
    size_ = bytes;
  }
  std::span<std::byte> all() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }
  void prefetch(std::span<const ByteRange>) override {}
  void advise(Advice, ByteRange) override {}
  void flush(ByteRange) override {}
  void sync() override {}
  void save() override {}

 private:
  struct alignas(page_bytes) Page : std::array<std::byte, page_bytes> {};
  std::vector<Page> pages_;
};

/// Keeps nothing but how large the largest transaction was.
class TransactionSizes final : public KeyValueStore {
 public:
  bool read(std::uint32_t, std::uint64_t, std::span<std::byte>) override { return false; }
  void insert(std::uint32_t, std::span<const std::byte> records) override {
    largest_bytes = std::max(largest_bytes, records.size());
  }
  void update(std::uint32_t, std::span<const std::byte>) override {}
  std::uint64_t scan(std::uint32_t, std::uint64_t, std::uint64_t, std::span<std::byte>,
                     const std::function<void()>&) override {
    return 0;
  }
  std::size_t largest_bytes = 0;
};

/// A database in memory, whose scans leave out the record at one place.
class ScansWithGaps final : public KeyValueStore {
 public:
  explicit ScansWithGaps(std::uint64_t gap) : gap_(gap) {}
  bool read(std::uint32_t, std::uint64_t key, std::span<std::byte> record) override {
    const auto found = records_.find(key);
    if (found != records_.end()) {
      std::memcpy(record.data(), found->second.data(), record.size());
    }
    return found != records_.end();
  }
  void insert(std::uint32_t, std::span<const std::byte> records) override {
    constexpr std::size_t record_bytes = sizeof(RecordHead) + sizeof(std::uint64_t);
    for (; !records.empty(); records = records.subspan(record_bytes)) {
      records_[head_of(records).key].assign(records.begin(), records.begin() + record_bytes);
    }
  }
  void update(std::uint32_t, std::span<const std::byte> record) override { insert(0, record); }
  std::uint64_t scan(std::uint32_t, std::uint64_t key, std::uint64_t count, std::span<std::byte> record,
                     const std::function<void()>& visit) override {
    std::uint64_t place = 0;
    std::uint64_t visited = 0;
    for (auto found = records_.lower_bound(key); found != records_.end() && visited < count; ++found, ++place) {
      if (place != gap_) {
        std::memcpy(record.data(), found->second.data(), record.size());
        visit();
        ++visited;
      }
    }
    return visited;
  }

 private:
  const std::uint64_t gap_;
  std::map<std::uint64_t, std::vector<std::byte>> records_;
};

PoolHeader header_of(std::uint32_t partitions, std::uint64_t value_bytes, std::uint64_t partition_records) {
  PoolHeader header;
  header.partitions = partitions;
  header.value_bytes = value_bytes;
  header.records = partitions;
  header.partition_records = partition_records;
  return header;
}

class PoolStoreTest : public ProgramTest {
 protected:
  std::unique_ptr<RedoLog> make_log() const { return RedoLog::create(path("work/log"), 1, Durability::none); }
};

TEST_F(PoolStoreTest, ALoadOfLargeRecordsHasFewOfThemInMemory) {
  ThreadTeam team(1);
  ProgressDisplay progress("loading", 0);
  for (const auto& [value_bytes, records] : {std::pair{1000U, 64U}, {1U << 20U, 1U}}) {
    const RecordFormat format(1, value_bytes);
    TransactionSizes store;
    Executors(format, team, progress).load(store, records + 2);
    EXPECT_EQ(store.largest_bytes, records * format.record_bytes());
  }
}

TEST_F(PoolStoreTest, AScanThatLeavesOutWhereItBeginsIsWrong) {
  ThreadTeam team(1);
  ProgressDisplay progress("working", 0);
  const RecordFormat format(1, sizeof(std::uint64_t));
  for (const std::uint64_t gap : {0U, 1000U}) {
    ScansWithGaps store(gap);
    Executors executors(format, team, progress);
    executors.load(store, 100);
    executors.run(store, Workload({.letter = "e", .distribution = {}, .operations = 50}, 100));
    EXPECT_EQ(executors.check(store).empty(), gap != 0) << gap;
  }
}

TEST_F(PoolStoreTest, AnOrderedIndexIsAMap) {
  for (const char* order : {"ascending", "descending", "random"}) {
    constexpr std::uint64_t keys = 62'000;
    const PoolLayout layout(header_of(1, 8, keys));
    PoolBytes bytes(layout.file_bytes());
    PartitionState state;
    const OrderedIndex index(layout, 0, state);
    std::map<std::uint64_t, std::uint64_t> expected;
    for (std::uint64_t done = 0; done < keys;) {
      PoolTransaction transaction(bytes.all());
      for (std::uint64_t end = std::min(keys, done + 1 + done % 97); done < end; ++done) {
        const std::uint64_t key = *order == 'a'   ? done * 2
                                  : *order == 'd' ? (keys - done) * 2
                                                  : mix_word(done) & ~std::uint64_t{1};
        index.insert(transaction, key, done);
        expected.emplace(key, done);
      }
      apply_changes(transaction.changes(), bytes.all());
    }
    ASSERT_EQ(expected.size(), keys);
    EXPECT_LT(state.added_nodes, layout.nodes()) << order;
    const PoolTransaction reading(bytes.all());
    auto next = expected.begin();
    index.for_each_from(reading, 0, [&](std::uint64_t key, std::uint64_t record) {
      const bool same = next != expected.end() && next->first == key && next->second == record;
      ++next;
      return same;
    });
    EXPECT_EQ(next, expected.end()) << order;
    for (std::uint64_t probe = 0; probe < 1000; ++probe) {
      const auto& [key, record] = *expected.lower_bound(std::min(random_word(7, probe), expected.rbegin()->first));
      EXPECT_EQ(index.find(reading, key), record);
      EXPECT_EQ(index.find(reading, key + 1), std::nullopt);
      std::uint64_t found = 0;
      index.for_each_from(reading, std::max<std::uint64_t>(key, 1) - 1, [&](std::uint64_t first, std::uint64_t) {
        found = first;
        return false;
      });
      EXPECT_EQ(found, key);
    }
  }
}

TEST_F(PoolStoreTest, KeysOfAFormatAreDistinctAndInTheirPartition) {
  for (const std::uint32_t partitions : {1U, 2U, 64U, 4096U}) {
    const RecordFormat format(partitions, 8);
    std::vector<std::uint64_t> keys;
    for (std::uint32_t partition = 0; partition < partitions; partition += std::max(1U, partitions / 3)) {
      for (std::uint64_t number = 0; number < 20'000; ++number) {
        keys.push_back(format.key_of(partition, number));
        ASSERT_GE(keys.back(), format.first_key(partition));
        ASSERT_TRUE(partition + 1 == partitions || keys.back() < format.first_key(partition + 1));
      }
    }
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  }
}

TEST_F(PoolStoreTest, ATransactionLogsWhatDiffersAndNoMore) {
  PoolBytes bytes(4 * page_bytes);
  PoolTransaction transaction(bytes.all());
  transaction.edit<std::uint64_t>(page_bytes) = 1;
  transaction.edit<std::uint64_t>(page_bytes + 24) = 0;  // As it was.
  transaction.edit<std::uint64_t>(2 * page_bytes - 8) = 2;
  transaction.view<std::uint64_t>(3 * page_bytes);
  EXPECT_EQ(transaction.view<std::uint64_t>(page_bytes), 1U);
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(bytes.data() + page_bytes), 0U);
  const std::span<const std::byte> changes = transaction.changes();
  EXPECT_EQ(changes.size(), 2 * (sizeof(ChangeHead) + 8));
  apply_changes(changes, bytes.all());
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(bytes.data() + page_bytes), 1U);
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(bytes.data() + 2 * page_bytes - 8), 2U);
}

TEST_F(PoolStoreTest, WhateverPagesAStopLeavesTheLogMakesThemWhole) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const PoolLayout layout(header_of(2, 64, 4000));
  const RecordFormat& format = layout.format();
  PoolBytes bytes(layout.file_bytes());
  const auto log = make_log();
  PoolStore store(bytes, layout, log.get(), {});
  // Each page of the disk's is the pool's at some time: written back now and then, in no order.
  std::vector<std::byte> disk(bytes.all().begin(), bytes.all().end());
  std::vector<std::byte> record(static_cast<std::size_t>(format.record_bytes()));
  std::vector<std::uint64_t> versions[2];
  std::mt19937_64 random(seed);
  for (std::uint64_t step = 0; step < 12'000; ++step) {
    const auto partition = static_cast<std::uint32_t>(random() % 2);
    std::vector<std::uint64_t>& known = versions[partition];
    const std::uint64_t number =
        random() % 2 == 0 && known.size() < 4000 ? known.size() : random() % (known.size() + 1);
    if (number == known.size() && number < 4000) {
      format.fill(record, format.key_of(partition, number), 1);
      store.insert(partition, record);
      known.push_back(1);
    } else if (number < known.size()) {
      format.fill(record, format.key_of(partition, number), ++known[number]);
      store.update(partition, record);
    }
    // Sectors, not pages: a page may be torn.
    for (std::uint64_t sectors = random() % 8; sectors > 0; --sectors) {
      const std::uint64_t at = random() % (disk.size() / 512) * 512;
      std::memcpy(disk.data() + at, bytes.data() + at, 512);
    }
  }
  for (int again = 0; again < 2; ++again) {
    replay_log(log->contents(), 1, disk.size(),
               [&](std::span<const std::byte> changes) { apply_changes(changes, disk); });
    ASSERT_TRUE(std::ranges::equal(disk, bytes.all()));
  }
  ThreadTeam team(2);
  EXPECT_EQ(store.check(team), "");
  for (std::uint32_t partition = 0; partition < 2; ++partition) {
    for (std::uint64_t number = 0; number < versions[partition].size(); ++number) {
      const std::uint64_t key = format.key_of(partition, number);
      ASSERT_TRUE(store.read(partition, key, record));
      ASSERT_TRUE(format.is_right(record, key, versions[partition][number]));
    }
  }
}

TEST_F(PoolStoreTest, AFullPoolAndADamagedOneAreRefused) {
  const PoolLayout layout(header_of(1, 8, 600), "some.pool");
  const RecordFormat& format = layout.format();
  PoolBytes bytes(layout.file_bytes());
  const auto log = make_log();
  PoolStore store(bytes, layout, log.get(), {IndexKind::ordered, 0});
  std::vector<std::byte> record(static_cast<std::size_t>(format.record_bytes()));
  for (std::uint64_t number = 0; number < 600; ++number) {
    format.fill(record, format.key_of(0, number), 1);
    store.insert(0, record);
  }
  EXPECT_THROW(store.insert(0, record), StoreError);
  ThreadTeam team(1);
  EXPECT_EQ(store.check(team), "");
  // Every word of the tree's first nodes, one at a time: refused, or not met.
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (std::uint64_t word = 0; word < 4 * page_bytes / 8; ++word) {
    std::byte* const at = bytes.data() + layout.node_at(0, 0) + word * 8;
    std::uint64_t before = 0;
    std::memcpy(&before, at, 8);
    const std::uint64_t damaged = random();
    std::memcpy(at, &damaged, 8);
    try {
      store.check(team);
      store.read(0, format.key_of(0, random() % 600), record);
      store.scan(0, random(), 600, record, [] {});
    } catch (const StoreError& error) {
      EXPECT_NE(std::string(error.what()).find("some.pool is damaged: "), std::string::npos) << error.what();
    }
    std::memcpy(at, &before, 8);
  }
  EXPECT_EQ(store.check(team), "");
  std::memset(bytes.data() + PoolLayout::state_at(0), 0xff, 8);
  EXPECT_THROW(PoolStore(bytes, layout, log.get(), {}), StoreError);
}

}  // namespace
}  // namespace tiermap::test
