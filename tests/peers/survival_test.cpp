// LLNL/umap: an input error, a closed descriptor, a signal while it polls end the process; exceptions cross extern "C";
// errno has the wrong sign; a fixed address overwrites one page beyond; a forked child reads zeros.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "region/engine_fixture.hpp"
#include "region/surrounded_gap.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class SurvivalTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, SurvivalTest, every_engine, engine_name);

TEST_P(SurvivalTest, AReadErrorReachesTheThreadThatFaultedAndNobodyElse) {
  const auto store = std::make_shared<FaultyStore>(known_store(16 * page));
  store->on_read([](const FaultyStore::Call& call) {
    return call.offset / page == 5 ? FaultyStore::fail(EIO) : FaultyStore::pass();
  });
  Cache cache(cache_options(512 * kib));
  RegionOptions options = read_only(page);
  options.advice = Advice::random;
  const Region region = cache.map(store, options);
  std::atomic<bool> other_is_right{false};
  std::thread other([&] { other_is_right = bool(is_known(bytes_of(region).first(5 * page), 0)); });
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + 5 * page + 9); }), SIGBUS);
  other.join();
  EXPECT_TRUE(other_is_right.load());
  EXPECT_TRUE(is_known(bytes_of(region).subspan(6 * page), 6 * page));
  // Once the store has recovered, so does the page.
  store->on_read({});
  EXPECT_TRUE(comes_to_be([&] { return signal_raised_by([&] { touch(region.data() + 5 * page); }) == 0; }));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(SurvivalTest, AWriteErrorKeepsThePage) {
  const auto store = std::make_shared<FaultyStore>(known_store(2 * mib));
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(store, read_write(page));
  store->on_write(
      [](const FaultyStore::Call& call) { return call.number < 20 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    poke(region.data() + offset, std::byte{0});
  }
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    EXPECT_EQ(touch(region.data() + offset), std::byte{0});
  }
  EXPECT_GT(region.statistics()[Counter::write_errors], 0U);
}

class ThrowingStore final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 16 * page; }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    if (offset >= 8 * page) {
      throw std::runtime_error("a store of the user's");
    }
    std::memset(buffer, 1, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void*, std::size_t, std::uint64_t) override { throw 42; }
};

TEST_P(SurvivalTest, AnExceptionOfAStoreIsAnErrorOfThatPage) {
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(std::make_shared<ThrowingStore>(), read_write(page));
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + 9 * page); }), SIGBUS);
  poke(region.data(), std::byte{2});
  try {
    region.sync();
    FAIL() << "the store threw, and sync() said nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EIO) << "errno values are positive in exceptions";
  }
  EXPECT_EQ(touch(region.data()), std::byte{2});
}

TEST_P(SurvivalTest, AFileThatIsRemovedOrRenamedIsStillServed) {
  const auto directory = shared_memory_directory();
  Cache cache(cache_options(512 * kib));
  write_known_file(directory / "removed", 16 * page);
  const Region removed = cache.map(directory / "removed", read_only(page));
  std::filesystem::remove(directory / "removed");
  EXPECT_TRUE(is_known(bytes_of(removed), 0));

  write_known_file(directory / "before", 16 * page);
  Region renamed = cache.map(directory / "before", read_write(page));
  std::filesystem::rename(directory / "before", directory / "after");
  write_file(directory / "before", "somebody else's");
  EXPECT_TRUE(is_known(bytes_of(renamed), 0));
  poke(renamed.data() + 3 * page, std::byte{0});
  renamed.unmap();
  std::vector<std::byte> expected = known_bytes(0, 16 * page);
  expected[3 * page] = std::byte{0};
  EXPECT_EQ(read_bytes(directory / "after"), expected);
  EXPECT_EQ(read_bytes(directory / "before").size(), 15U);
}

/// The descriptors of this process that are open on the file.
std::vector<int> descriptors_of(const std::string& path) {
  std::vector<int> found;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(descriptor.path(), gone) == path) {
      found.push_back(std::stoi(descriptor.path().filename()));
    }
  }
  return found;
}

// Programs that become daemons close every descriptor there is.
TEST_P(SurvivalTest, AClosedDescriptorIsAnErrorOfTheAccess) {
  const auto directory = shared_memory_directory();
  write_known_file(directory / "data", 256 * page);
  std::vector<int> lower_numbers;
  for (int count = 0; count < 32; ++count) {
    lower_numbers.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  Cache cache(cache_options(512 * kib));
  const auto other_store = known_store(16 * page);
  const Region other = cache.map(other_store, read_only(page));
  Region region = cache.map(directory / "data", read_write(page));
  region.advise(Advice::random);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  region.prefetch({0, page}).wait();
  region.pin({0, page});
  poke(region.data(), std::byte{0});
  // Whatever a thread of the cache opens from now on gets one of these, and not a number that becomes free below.
  std::ranges::for_each(lower_numbers, ::close);
  const std::vector<int> numbers = descriptors_of(directory / "data");
  ASSERT_FALSE(numbers.empty());
  std::vector<int> copies;
  for (const int number : numbers) {
    copies.push_back(::fcntl(number, F_DUPFD_CLOEXEC, 500));
    ASSERT_GE(copies.back(), 500);
    ::close(number);
  }
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + 20 * page); }), SIGBUS);
  EXPECT_EQ(signal_raised_by([&] { poke(region.data() + 21 * page, std::byte{0}); }), SIGBUS);
  EXPECT_EQ(region.prefetch({30 * page, 4 * page}).wait(), 0U);
  EXPECT_THROW(region.sync(), Error);
  EXPECT_EQ(touch(region.data()), std::byte{0}) << "what is in memory stays";
  EXPECT_TRUE(is_known(bytes_of(other), 0));
  // The program gives the numbers back what they stood for.
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    EXPECT_EQ(::fcntl(numbers[index], F_GETFD), -1) << "somebody has taken the number";
    EXPECT_EQ(::dup2(copies[index], numbers[index]), numbers[index]);
    ::close(copies[index]);
  }
  EXPECT_TRUE(comes_to_be([&] { return signal_raised_by([&] { touch(region.data() + 20 * page); }) == 0; }));
  EXPECT_TRUE(comes_to_be([&] { return signal_raised_by([&] { touch(region.data() + 21 * page); }) == 0; }));
  EXPECT_TRUE(is_known(bytes_of(region).subspan(1), 1));
  region.sync();
  EXPECT_EQ(read_bytes(directory / "data")[0], std::byte{0});
}

void do_nothing(int) {}

TEST_P(SurvivalTest, SignalsOfTheProgramDisturbNothing) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = do_nothing;  // Without SA_RESTART: every system call that can be interrupted is.
  ::sigaction(SIGUSR1, &action, &before);
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(known_store(4 * mib), read_write(page));
  std::atomic<bool> done{false};
  const pthread_t worker = ::pthread_self();
  std::thread signaller([&] {
    while (!done.load()) {
      ::pthread_kill(worker, SIGUSR1);
      ::kill(::getpid(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t offset = 0; offset < region.size(); offset += 1000) {
      EXPECT_EQ(touch(region.data() + offset), known_byte(offset));
      poke(region.data() + offset, known_byte(offset));
    }
    region.sync();
  }
  done.store(true);
  signaller.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(SurvivalTest, AFixedAddressLeavesTheNextPageAlone) {
  const SurroundedGap gap(4 * page, 8 * page, page);
  std::memset(gap.before(), 0x33, 8 * page);
  std::memset(gap.behind(), 0x33, 8 * page);
  Cache cache(cache_options(512 * kib));
  RegionOptions options = read_write(page);
  options.address = gap.data();
  {
    const Region region = cache.map(known_store(4 * page), options);
    EXPECT_TRUE(is_known(bytes_of(region), 0));
    std::memset(region.data(), 1, region.size());
  }
  EXPECT_TRUE(is_all({gap.before(), 8 * page}, std::byte{0x33}));
  EXPECT_TRUE(is_all({gap.behind(), 8 * page}, std::byte{0x33}));
}

TEST_P(SurvivalTest, AForkedChildNeverReadsZeros) {
  Cache cache(cache_options(512 * kib));
  const Region region = cache.map(known_store(16 * page), read_write(page));
  poke(region.data(), std::byte{7});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The region is the parent's: the child gets an error at once, on pages in memory and on absent ones.
    const int resident = signal_raised_by([&] { touch(region.data()); });
    const int absent = signal_raised_by([&] { touch(region.data() + 9 * page); });
    ::_exit(resident == SIGSEGV && absent == SIGSEGV ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child read something";
  EXPECT_EQ(touch(region.data()), std::byte{7});
  EXPECT_TRUE(is_known(bytes_of(region).subspan(1), 1));
}

}  // namespace
}  // namespace tiermap
