// A Region object from map() to unmap(): moves, errors at the end, and what is left of it.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "region/engine_fixture.hpp"
#include "region/known_bytes.hpp"
#include "region/raised_signal.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class LifetimeTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, LifetimeTest, every_engine, engine_name);

TEST_P(LifetimeTest, UnmapIsIdempotent) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(known_store(4 * page), read_only(page));
  touch(region.data());
  region.unmap();
  EXPECT_FALSE(region);
  EXPECT_EQ(region.data(), nullptr);
  EXPECT_EQ(region.size(), 0U);
  EXPECT_EQ(region.page_size_bytes(), 0U);
  region.unmap();
}

TEST_P(LifetimeTest, AnUnmappedRegionRefusesEverything) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(known_store(4 * page), read_only(page));
  region.unmap();
  EXPECT_THROW(region.sync(), OptionError);
  EXPECT_THROW(region.flush(), OptionError);
  EXPECT_THROW(region.prefetch({0, 0}), OptionError);
  EXPECT_THROW(region.pin({0, 0}), OptionError);
  EXPECT_THROW(region.unpin({0, 0}), OptionError);
  EXPECT_THROW(region.advise(Advice::hot), OptionError);
  EXPECT_THROW(region.discard({0, 0}), OptionError);
  EXPECT_THROW(region.resize(5), OptionError);
  EXPECT_THROW(static_cast<void>(region.statistics()), OptionError);
}

// Much as with munmap(): whoever goes on reading gets a signal, also if he was waiting for a page just then.
TEST_P(LifetimeTest, AReaderIsWokenWhenItsRegionGoes) {
  const auto store = known_store(4 * mib);
  Cache cache(cache_options(1 * mib));
  for (useconds_t round = 0; round < 100; ++round) {
    Region region = cache.map(store, read_write(4 * kib));
    const std::byte* const data = region.data();
    std::atomic<bool> reading{false};
    std::atomic<int> raised{0};
    std::thread reader([&] {
      raised = signal_raised_by([&] {
        for (std::uint64_t offset = 0;; offset = (offset + 4 * kib) % (4 * mib)) {
          touch(data + offset);
          reading.store(true, std::memory_order_relaxed);
        }
      });
    });
    while (!reading) {
      std::this_thread::yield();
    }
    ::usleep(round * 7 % 300);
    region.unmap();
    reader.join();
    // Serving himself, he may find nobody at home a moment before the addresses are gone.
    ASSERT_TRUE(raised == SIGSEGV || (raised == SIGBUS && GetParam().fault_mode == FaultMode::self_serving)) << raised;
  }
}

// madvise() of the program's own, where advise() or discard() was meant: an error, and no endless fault.
TEST_P(LifetimeTest, MemoryThatTheProgramTookAwayRaisesSigbus) {
  if (GetParam().fault_mode == FaultMode::notify && (probe_userfaultfd().features & UFFD_FEATURE_POISON) == 0) {
    GTEST_SKIP() << "no UFFDIO_POISON in this kernel";
  }
  constexpr std::uint64_t large_page = 64 * kib;
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(known_store(1 * mib), read_write(large_page));
  EXPECT_EQ(touch(region.data()), known_byte(0));
  EXPECT_EQ(touch(region.data() + large_page), known_byte(large_page));
  poke(region.data() + 2 * large_page, std::byte{1});
  region.sync();
  for (const std::uint64_t lost : {std::uint64_t{0}, large_page + 8192, 2 * large_page}) {
    ASSERT_EQ(::madvise(region.data() + lost, 4096, MADV_DONTNEED), 0);
    EXPECT_EQ(signal_raised_by([&] { touch(region.data() + lost + 5); }), SIGBUS) << lost;
  }
  EXPECT_EQ(touch(region.data() + large_page + 4096), known_byte(large_page + 4096)) << "beside it";
  region.discard({0, 3 * large_page});
  EXPECT_TRUE(is_known(bytes_of(region).first(2 * large_page), 0)) << "read anew";
  EXPECT_EQ(touch(region.data() + 2 * large_page), std::byte{1});
}

// Also where it is wanted for the store: zeros are written, and the call does not wait for itself.
TEST_P(LifetimeTest, ChangesThatTheProgramTookAwayAreNotWaitedFor) {
  for (const std::uint64_t page_bytes : {4 * kib, 64 * kib}) {
    const auto evict = [page_bytes](Region& region) {
      for (std::uint64_t offset = page_bytes; offset < region.size(); offset += page_bytes) {
        touch(region.data() + offset);
      }
    };
    for (const bool clean : {false, true}) {
      for (int way = 0; way < 3; ++way) {
        const auto store = known_store(4 * mib);
        Cache cache(cache_options(1 * mib));
        Region region = cache.map(store, read_write(page_bytes));
        poke(region.data(), std::byte{1});
        if (clean) {
          region.sync();
        }
        ASSERT_EQ(::madvise(region.data(), 4 * kib, MADV_DONTNEED), 0);
        way == 0 ? region.sync() : way == 1 ? region.unmap() : evict(region);
        if (region) {
          region.unmap();
        }
        const std::vector<std::byte> stored = read_store(*store, 0, 4 * mib);
        EXPECT_TRUE(is_known(std::span(stored).subspan(4 * kib), 4 * kib)) << page_bytes << " " << clean << way;
      }
    }
  }
}

TEST_P(LifetimeTest, UnmapWritesWhatIsDirty) {
  const auto store = known_store(4 * page);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 4, region.size());
  region.unmap();
  EXPECT_TRUE(is_all(read_store(*store, 0, 4 * page), std::byte{4}));
}

TEST_P(LifetimeTest, DestructionWritesWhatIsDirty) {
  const auto store = known_store(4 * page);
  Cache cache(cache_options(1 * mib));
  {
    const Region region = cache.map(store, read_write(page));
    std::memset(region.data(), 4, region.size());
  }
  EXPECT_TRUE(is_all(read_store(*store, 0, 4 * page), std::byte{4}));
}

TEST_P(LifetimeTest, UnmapThatCannotWriteThrowsAndStaysMapped) {
  const auto store = std::make_shared<FaultyStore>(known_store(4 * page));
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 4, region.size());
  store->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EDQUOT); });
  try {
    region.unmap();
    FAIL() << "the store refused, and unmap() said nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EDQUOT);
  }
  ASSERT_TRUE(region);
  EXPECT_TRUE(is_all(bytes_of(region), std::byte{4}));
  store->on_write({});
  region.unmap();
  EXPECT_TRUE(is_all(read_store(*store, 0, 4 * page), std::byte{4}));
}

TEST_P(LifetimeTest, DestructionEndsThoughTheStoreRefuses) {
  const auto store = std::make_shared<FaultyStore>(known_store(4 * page));
  Cache cache(cache_options(1 * mib));
  {
    const Region region = cache.map(store, read_write(page));
    std::memset(region.data(), 4, region.size());
    store->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  }
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
  EXPECT_EQ(cache.statistics().dirty_bytes, 0U);
}

TEST_P(LifetimeTest, MovingHandsTheMappingOn) {
  Cache cache(cache_options(1 * mib));
  Region first = cache.map(known_store(4 * page), read_only(page));
  std::byte* const data = first.data();
  Region second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_TRUE(is_known(bytes_of(second), 0));
}

TEST_P(LifetimeTest, AssigningUnmapsWhatWasThereBefore) {
  const auto store = known_store(4 * page);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 4, region.size());
  region = cache.map(known_store(2 * page), read_only(page));
  EXPECT_TRUE(is_all(read_store(*store, 0, 4 * page), std::byte{4}));
  EXPECT_EQ(region.size(), 2 * page);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(LifetimeTest, AssigningARegionToItselfChangesNothing) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(known_store(4 * page), read_only(page));
  Region& same = region;
  region = std::move(same);
  ASSERT_TRUE(region);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(LifetimeTest, AnEmptyRegionIsHarmless) {
  Region region;
  EXPECT_FALSE(region);
  EXPECT_EQ(region.data(), nullptr);
  region.unmap();
  const Region moved = std::move(region);
  EXPECT_FALSE(moved);
}

TEST_P(LifetimeTest, AsSpanHoldsAsManyAsFit) {
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(known_store(2 * page + 7), read_only(page));
  EXPECT_EQ(region.as_span<std::uint64_t>().size(), 2 * page / 8);
  EXPECT_EQ(region.as_span<std::byte>().size(), 2 * page + 7);
  EXPECT_EQ(Region().as_span<int>().size(), 0U);
}

TEST_P(LifetimeTest, TheRegionKeepsItsStoreAlive) {
  Cache cache(cache_options(1 * mib));
  std::shared_ptr<MemoryStore> store = known_store(4 * page);
  const std::weak_ptr<MemoryStore> watched = store;
  Region region = cache.map(store, read_only(page));
  store.reset();
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  region.unmap();
  EXPECT_TRUE(watched.expired());
}

TEST_P(LifetimeTest, ARegionThatOutlivesItsCacheStillWorks) {
  // The header asks for the other order; what happens all the same must not be a crash.
  const auto store = known_store(4 * page);
  auto cache = std::make_unique<Cache>(cache_options(1 * mib));
  Region region = cache->map(store, read_write(page));
  poke(region.data(), std::byte{0});
  cache.reset();
  region = Region();
  SUCCEED();
}

TEST_P(LifetimeTest, MappingAndUnmappingGivesEverythingBack) {
  const auto count = [](const char* directory) {
    return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
  };
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  const auto directory = shared_memory_directory();
  write_known_file(directory / "data", 10 * page);
  Cache cache(cache_options(1 * mib));
  const auto once = [&] {
    Region region = cache.map(directory / "data", read_write(page));
    std::memset(region.data(), 1, region.size());
    region.sync();
  };
  once();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // Until the cache's threads have made their rings.
  const auto descriptors = count("/proc/self/fd");
  const auto ranges = mappings();
  for (int round = 0; round < 20; ++round) {
    once();
  }
  // A thread of the cache's may only now have opened what it keeps, and the allocator may have grown: a leak shows 20
  // times.
  EXPECT_LT(count("/proc/self/fd"), descriptors + 10);
  EXPECT_LT(mappings(), ranges + 10);
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
}

}  // namespace
}  // namespace tiermap
