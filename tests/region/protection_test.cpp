// Writing to a read-only region raises SIGSEGV as with mmap, and never reaches the store.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class ProtectionTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, ProtectionTest, every_engine, engine_name);

TEST_P(ProtectionTest, AWriteToAnAbsentPageRaisesSigsegvAtItsAddress) {
  const auto store = known_store(8 * page);
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(store, read_only(page));
  std::byte* const target = region.data() + 3 * page + 5;
  EXPECT_EQ(signal_raised_by([&] { poke(target, std::byte{0}); }), SIGSEGV);
  EXPECT_EQ(signal_address, target);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ProtectionTest, AWriteToAResidentPageRaisesSigsegv) {
  const auto store = known_store(8 * page);
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(store, read_only(page));
  ASSERT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(signal_raised_by([&] { poke(region.data() + 5, std::byte{0}); }), SIGSEGV);
  EXPECT_EQ(signal_raised_by([&] { poke(region.data() + 5, std::byte{0}); }), SIGSEGV);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ProtectionTest, TheRegionStillPagesAfterwards) {
  const auto store = known_store(4 * mib);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, read_only(page));
  ASSERT_EQ(signal_raised_by([&] { poke(region.data(), std::byte{0}); }), SIGSEGV);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(is_known(bytes_of(region), 0));
  }
  EXPECT_LE(cache.statistics().resident_bytes, 1 * mib);
  region.unmap();
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
  EXPECT_TRUE(is_known(read_store(*store, 0, 4 * mib), 0));
}

// A write in the moment between a page's placing and its protection is not stopped, but undone, and told of late.
class LateReports {
 public:
  LateReports() {
    count_ = 0;
    struct sigaction action{};
    action.sa_sigaction = [](int number, siginfo_t* information, void* context) {
      if (information->si_code == SI_QUEUE) {
        ++count_;
      } else {
        leave_by_signal(number, information, context);
      }
    };
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~LateReports() { ::sigaction(SIGSEGV, &before_, nullptr); }
  LateReports(const LateReports&) = delete;
  LateReports& operator=(const LateReports&) = delete;
  static int count() { return count_; }
  /// The evictors report: within their next round.
  static bool wait_for_one() {
    for (int attempt = 0; attempt < 5000 && count_ == 0; ++attempt) {
      ::usleep(1000);
    }
    return count_ > 0;
  }

 private:
  static inline std::atomic<int> count_{0};
  struct sigaction before_{};
};

TEST_P(ProtectionTest, ManyThreadsReadWhileOneTriesToWrite) {
  const LateReports late;
  const auto store = known_store(4 * mib);
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(store, read_only(page));
  std::vector<std::thread> readers;
  std::vector<int> right(3, 0);
  for (std::size_t reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] { right[reader] = is_known(bytes_of(region), 0) ? 1 : 0; });
  }
  int raised = 0;
  for (std::uint64_t offset = 0; offset < region.size(); offset += 5 * page) {
    raised += signal_raised_by([&] { poke(region.data() + offset, std::byte{0}); }) == SIGSEGV ? 1 : 0;
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  if (raised == 52 || GetParam().placement == Placement::copy) {
    EXPECT_EQ(raised, 52);
    EXPECT_EQ(right, std::vector<int>(3, 1));
  } else {
    EXPECT_TRUE(LateReports::wait_for_one()) << 52 - raised << " writes raised nothing";
  }
  EXPECT_TRUE(is_known(bytes_of(region), 0)) << "what was written is still seen";
  EXPECT_TRUE(is_known(read_store(*store, 0, 4 * mib), 0));
}

TEST_P(ProtectionTest, ASystemCallThatWouldWriteFailsWithEfault) {
  const auto directory = shared_memory_directory();
  write_file(directory / "source", std::string(100, 'x'));
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(known_store(4 * page), read_only(page));
  FILE* const source = std::fopen((directory / "source").c_str(), "r");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(::pread(::fileno(source), region.data() + page, 100, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  std::fclose(source);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ProtectionTest, ReadingNeverMakesAReadOnlyRegionDirty) {
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(known_store(4 * mib), read_only(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(region.statistics().dirty_bytes, 0U);
  EXPECT_EQ(region.statistics()[Counter::write_backs], 0U);
}

}  // namespace
}  // namespace tiermap
