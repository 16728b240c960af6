// A child of fork() has a copy of what its parent's tiers knew, and none of its threads: what is dirty is the parent's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/file_store.hpp"
#include "store/temporary_directory.hpp"
#include "tier/tiered_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;
constexpr std::uint64_t store_bytes = 64 * block_bytes;

/// What `work` returns in a child, or -1 of one that does not end.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(work());
  }
  for (int turn = 0; turn < 12'000; ++turn) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return -1;
}

/// In a child: ends it as programs end, with the destructor of `store` among the last things that are done.
int exit_with(std::shared_ptr<Store> store) {
  std::atexit([] { ::_exit(7); });  // After that destructor, and before what looks for leaks.
  static std::shared_ptr<Store> last;
  last = std::move(store);
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): its parent's threads are not here.
}

/// Its tiers have what the file has not; nothing moves by itself.
class ForkedStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    write_file(path_, std::string(store_bytes, 'a'));
    store_ = make_tiered_store(FileStore::open(path_, OpenMode::read_write, 0, {}), options());
    const std::vector<char> changed(store_bytes / 2, 'b');
    ASSERT_EQ(store_->write(changed.data(), changed.size(), 0), static_cast<std::int64_t>(changed.size()));
    ASSERT_EQ(tier_reports(*store_).front().dirty_bytes, store_bytes / 2);
  }
  static TieringOptions options() {
    TierOptions dram;
    dram.name = "dram";
    dram.capacity_bytes = store_bytes;
    TieringOptions options;
    options.tiers = {dram};
    options.block_bytes = block_bytes;
    options.organize_seconds = 3600;
    options.write_down_seconds = 3600;
    return options;
  }
  void expect_parent_has_all() {
    EXPECT_TRUE(read_file(path_) == std::string(store_bytes, 'a')) << "a child wrote what is its parent's";
    EXPECT_EQ(tier_reports(*store_).front().dirty_bytes, store_bytes / 2);
    EXPECT_EQ(store_->settle(), 0);
    EXPECT_TRUE(read_file(path_) == std::string(store_bytes / 2, 'b') + std::string(store_bytes / 2, 'a'));
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "store";
  std::shared_ptr<Store> store_;
};

TEST_F(ForkedStoreTest, a_child_that_gives_it_up_writes_nothing) {
  EXPECT_EQ(in_child([&] {
              store_.reset();
              return 0;
            }),
            0);
  expect_parent_has_all();
}

TEST_F(ForkedStoreTest, a_child_that_exits_writes_nothing) {
  EXPECT_EQ(in_child([&] { return exit_with(std::move(store_)); }), 7);
  expect_parent_has_all();
}

TEST_F(ForkedStoreTest, a_child_is_refused_whatever_it_asks_for) {
  EXPECT_EQ(in_child([&] {
              char byte = 'c';
              store_->score(0, block_bytes, 1, 1);
              int reports = 0;
              try {
                static_cast<void>(tier_reports(*store_));
              } catch (const Error& error) {
                reports = error.code().value();
              }
              const bool refused = store_->read(&byte, 1, 0) == -EBUSY && store_->write(&byte, 1, 0) == -EBUSY &&
                                   store_->flush() == -EBUSY && store_->settle() == -EBUSY &&
                                   store_->resize(block_bytes) == -EBUSY && store_->punch(0, block_bytes) == -EBUSY;
              return refused && reports == ECHILD ? 0 : 1;
            }),
            0);
  expect_parent_has_all();
}

TEST_F(ForkedStoreTest, a_child_of_a_busy_parent_does_not_wait_for_it) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      std::vector<char> bytes(4096);
      for (std::uint64_t block = 0; !stop; block = (block + 1) % 4) {  // All want the same blocks, each its own bytes.
        store_->write(bytes.data(), bytes.size(), block * block_bytes + number * bytes.size());
      }
    });
  }
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    EXPECT_EQ(in_child([&] {
                char byte = 0;
                const bool refused = store_->read(&byte, 1, 0) == -EBUSY;
                store_.reset();
                return refused ? 0 : 1;
              }),
              0)
        << "round " << round;
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(read_file(path_) == std::string(store_bytes, 'a'));
}

}  // namespace
}  // namespace tiermap
