// Memory full of pages that cannot go: the thread that wants more of it gets SIGBUS, and one line on standard error
// says why, whoever listens.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exactness/engine_setting.hpp"
#include "exactness/signal_trap.hpp"
#include "exactness/watchdog.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t store_bytes = 4 << 20;
constexpr std::uint64_t page_bytes = 32 << 10;

/// Standard error goes into a pipe while this lives.
class StandardErrorPipe {
 public:
  StandardErrorPipe() {
    EXPECT_EQ(::pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0);
    ::dup2(ends_[1], STDERR_FILENO);
    ::close(ends_[1]);
  }
  ~StandardErrorPipe() {
    stop_reading();
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  StandardErrorPipe(const StandardErrorPipe&) = delete;
  StandardErrorPipe& operator=(const StandardErrorPipe&) = delete;

  void stop_reading() {
    if (ends_[0] >= 0) {
      ::close(std::exchange(ends_[0], -1));
    }
  }
  /// What has been written since the last call.
  std::string text() const {
    std::string result(4096, '\0');
    const ssize_t got = ::read(ends_[0], result.data(), result.size());
    result.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return result;
  }

 private:
  int ends_[2]{-1, -1};
  const int before_ = ::dup(STDERR_FILENO);
};

class FullMemory : public testing::TestWithParam<EngineSetting> {
 protected:
  void open(bool manual_flush) {
    cache_ = std::make_unique<Cache>(cache_options(GetParam(), 1 << 20));
    RegionOptions options;
    options.access = Access::read_write;
    options.page_size_bytes = page_bytes;
    options.manual_flush = manual_flush;
    // A store that is code is read by fillers, one in memory by the thread that faults, if it may.
    region_ = cache_->map(manual_flush ? memory_ : store_, options);
  }
  /// The signal that the first write raises for which there is no room; 0 if there is room for all.
  int fill() {
    int number = 0;
    for (std::uint64_t offset = 0; offset < store_bytes && number == 0; offset += page_bytes) {
      number = SignalTrap::store(reinterpret_cast<volatile std::uint64_t*>(region_.data() + offset), offset);
    }
    return number;
  }

  SignalTrap trap_;  // Before the first cache.
  Watchdog watchdog_{"full memory", 60s};
  std::shared_ptr<Store> memory_ = open_store("memory:" + std::to_string(store_bytes), OpenMode::open_or_create);
  std::shared_ptr<FaultyStore> store_ = std::make_shared<FaultyStore>(memory_);
  std::unique_ptr<Cache> cache_;
  Region region_;
};

TEST_P(FullMemory, IsToldOnceWithTheErrorOfTheStore) {
  open(false);
  store_->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  const StandardErrorPipe standard_error;
  EXPECT_EQ(fill(), SIGBUS);
  EXPECT_EQ(standard_error.text(),
            "tiermap: memory is full of changed pages that cannot be written: Input/output error; "
            "who needs more of it gets SIGBUS. Free the cause, or give a larger budget\n");
  EXPECT_EQ(fill(), SIGBUS);
  EXPECT_EQ(standard_error.text(), "") << "once is enough";
  store_->on_write(nullptr);
}

TEST_P(FullMemory, NamesManualFlushing) {
  open(true);
  const StandardErrorPipe standard_error;
  EXPECT_EQ(fill(), SIGBUS);
  EXPECT_EQ(
      standard_error.text(),
      "tiermap: memory is full of pages that cannot go: pinned, held by transfers of the kernel, or changed under "
      "manual flushing; "
      "who needs more of it gets SIGBUS. Free the cause, or give a larger budget\n");
}

// Each learns it soon after the first one did: a filler that found it out for each anew would take longer than the
// watchdog waits. And what there is room for again is not refused.
TEST_P(FullMemory, IsToldToAllWhoWait) {
  open(true);
  EXPECT_EQ(fill(), SIGBUS);
  constexpr std::uint64_t last = store_bytes - page_bytes;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 94; ++thread) {
    threads.emplace_back([this, thread] {
      auto* const word = reinterpret_cast<volatile std::uint64_t*>(region_.data() + last - thread * page_bytes);
      for (int attempt = 0; attempt < 4; ++attempt) {
        EXPECT_EQ(SignalTrap::store(word, thread), SIGBUS) << "thread " << thread;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  region_.sync();
  // A page that has failed is tried again some tenths of a second later.
  int number = SIGBUS;
  for (int attempt = 0; attempt < 1000 && number != 0; ++attempt) {
    std::this_thread::sleep_for(10ms);
    number = SignalTrap::store(reinterpret_cast<volatile std::uint64_t*>(region_.data() + last), 1);
  }
  EXPECT_EQ(number, 0);
}

// What the evictors found of the smaller budget says nothing of the old one: who waits gets his turn with that.
TEST_P(FullMemory, ABudgetThatCannotShrinkGivesNobodyASignal) {
  open(true);
  constexpr std::uint64_t unwritten_pages = 24;
  for (std::uint64_t page = 0; page < unwritten_pages; ++page) {
    region_.data()[page * page_bytes] = std::byte{1};
  }
  Region others = cache_->map("memory:4MiB", {.access = Access::read_write, .page_size_bytes = page_bytes});
  std::atomic<bool> done{false};
  std::atomic<int> signals{0};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 16; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      while (!done.load()) {
        const std::uint64_t offset = random() % (store_bytes / page_bytes) * page_bytes;
        signals += SignalTrap::store(reinterpret_cast<volatile std::uint64_t*>(others.data() + offset), 1) != 0 ? 1 : 0;
      }
    });
  }
  EXPECT_THROW(cache_->set_budget_bytes(unwritten_pages * page_bytes - 4 * page_bytes), Error);
  std::this_thread::sleep_for(50ms);
  done.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(signals, 0);
  region_.sync();
}

TEST_P(FullMemory, RaisesNoSigpipeWhereNobodyReadsStandardError) {
  ::signal(SIGPIPE, SIG_DFL);  // Who started this process may have it ignored.
  open(true);
  StandardErrorPipe standard_error;
  standard_error.stop_reading();
  EXPECT_EQ(fill(), SIGBUS) << "a SIGPIPE would have ended this process";
}

INSTANTIATE_TEST_SUITE_P(Engines, FullMemory, testing::ValuesIn(all_engine_settings),
                         [](const auto& setting) { return engine_name(setting.param); });

}  // namespace
}  // namespace tiermap
