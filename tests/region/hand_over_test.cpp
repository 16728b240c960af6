// write_back(), update() and hand_over(): what others do to a region's bytes and addresses meets no gap.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 64 * kib;
constexpr std::uint64_t length = 32 * page;

class HandOverTest : public EngineTest {
 protected:
  HandOverTest() { EXPECT_EQ(::ftruncate(descriptor_, length), 0); }
  ~HandOverTest() override { ::close(descriptor_); }
  std::byte byte_at(std::uint64_t offset) const {
    std::byte byte{};
    EXPECT_EQ(::pread(descriptor_, &byte, 1, static_cast<off_t>(offset)), 1);
    return byte;
  }
  /// A mapping of the kernel's in the region's place. By a plain system call: ThreadSanitizer takes mmap() for a write
  /// to all of the range, and would see it race with the threads that are not to notice.
  bool replace(const std::byte* start) const {
    return ::syscall(SYS_mmap, start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor_, 0L) != -1;
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_.path() + "/file";
  int descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
};
INSTANTIATE_TEST_SUITE_P(Engines, HandOverTest, every_engine, engine_name);

/// Only regions that are served by messages can be.
class HandedOverTest : public HandOverTest {};
INSTANTIATE_TEST_SUITE_P(Engines, HandedOverTest,
                         ::testing::Values(EngineChoice{FaultMode::notify, Placement::automatic, "notify"},
                                           EngineChoice{FaultMode::notify, Placement::move, "notify_move"},
                                           EngineChoice{FaultMode::notify, Placement::copy, "notify_copy"}),
                         engine_name);

TEST_P(HandOverTest, WriteBackReachesTheFile) {
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(page));
  region.data()[5 * page] = std::byte{5};
  region.write_back({5 * page, 1});
  EXPECT_EQ(byte_at(5 * page), std::byte{5});
  EXPECT_EQ(region.data()[5 * page], std::byte{5});
}

TEST_P(HandOverTest, UpdateShowsWhatWasChanged) {
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(page));
  region.data()[3 * page + 7] = std::byte{1};
  region.data()[4 * page] = std::byte{2};
  region.update({3 * page, 100}, [&] {
    EXPECT_EQ(byte_at(3 * page + 7), std::byte{1});
    const std::byte byte{9};
    EXPECT_EQ(::pwrite(descriptor_, &byte, 1, 3 * page + 8), 1);
  });
  EXPECT_EQ(region.data()[3 * page + 7], std::byte{1});
  EXPECT_EQ(region.data()[3 * page + 8], std::byte{9});
  EXPECT_EQ(region.data()[4 * page], std::byte{2});
}

TEST_P(HandOverTest, UpdatePassesOnWhatIsThrownAndLetsGo) {
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(page));
  region.data()[0] = std::byte{1};
  EXPECT_THROW(region.update({0, page}, [] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(region.data()[0], std::byte{1});
}

TEST_P(HandOverTest, UpdateKeepsNoPageWhereAPinnedOneCannotBeReadAgain) {
  Cache cache(cache_options(8 * mib));
  auto store = std::make_shared<FaultyStore>(known_store(8 * page));
  Region region = cache.map(store, read_write(page));
  region.pin({page, page});
  bool changed = false;
  region.update({0, 4 * page}, [&] {
    changed = true;
    store->on_read([](auto) { return FaultyStore::fail(EIO); });
  });
  EXPECT_TRUE(changed);
  store->on_read([](auto) { return FaultyStore::pass(); });
  for (const std::uint64_t offset : {0 * page, 2 * page, 3 * page}) {
    EXPECT_EQ(touch(region.data() + offset), known_byte(offset));
  }
  EXPECT_TRUE(comes_to_be([&] { return signal_raised_by([&] { touch(region.data() + page); }) == 0; }));
  EXPECT_EQ(touch(region.data() + page), known_byte(page));
  region.unpin({page, page});
}

TEST_P(HandOverTest, UpdateLosesNoStoreNextToIt) {
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(page));
  std::atomic<bool> stop{false};
  std::uint64_t stores = 0;
  auto* counter = reinterpret_cast<volatile std::uint64_t*>(region.data());
  std::thread writer([&] {
    for (; !stop.load(); ++stores) {
      *counter = *counter + 1;
    }
  });
  for (std::uint64_t round = 1; round <= 200; ++round) {
    const auto byte = static_cast<std::byte>(round);
    region.update({1000, 1}, [&] { EXPECT_EQ(::pwrite(descriptor_, &byte, 1, 1000), 1); });
    EXPECT_EQ(region.data()[1000], byte);
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(*counter, stores);
}

TEST_P(HandOverTest, AFlushThatMeetsAnUpdateKeepsNobodyFromMemory) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(path_, read_write(page));
  const Region other = cache.map(known_store(4 * mib), read_only(page));
  touch(region.data());
  region.update({0, 4 * page}, [&] {
    std::thread([&] { region.flush(); }).join();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // Until an evictor is at it.
    EXPECT_TRUE(is_known(bytes_of(other), 0));
  });
}

TEST_P(HandOverTest, UpdateOfALongRange) {
  Cache cache(cache_options(8 * mib));
  RegionOptions options = read_only(4 * kib);
  options.length = 4096 * mib;
  Region region = cache.map(path_, options);
  EXPECT_EQ(touch(region.data() + length - 1), std::byte{0});
  region.update({0, region.size()}, [&] {
    const std::byte byte{7};
    EXPECT_EQ(::pwrite(descriptor_, &byte, 1, length - 1), 1);
  });
  EXPECT_EQ(touch(region.data() + length - 1), std::byte{7});
}

TEST_P(HandOverTest, NobodyReachesALongRangeWhileItIsUpdated) {
  constexpr std::uint64_t offset = 100 * mib;
  ASSERT_EQ(::ftruncate(descriptor_, 128 * mib), 0);
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(4 * kib));
  std::atomic<bool> stored{false};
  std::thread writer;
  region.update({0, region.size()}, [&] {
    writer = std::thread([&] {
      poke(region.data() + offset, std::byte{1});
      stored.store(true);
    });
    for (int look = 0; look < 200 && !stored.load(); ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(stored.load());
    const std::byte byte{9};
    EXPECT_EQ(::pwrite(descriptor_, &byte, 1, offset + 1), 1);
  });
  writer.join();
  region.sync();
  EXPECT_EQ(byte_at(offset), std::byte{1});
  EXPECT_EQ(byte_at(offset + 1), std::byte{9});
}

TEST_P(HandOverTest, LongUpdatesAndStoresNextToThemLoseNothing) {
  constexpr std::uint64_t bytes = 96 * mib;
  constexpr std::uint64_t threads = 3;
  ASSERT_EQ(::ftruncate(descriptor_, bytes), 0);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(path_, read_write(4 * kib));
  std::atomic<bool> stop{false};
  std::uint64_t stores[threads] = {};
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < threads; ++writer) {
    writers.emplace_back([&, writer] {
      for (std::uint64_t turn = 0; !stop.load(); ++turn, ++stores[writer]) {
        auto* cell = reinterpret_cast<volatile std::uint64_t*>(region.data() + turn * 7 % 1000 * 64 * kib + writer * 8);
        *cell = *cell + 1;
      }
    });
  }
  for (std::uint64_t round = 1; round <= 20; ++round) {
    region.update({0, region.size()}, [&] {
      for (std::uint64_t cell = 0; cell < 1000; ++cell) {
        EXPECT_EQ(::pwrite(descriptor_, &round, 8, static_cast<off_t>(cell * 64 * kib + 1024)), 8);
      }
    });
    for (std::uint64_t cell = 0; cell < 1000; cell += 37) {
      EXPECT_EQ(*reinterpret_cast<volatile std::uint64_t*>(region.data() + cell * 64 * kib + 1024), round);
    }
  }
  stop.store(true);
  for (std::thread& writer : writers) {
    writer.join();
  }
  for (std::uint64_t writer = 0; writer < threads; ++writer) {
    std::uint64_t sum = 0;
    for (std::uint64_t cell = 0; cell < 1000; ++cell) {
      sum += *reinterpret_cast<volatile std::uint64_t*>(region.data() + cell * 64 * kib + writer * 8);
    }
    EXPECT_EQ(sum, stores[writer]);
  }
}

// In small, large and wide pages, of which the region has all as readers and writers need them; in large ones at last.
TEST_P(HandOverTest, UpdatesAmongPagesThatFollowTheAccessLoseNothing) {
  constexpr std::uint64_t block = 4 * kib;
  constexpr std::uint64_t bytes = 64 * mib;
  constexpr std::uint64_t threads = 2;
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  ASSERT_EQ(::ftruncate(descriptor_, bytes), 0);
  Cache cache(cache_options(36 * mib));
  Region region = cache.map(path_, {.access = Access::read_write});
  const auto cell_at = [&](std::uint64_t at, std::uint64_t offset) {
    return reinterpret_cast<volatile std::uint64_t*>(region.data() + at * block + offset);
  };
  std::atomic<bool> stop{false};
  std::uint64_t stores[threads] = {};
  std::vector<std::thread> others;
  for (std::uint64_t writer = 0; writer < threads; ++writer) {
    others.emplace_back([&, writer] {
      std::mt19937_64 random(seed + writer);
      for (; !stop.load(); ++stores[writer]) {
        auto* cell = cell_at(random() % (bytes / block), writer * 8);
        *cell = *cell + 1;
      }
    });
  }
  others.emplace_back([&] {  // Once around in order, again and again: by wide pages.
    for (std::uint64_t at = 0; !stop.load(); at = (at + 1) % (bytes / block)) {
      touch(region.data() + at * block);
    }
  });
  std::mt19937_64 random(seed + threads);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    const std::uint64_t blocks = std::uint64_t{1} << (random() % 10);
    const std::uint64_t first = random() % (bytes / block - blocks);
    region.update({first * block + 1024, (blocks - 1) * block + 8}, [&] {
      for (std::uint64_t at = first; at < first + blocks; ++at) {
        EXPECT_EQ(::pwrite(descriptor_, &round, 8, static_cast<off_t>(at * block + 1024)), 8);
      }
    });
    for (std::uint64_t at = first; at < first + blocks; ++at) {
      ASSERT_EQ(*cell_at(at, 1024), round) << at;
    }
    if (round == 40) {
      region.pin({8 * page, page});
    }
  }
  stop.store(true);
  for (std::thread& other : others) {
    other.join();
  }
  for (std::uint64_t writer = 0; writer < threads; ++writer) {
    std::uint64_t sum = 0;
    for (std::uint64_t at = 0; at < bytes / block; ++at) {
      sum += *cell_at(at, writer * 8);
    }
    EXPECT_EQ(sum, stores[writer]);
  }
}

TEST_P(HandedOverTest, KeepsEveryByte) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(path_, read_write(page));
  std::byte* start = region.data();
  for (std::uint64_t offset = 0; offset < length; offset += 1000) {
    start[offset] = static_cast<std::byte>(offset / 1000);
  }
  ASSERT_TRUE(region.hand_over([&] { return replace(start); }));
  EXPECT_FALSE(region);
  for (std::uint64_t offset = 0; offset < length; offset += 1000) {
    ASSERT_EQ(start[offset], static_cast<std::byte>(offset / 1000));
  }
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
  ::munmap(start, length);
  // The frames can be used again.
  Region next = cache.map(path_, read_write(page));
  EXPECT_EQ(next.data()[1000], std::byte{1});
}

TEST_P(HandedOverTest, GoesOnWhereNothingReplacedIt) {
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(page));
  region.data()[page] = std::byte{3};
  EXPECT_FALSE(region.hand_over([] { return false; }));
  EXPECT_EQ(region.data()[page], std::byte{3});
  region.data()[2 * page] = std::byte{4};
  region.unmap();
  EXPECT_EQ(byte_at(2 * page), std::byte{4});
}

TEST_P(HandedOverTest, GoesOnWhereReplacingItThrows) {
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(page));
  region.data()[page] = std::byte{3};
  EXPECT_THROW(region.hand_over([]() -> bool { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(region.data()[page], std::byte{3});
  region.data()[2 * page] = std::byte{4};
  region.unmap();
  EXPECT_EQ(byte_at(2 * page), std::byte{4});
}

TEST_P(HandedOverTest, UnpinsWhatIsPinnedAlsoWhereNothingReplacedIt) {
  Cache cache(cache_options(8 * mib));
  Region region = cache.map(path_, read_write(page));
  const std::uint64_t least = cache.minimum_budget_bytes();
  region.pin({0, 2 * page});
  EXPECT_FALSE(region.hand_over([] { return false; }));
  EXPECT_EQ(cache.minimum_budget_bytes(), least);
  EXPECT_THROW(region.unpin({0, page}), OptionError);
  EXPECT_EQ(cache.minimum_budget_bytes(), least);
  region.pin({0, page});
}

TEST_P(HandedOverTest, IsNotNoticedByThreadsThatStore) {
  Cache cache(cache_options(1 * mib));
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(::ftruncate(descriptor_, 0), 0);
    ASSERT_EQ(::ftruncate(descriptor_, length), 0);
    Region region = cache.map(path_, read_write(page));
    std::byte* start = region.data();
    std::atomic<bool> stop{false};
    constexpr std::uint64_t writers = 3;
    std::uint64_t stores[writers] = {};
    std::vector<std::thread> threads;
    for (std::uint64_t writer = 0; writer < writers; ++writer) {
      threads.emplace_back([&, writer] {
        for (std::uint64_t turn = 0; !stop.load(); ++turn, ++stores[writer]) {
          auto* cell = reinterpret_cast<volatile std::uint64_t*>(start + turn * 7 % 32 * page + writer * 8);
          *cell = *cell + 1;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ASSERT_TRUE(region.hand_over([&] { return replace(start); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop.store(true);
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (std::uint64_t writer = 0; writer < writers; ++writer) {
      std::uint64_t sum = 0;
      for (std::uint64_t cell = 0; cell < 32; ++cell) {
        sum += *reinterpret_cast<std::uint64_t*>(start + cell * page + writer * 8);
      }
      EXPECT_EQ(sum, stores[writer]);
    }
    ::munmap(start, length);
  }
}

TEST_P(HandedOverTest, StaysMappedWhereItCannotBeWritten) {
  Cache cache(cache_options(8 * mib));
  auto store = std::make_shared<FaultyStore>(known_store(8 * page));
  Region region = cache.map(store, read_write(page));
  region.data()[0] = std::byte{1};
  store->on_write([](auto) { return FaultyStore::fail(ENOSPC); });
  EXPECT_THROW(region.hand_over([] { return true; }), Error);
  EXPECT_EQ(region.data()[0], std::byte{1});
  store->on_write([](auto) { return FaultyStore::pass(); });
  region.unmap();
}

/// By the kernel's engine, at its place.
class TakenOverTest : public HandOverTest {
 protected:
  bool take_over(Region& region, const RegionOptions& options, Region& taken) {
    RegionOptions there = options;
    there.address = region.data();
    there.length = region.size();
    there.replacement = Replacement::mapping;
    return region.hand_over([&] {
      taken = kernels_.map(path_, there);
      return true;
    });
  }
  static CacheOptions kernel_options() {
    CacheOptions options;
    options.budget_bytes = 8 * mib;
    options.fault_mode = FaultMode::kernel;
    options.publish_statistics = false;
    return options;
  }

  Cache kernels_{kernel_options()};
};
INSTANTIATE_TEST_SUITE_P(Engines, TakenOverTest,
                         ::testing::Values(EngineChoice{FaultMode::notify, Placement::automatic, "notify"}),
                         engine_name);

TEST_P(TakenOverTest, IsNotNoticedByThreadsThatStore) {
  Cache cache(cache_options(1 * mib));
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(::ftruncate(descriptor_, 0), 0);
    ASSERT_EQ(::ftruncate(descriptor_, length), 0);
    Region region = cache.map(path_, read_write(page));
    std::byte* const start = region.data();
    std::atomic<bool> stop{false};
    std::uint64_t stores = 0;
    std::thread thread([&] {
      for (; !stop.load(); ++stores) {
        auto* const cell = reinterpret_cast<volatile std::uint64_t*>(start + stores * 7 % 32 * page);
        *cell = *cell + 1;
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    Region taken;
    EXPECT_TRUE(take_over(region, read_write(page), taken));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop = true;
    thread.join();
    EXPECT_EQ(taken.data(), start);
    std::uint64_t kept = 0;
    for (std::uint64_t at = 0; at < length; at += page) {
      std::uint64_t there = 0;
      ASSERT_EQ(::pread(descriptor_, &there, sizeof there, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof there));
      kept += there;
    }
    EXPECT_EQ(kept, stores);
  }
}

TEST_P(TakenOverTest, HasZerosBehindTheFile) {
  ASSERT_EQ(::ftruncate(descriptor_, page + 5), 0);
  ASSERT_EQ(::pwrite(descriptor_, "x", 1, page + 4), 1);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(path_, read_only(page, 4 * page));
  std::byte* const start = region.data();
  EXPECT_EQ(start[page + 4], std::byte{'x'});
  Region taken;
  ASSERT_TRUE(take_over(region, read_only(page), taken));
  EXPECT_EQ(taken.data(), start);
  EXPECT_EQ(start[page + 4], std::byte{'x'});
  EXPECT_EQ(start[page + 5], std::byte{0});
  EXPECT_EQ(start[4 * page - 1], std::byte{0});
}

TEST_P(HandOverTest, IsRefusedWhereThreadsServeThemselves) {
  if (GetParam().fault_mode == FaultMode::self_serving) {
    Cache cache(cache_options(8 * mib));
    Region region = cache.map(path_, read_write(page));
    EXPECT_THROW(region.hand_over([] { return true; }), Error);
    EXPECT_EQ(region.data()[0], std::byte{0});
  }
}

TEST_P(HandOverTest, ReplacesWhatIsMapped) {
  Cache cache(cache_options(8 * mib));
  void* taken = ::mmap(nullptr, length + 2 * mib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(taken) + 2 * mib) & ~(2 * mib - 1));
  RegionOptions options = read_write(page);
  options.address = aligned;
  EXPECT_THROW(cache.map(path_, options), PlatformError);
  options.replacement = Replacement::mapping;
  Region region = cache.map(path_, options);
  EXPECT_EQ(region.data(), aligned);
  EXPECT_EQ(region.data()[5], std::byte{0});
  region.unmap();
  ::munmap(taken, length + 2 * mib);
}

}  // namespace
}  // namespace tiermap
