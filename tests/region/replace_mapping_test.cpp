// Replacement::reservation: a region inside a range that the program has reserved, and goes on owning.
#include <sys/mman.h>

#include "region/engine_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;
constexpr std::uint64_t reserved_bytes = 12 * page;
constexpr std::uint64_t large_page = 128 * kib;

class ReplaceMappingTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    raw_ = ::mmap(nullptr, reserved_bytes + large_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(raw_, MAP_FAILED);
    const auto address = reinterpret_cast<std::uintptr_t>(raw_);
    place_ = static_cast<std::byte*>(raw_) + (large_page - address % large_page) % large_page;
  }
  void TearDown() override {
    if (raw_ != nullptr) {
      ::munmap(raw_, reserved_bytes + large_page);
    }
  }
  static RegionOptions at(void* address, std::uint64_t length) {
    RegionOptions options = read_write(page, length);
    options.address = address;
    options.replacement = Replacement::reservation;
    return options;
  }
  /// Whether all of the range is mapped: only then could nobody else have got a part of it.
  static bool taken(void* address, std::uint64_t bytes) {
    void* const got = ::mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) {
      return errno == EEXIST;
    }
    ::munmap(got, bytes);
    return false;
  }

  void* raw_ = nullptr;
  std::byte* place_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Engines, ReplaceMappingTest, every_engine, engine_name);

TEST_P(ReplaceMappingTest, TakesThePlaceAndLeavesItReserved) {
  const auto store = known_store(6 * page);
  Cache cache(cache_options(1 * mib));
  for (int round = 0; round < 2; ++round) {
    Region region = cache.map(store, at(place_ + 2 * page, 6 * page));
    ASSERT_EQ(region.data(), place_ + 2 * page);
    EXPECT_TRUE(is_known(bytes_of(region), 0));
    EXPECT_EQ(signal_raised_by([&] { touch(place_ + 2 * page - 1); }), SIGSEGV);
    EXPECT_EQ(signal_raised_by([&] { touch(place_ + 8 * page); }), SIGSEGV);
    region.unmap();
    EXPECT_EQ(signal_raised_by([&] { touch(place_ + 2 * page); }), SIGSEGV);
    for (std::uint64_t index = 0; index < 12; ++index) {
      EXPECT_TRUE(taken(place_ + index * page, page)) << index;
    }
  }
}

TEST_P(ReplaceMappingTest, AFailureLeavesItReserved) {
  Cache cache(cache_options(512 * kib));
  RegionOptions options = at(place_, 4 * page);
  options.page_size_bytes = large_page;  // Four of these, with what keeps track of them, are more than the budget.
  EXPECT_THROW(cache.map(known_store(4 * page), options), Error);
  EXPECT_TRUE(taken(place_, 12 * page));
}

TEST_P(ReplaceMappingTest, ShrinkingLeavesReservedWhatItCutsOff) {
  const auto store = known_store(6 * page);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, at(place_, 6 * page));
  region.resize(2 * page);
  EXPECT_TRUE(taken(place_ + 2 * page, 4 * page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  region.unmap();
  EXPECT_TRUE(taken(place_, 12 * page));
}

TEST_P(ReplaceMappingTest, WithoutItNothingIsOverwritten) {
  Cache cache(cache_options(1 * mib));
  RegionOptions options = at(place_, 4 * page);
  options.replacement = Replacement::none;
  EXPECT_THROW(cache.map(known_store(4 * page), options), PlatformError);
}

/// Keeps the size of what it is handed.
class WholePageStore final : public Store {
 public:
  explicit WholePageStore(std::uint64_t bytes) : inner_(known_store(bytes)) {}
  std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
  bool writable() const override { return true; }
  bool writes_whole_pages() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return inner_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const bool whole = offset % page == 0 && (bytes == page || offset + bytes == size_bytes());
    (whole ? whole_writes : part_writes).fetch_add(1);
    return inner_->write(buffer, bytes, offset);
  }

  std::atomic<int> whole_writes{0};
  std::atomic<int> part_writes{0};

 private:
  const std::shared_ptr<Store> inner_;
};

class WholePagesTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, WholePagesTest, every_engine, engine_name);

TEST_P(WholePagesTest, AStoreThatKeepsPagesIsHandedThese) {
  const auto store = std::make_shared<WholePageStore>(20 * page - 5000);
  Cache cache(cache_options(256 * kib));
  Region region = cache.map(store, read_write(page));
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t offset = 9000; offset < region.size(); offset += page) {
      poke(region.data() + offset, static_cast<std::byte>(round));
    }
    region.sync();
  }
  EXPECT_EQ(store->part_writes.load(), 0);
  EXPECT_GE(store->whole_writes.load(), 40);
  const int before = store->whole_writes.load();
  poke(region.data() + 9000, std::byte{1});  // As it was: nothing to write.
  region.unmap();
  EXPECT_EQ(store->part_writes.load(), 0);
  EXPECT_LE(store->whole_writes.load(), before + 1);
}

}  // namespace
}  // namespace tiermap
