// Of several flushes at once the kernel tells one of a failure: none of them may say that all is well, nor may a later
// one.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

/// A disk that fails once. Of two who ask at the same time it tells the second, and the first when that one is done.
class FailingDisk {
 public:
  int synchronise() {
    std::unique_lock held(mutex_);
    if (told_) {
      return 0;
    }
    if (std::exchange(asked_, true)) {
      told_ = true;
      changed_.notify_all();
      errno = EIO;
      return -1;
    }
    changed_.wait_for(held, std::chrono::milliseconds(200), [this] { return told_; });
    if (!std::exchange(told_, true)) {
      errno = EIO;
      return -1;
    }
    changed_.wait_for(held, std::chrono::seconds(2), [this] { return done_; });
    return 0;
  }
  void done() {
    const std::lock_guard held(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool told_ = false;
  bool done_ = false;
};

std::atomic<FailingDisk*> failing_disk{nullptr};

class FlushError : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Store> make_store() {
    const std::string kind = GetParam();
    write_file(directory_ / "first", std::string(8192, 'a'));
    write_file(directory_ / "second", std::string(8192, 'a'));
    if (kind == "sparse") {
      return open_store("sparse://" + directory_.encoded() + "/sparse", OpenMode::create, 16384);
    }
    const std::string first = directory_.encoded() + "/first";
    return open_store(kind == "file" ? "file://" + first : "concat://" + first + "," + directory_.encoded() + "/second",
                      OpenMode::read_write);
  }

  TemporaryDirectory directory_;
};

TEST_P(FlushError, EveryoneIsToldWhoFlushesMeanwhile) {
  const std::shared_ptr<Store> store = make_store();
  const std::string content(4096, 'b');
  ASSERT_EQ(store->write(content.data(), content.size(), 0), 4096);
  ASSERT_EQ(store->write(content.data(), content.size(), 4096), 4096);
  ASSERT_EQ(store->flush(), 0);
  FailingDisk disk;
  failing_disk = &disk;
  std::array<int, 2> results{};
  std::array<std::thread, 2> threads;
  for (std::size_t thread = 0; thread < 2; ++thread) {
    threads[thread] = std::thread([&, thread] {
      results[thread] = store->flush();
      disk.done();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  failing_disk = nullptr;
  EXPECT_EQ(results, (std::array<int, 2>{-EIO, -EIO}));
  EXPECT_EQ(store->flush(), -EIO);
}

INSTANTIATE_TEST_SUITE_P(Stores, FlushError, testing::Values("file", "sparse", "concat"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace tiermap

// In place of the C library's.
extern "C" int fdatasync(int descriptor) {
  tiermap::FailingDisk* const disk = tiermap::failing_disk.load();
  return disk != nullptr ? disk->synchronise() : static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}
