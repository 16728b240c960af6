// Many threads, each with instructions that need several pages at once, and memory for a few pages.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "store/refusal.hpp"

namespace tiermap {
namespace {

class LittleMemoryTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, LittleMemoryTest, every_engine, engine_name);

/// One load, wherever it lies.
std::uint64_t load_word(const std::byte* address) {
  std::uint64_t word = 0;
#if defined(__x86_64__)
  using Bytes = const std::byte[8];
  __asm__ volatile("movq %1, %0" : "=r"(word) : "m"(*reinterpret_cast<Bytes*>(address)));
#else
  std::memcpy(&word, address, sizeof word);
#endif
  return word;
}

/// By each thread so many loads across page boundaries, at `offset_of(reader, load)`; all are done when it returns.
void expect_known_loads(const Region& region, std::uint64_t threads, std::uint64_t loads,
                        const std::function<std::uint64_t(std::uint64_t reader, std::uint64_t load)>& offset_of) {
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (std::uint64_t reader = 0; reader < threads; ++reader) {
    readers.emplace_back([&, reader] {
      for (std::uint64_t load = 0; load < loads; ++load) {
        const std::uint64_t offset = offset_of(reader, load);
        const std::vector<std::byte> expected = known_bytes(offset, 8);
        const std::uint64_t word = load_word(region.data() + offset);
        wrong += std::memcmp(&word, expected.data(), sizeof word) == 0 ? 0U : 1U;
      }
    });
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(wrong, 0U);
}

// A livelock once: each thread's first page was gone before its second was there.
TEST_P(LittleMemoryTest, EveryThreadGetsBothPagesThatAnInstructionNeeds) {
  for (const std::uint64_t page : {4 * kib, 64 * kib}) {
    Cache cache(cache_options(16 * mib));
    const Region region = cache.map(known_store(64 * page), read_only(page));
    cache.set_budget_bytes(cache.minimum_budget_bytes());
    expect_known_loads(region, 24, 40, [page](std::uint64_t reader, std::uint64_t load) {
      return (1 + (reader * 31 + load * 17) % 63) * page - 4;
    });
  }
}

// A page that took its time had been taken away again when the turn was over that it was asked for in.
TEST_P(LittleMemoryTest, EveryThreadGetsBothPagesFromASlowStore) {
  constexpr std::uint64_t threads = 6;
  constexpr std::uint64_t page = 4 * kib;
  const auto store = std::make_shared<FaultyStore>(known_store(2 * threads * page));
  store->on_read([](const FaultyStore::Call&) { return FaultyStore::delay(std::chrono::milliseconds(10)); });
  Cache cache(cache_options(16 * mib));
  RegionOptions options = read_only(page);
  options.read_ahead_bytes = 0;
  const Region region = cache.map(store, options);
  cache.set_budget_bytes(cache.minimum_budget_bytes());
  expect_known_loads(region, threads, 1,
                     [](std::uint64_t reader, std::uint64_t) { return (2 * reader + 1) * page - 4; });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They take more addresses than the test permits.
/// A child does `work`, and may have so many bytes of addresses more than it has.
void expect_to_work_with_addresses(std::uint64_t more, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * 4096 + more, RLIM_INFINITY};
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    try {
      work();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// As much as the machine has was reserved, whatever the budget.
TEST_P(LittleMemoryTest, UnderALimitOfAddressesThereIsRoomForTheBudget) {
  expect_to_work_with_addresses(512 * mib, [this] {
    Cache cache(cache_options(4 * mib));
    const Region region = cache.map(known_store(16 * mib), read_only(64 * kib));
    expect_known_loads(region, 2, 200, [](std::uint64_t, std::uint64_t load) { return load * 80'000; });
    cache.set_budget_bytes(2 * mib);
    cache.set_budget_bytes(4 * mib);
    const std::string raised = refusal_of_call<OptionError>(EINVAL, [&] { cache.set_budget_bytes(8 * mib); });
    EXPECT_NE(raised.find("under a limit of addresses"), std::string::npos) << raised;
    Cache larger(cache_options(1024 * mib));
    const std::string refused = refusal_of_call<PlatformError>(ENOMEM, [&] { larger.map(known_store(mib)); });
    EXPECT_NE(refused.find("give a smaller budget"), std::string::npos) << refused;
  });
}

// Half of the machine's memory was taken, of which three times as many addresses were to be reserved.
TEST_P(LittleMemoryTest, UnderALimitOfAddressesThereIsRoomForTheDefaultBudget) {
  expect_to_work_with_addresses(512 * mib, [this] {
    CacheOptions options = cache_options(4 * mib);
    options.budget_bytes.reset();
    Cache cache(options);
    EXPECT_GT(cache.budget_bytes(), 32 * mib);
    const Region region = cache.map(known_store(16 * mib), read_only(64 * kib));
    expect_known_loads(region, 2, 200, [](std::uint64_t, std::uint64_t load) { return load * 80'000; });
  });
}
#endif

}  // namespace
}  // namespace tiermap
