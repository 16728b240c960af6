// A thread of the program that maps, writes, synchronises and unmaps, and then waits for something of its own, is not
// interrupted there: the kernel tells every thread that has used an io_uring when that ends, by a wake-up that makes
// epoll_wait() and others fail with EINTR, though no signal came.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "store/temporary_directory.hpp"
#include "system_calls/region_fixture.hpp"
#include "tiermap/heap.hpp"

namespace tiermap {
namespace {

class InterruptedWait : public RegionFixture {
 protected:
  void SetUp() override { ASSERT_GE(epoll_, 0); }
  void TearDown() override { ::close(epoll_); }
  /// The ring ends some milliseconds after it was closed.
  void expect_quiet_wait(const char* after) const {
    for (int wait = 0; wait < 2; ++wait) {
      epoll_event event{};
      ASSERT_EQ(::epoll_wait(epoll_, &event, 1, 25), 0) << after << ": errno " << errno;
    }
  }
  void store_into_many_pages() {
    for (std::uint64_t page = 0; page < pages; page += 3) {
      words_[page * (page_bytes / 8)] = page;
    }
  }

  TemporaryDirectory directory_;
  const int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
};
INSTANTIATE_TEST_SUITE_P(Modes, InterruptedWait, testing::ValuesIn(all_engine_settings), engine_setting_name);

TEST_P(InterruptedWait, NotByTheEndOfARegionNorOfItsCache) {
  const std::string path = directory_ / "data";
  for (const Access access : {Access::read_write, Access::read_only}) {
    cache_ = make_cache();
    region_ = cache_->map(open_store("file:" + path, OpenMode::open_or_create, store_bytes), region_options(access));
    words_ = reinterpret_cast<volatile std::uint64_t*>(region_.data());
    static_cast<void>(words_[0]);
    if (access == Access::read_write) {
      store_into_many_pages();
      region_.sync();
      store_into_many_pages();
    }
    region_.unmap();
    expect_quiet_wait("unmap()");
    region_ = Region();
    cache_.reset();
    expect_quiet_wait("the end of the cache");
  }
}

TEST_P(InterruptedWait, NotByACheckpoint) {
  constexpr std::size_t bytes = 4 << 20;
  cache_ = make_cache(8 << 20);
  HeapOptions options;
  options.capacity_bytes = 16 << 20;
  options.cache = cache_.get();
  {
    Heap heap = Heap::create(directory_ / "heap", options);
    auto* const numbers = static_cast<std::uint64_t*>(heap.allocate(bytes));
    for (std::size_t number = 0; number < bytes / sizeof *numbers; number += 1000) {
      numbers[number] = number;
    }
    heap.checkpoint();
    expect_quiet_wait("a checkpoint");
  }
  cache_.reset();
  expect_quiet_wait("the end of the heap");
}

}  // namespace
}  // namespace tiermap
