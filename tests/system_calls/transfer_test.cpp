// System calls that read and write region memory. In notify mode they work on absent pages as on any memory; in
// self-serving mode the kernel cannot ask us, and they fail with EFAULT unless the pages are resident.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "system_calls/region_fixture.hpp"

namespace tiermap {
namespace {

class Transfers : public RegionFixture {
 protected:
  void SetUp() override {
    pattern_.resize(64 << 10);
    for (std::size_t word = 0; word < pattern_.size() / 8; ++word) {
      const std::uint64_t value = ~first_content(word);
      std::memcpy(pattern_.data() + word * 8, &value, 8);
    }
    file_ = ::open(".", O_TMPFILE | O_RDWR, 0600);
    ASSERT_GE(file_, 0);
    ASSERT_EQ(::pwrite(file_, pattern_.data(), pattern_.size(), 0), static_cast<ssize_t>(pattern_.size()));
  }
  void TearDown() override { ::close(file_); }

  std::byte* at(std::uint64_t offset) { return region_.data() + offset; }
  bool holds_pattern(std::uint64_t offset, std::size_t bytes, std::size_t from = 0) {
    return std::memcmp(at(offset), pattern_.data() + from, bytes) == 0;
  }
  bool holds_first_content(std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t word = offset / 8; word < (offset + bytes) / 8; ++word) {
      if (words_[word] != first_content(word)) {
        return false;
      }
    }
    return true;
  }

  /// Whether so much was written as `sources` hold, and the file begins with just that.
  void expect_written(ssize_t written, const std::vector<iovec>& sources) {
    std::vector<std::byte> expected;
    for (const iovec& source : sources) {
      const auto* start = static_cast<const std::byte*>(source.iov_base);
      expected.insert(expected.end(), start, start + source.iov_len);
    }
    ASSERT_EQ(written, static_cast<ssize_t>(expected.size()));
    std::vector<std::byte> found(expected.size());
    ASSERT_EQ(::pread(file_, found.data(), found.size(), 0), written);
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size()), 0);
  }

  /// The pattern in a file on a disk, opened past the page cache; negative if that cannot be had.
  int open_direct() {
    write_file(directory_ / "data", std::string(reinterpret_cast<const char*>(pattern_.data()), pattern_.size()));
    return ::open((directory_ / "data").c_str(), O_RDONLY | O_DIRECT);
  }

  TemporaryDirectory directory_;
  std::vector<std::byte> pattern_;
  int file_ = -1;
};

TEST_P(Transfers, ReadAndWriteOfAbsentPages) {
  open(Access::read_write);
  const std::uint64_t offset = 5 * page_bytes - 40;  // Across pages, not aligned to anything.
  if (!notify()) {
    EXPECT_EQ(::pread(file_, at(offset), 50000, 0), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(::pwrite(file_, at(offset), 50000, 0), -1);
    EXPECT_EQ(errno, EFAULT);
    return;
  }
  ASSERT_EQ(::pread(file_, at(offset), 50000, 0), 50000);
  EXPECT_TRUE(holds_pattern(offset, 50000));
  EXPECT_TRUE(holds_first_content(4 * page_bytes, page_bytes - 40));
  // Out of absent pages.
  const std::uint64_t other = 40 * page_bytes + 8;
  ASSERT_EQ(::pwrite(file_, at(other), 50000, 0), 50000);
  std::vector<std::byte> back(50000);
  ASSERT_EQ(::pread(file_, back.data(), back.size(), 0), 50000);
  EXPECT_EQ(std::memcmp(back.data(), at(other), back.size()), 0);
  EXPECT_TRUE(holds_first_content(other, 50000));
}

TEST_P(Transfers, SelfServingServesPinnedPages) {
  open(Access::read_write);
  const ByteRange range{8 * page_bytes, 4 * page_bytes};
  region_.pin(range);
  if (GetParam().mode == FaultMode::self_serving) {
    // Resident is enough to read; a page that is clean is write-protected, so it is made dirty first.
    for (std::uint64_t page = 8; page < 12; ++page) {
      words_[page * page_bytes / 8] = first_content(page * page_bytes / 8);
    }
  }
  ASSERT_EQ(::pread(file_, at(range.offset + 8), 50000, 0), 50000);
  EXPECT_TRUE(holds_pattern(range.offset + 8, 50000));
  ASSERT_EQ(::pwrite(file_, at(range.offset), 50000, 0), 50000);
  region_.unpin(range);
}

TEST_P(Transfers, VectorsOverAbsentAndResidentPages) {
  if (!notify()) {
    GTEST_SKIP() << "self-serving mode serves no system calls on absent pages";
  }
  open(Access::read_write);
  words_[page_bytes / 8 * 3] = first_content(page_bytes / 8 * 3);  // Dirty.
  static_cast<void>(words_[page_bytes / 8 * 4]);                   // Clean.
  std::array<iovec, 4> vectors{iovec{at(3 * page_bytes + 8), 5000}, iovec{at(4 * page_bytes), 20000},
                               iovec{at(100 * page_bytes - 3), 7}, iovec{at(7 * page_bytes), 10000}};
  ASSERT_EQ(::preadv(file_, vectors.data(), 4, 0), 35007);
  EXPECT_TRUE(holds_pattern(3 * page_bytes + 8, 5000));
  EXPECT_TRUE(holds_pattern(4 * page_bytes, 20000, 5000));
  EXPECT_TRUE(holds_pattern(100 * page_bytes - 3, 7, 25000));
  EXPECT_TRUE(holds_pattern(7 * page_bytes, 10000, 25007));
  // And out of absent ones, out of dirty and out of clean ones.
  std::vector<iovec> sources{{at(200 * page_bytes + 16), 5000},
                             {at(4 * page_bytes), 20000},
                             {at(230 * page_bytes - 3), 7},
                             {at(210 * page_bytes), 3 * page_bytes}};
  expect_written(::pwritev(file_, sources.data(), static_cast<int>(sources.size()), 0), sources);
  region_.sync();
  std::uint64_t stored = 0;
  store_->read(&stored, 8, 4 * page_bytes + 8);
  EXPECT_EQ(stored, words_[4 * page_bytes / 8 + 1]);
}

TEST_P(Transfers, PlainReadsAndWritesMoveOnInTheFile) {
  if (!notify()) {
    GTEST_SKIP() << "self-serving mode serves no system calls on absent pages";
  }
  open(Access::read_write);
  ASSERT_EQ(::read(file_, at(20 * page_bytes + 5), 30000), 30000);
  EXPECT_TRUE(holds_pattern(20 * page_bytes + 5, 30000));
  std::array<iovec, 3> vectors{iovec{at(50 * page_bytes - 1), 2}, iovec{at(60 * page_bytes), 20000},
                               iovec{at(70 * page_bytes + 1), 10}};
  ASSERT_EQ(::readv(file_, vectors.data(), 3), 20012);
  EXPECT_TRUE(holds_pattern(50 * page_bytes - 1, 2, 30000));
  EXPECT_TRUE(holds_pattern(60 * page_bytes, 20000, 30002));
  EXPECT_TRUE(holds_pattern(70 * page_bytes + 1, 10, 50002));

  ASSERT_EQ(::lseek(file_, 0, SEEK_SET), 0);
  std::vector<iovec> sources{{at(120 * page_bytes + 7), 2 * page_bytes}};
  expect_written(::write(file_, sources[0].iov_base, sources[0].iov_len), sources);
  ASSERT_EQ(::lseek(file_, 0, SEEK_SET), 0);
  sources = {{at(140 * page_bytes - 5), 10}, {at(160 * page_bytes), page_bytes + 1}, {at(60 * page_bytes), 20000}};
  expect_written(::writev(file_, sources.data(), 3), sources);
  EXPECT_TRUE(holds_first_content(121 * page_bytes, page_bytes));
  EXPECT_TRUE(holds_first_content(160 * page_bytes, page_bytes));
}

TEST_P(Transfers, Pipes) {
  if (!notify()) {
    GTEST_SKIP() << "self-serving mode serves no system calls on absent pages";
  }
  open(Access::read_write);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::size_t bytes = 300000;
  std::thread writer([&] {
    for (std::size_t written = 0; written < bytes;) {
      const ssize_t now = ::write(ends[1], at(10 * page_bytes + 24 + written), bytes - written);
      ASSERT_GT(now, 0);
      written += static_cast<std::size_t>(now);
    }
  });
  for (std::size_t got = 0; got < bytes;) {
    const ssize_t now = ::read(ends[0], at(100 * page_bytes + 24 + got), bytes - got);
    ASSERT_GT(now, 0);
    got += static_cast<std::size_t>(now);
  }
  writer.join();
  EXPECT_EQ(std::memcmp(at(10 * page_bytes + 24), at(100 * page_bytes + 24), bytes), 0);
  EXPECT_TRUE(holds_first_content(10 * page_bytes, bytes));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(Transfers, Sockets) {
  if (!notify()) {
    GTEST_SKIP() << "self-serving mode serves no system calls on absent pages";
  }
  open(Access::read_write);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const std::size_t bytes = 300000;
  std::thread sender([&] {
    std::size_t sent = 0;
    while (sent < bytes) {
      const ssize_t now = ::send(ends[0], at(10 * page_bytes + 24 + sent), bytes - sent, 0);
      ASSERT_GT(now, 0);
      sent += static_cast<std::size_t>(now);
    }
  });
  std::size_t received = 0;
  while (received < bytes) {
    const ssize_t now = ::recv(ends[1], at(100 * page_bytes + 24 + received), bytes - received, 0);
    ASSERT_GT(now, 0);
    received += static_cast<std::size_t>(now);
  }
  sender.join();
  EXPECT_EQ(std::memcmp(at(10 * page_bytes + 24), at(100 * page_bytes + 24), bytes), 0);
  EXPECT_TRUE(holds_first_content(10 * page_bytes, bytes));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(Transfers, ReadIntoAReadOnlyRegionIsEfault) {
  open(Access::read_only);
  static_cast<void>(words_[page_bytes / 8 * 3]);
  for (const std::uint64_t page : {3U, 20U}) {  // Resident, absent.
    EXPECT_EQ(::pread(file_, at(page * page_bytes), 4096, 0), -1);
    EXPECT_EQ(errno, EFAULT);
  }
  expect_content(0, store_bytes / 8);
  if (notify()) {
    EXPECT_EQ(::pwrite(file_, at(30 * page_bytes), 4096, 0), 4096);
  }
}

// The program's own direct I/O: the device writes into the pages, past the page tables, and takes its time. Eviction
// and write-back of the very pages go on meanwhile.
TEST_P(Transfers, DirectIoIntoARegionUnderPressure) {
  if (!notify()) {
    GTEST_SKIP() << "self-serving mode serves no system calls on absent pages";
  }
  const int direct = open_direct();
  if (direct < 0) {
    GTEST_SKIP() << "no O_DIRECT here";
  }
  open(Access::read_write);
  std::atomic<bool> stop{false};
  std::thread pressure([&] {
    for (std::uint64_t step = 0; !stop.load(); ++step) {
      words_[(128 + step % 128) * page_bytes / 8] = step;
    }
  });
  std::thread flusher([&] {
    while (!stop.load()) {
      region_.sync();
    }
  });
  for (std::uint64_t round = 0; round < 300; ++round) {
    const std::uint64_t offset = round * 13 % 124 * page_bytes;
    const std::size_t bytes = round % 2 == 0 ? 4096 : 48 << 10;
    // Without UFFDIO_MOVE the kernel does not tell that a device holds a page: there the program has to pin what it
    // does direct I/O on.
    const bool pin = GetParam().placement == Placement::copy;
    if (pin) {
      region_.pin({offset, bytes});
    }
    const ssize_t got = ::pread(direct, at(offset), bytes, 0);
    const int error = errno;
    if (pin) {
      region_.unpin({offset, bytes});
    }
    EXPECT_EQ(got, static_cast<ssize_t>(bytes)) << strerror(error);
    EXPECT_TRUE(holds_pattern(offset, bytes)) << "round " << round;
    if (HasFailure()) {
      break;
    }
  }
  stop.store(true);
  pressure.join();
  flusher.join();
  ::close(direct);
}

// A read that takes hold of a page just as another thread's fault has put it into place: what the device writes after
// that is in the page, whatever was found out about it before. Large pages, that take long to put into place.
TEST_P(Transfers, DirectIoIntoAPageThatIsJustComing) {
  if (!notify() || GetParam().placement == Placement::copy) {
    GTEST_SKIP() << "only pages that are moved in are writable for a moment, and only notify serves system calls";
  }
  constexpr std::uint64_t large_page = 4 << 20;
  constexpr std::uint64_t large_pages = 40;
  constexpr std::uint64_t turns = 6 * large_pages;
  const int direct = open_direct();
  if (direct < 0) {
    GTEST_SKIP() << "no O_DIRECT here";
  }
  cache_ = make_cache(large_page * 12);
  RegionOptions options = region_options(Access::read_write);
  options.page_size_bytes = large_page;
  store_ = open_store("memory:" + std::to_string(large_page * large_pages), OpenMode::open_or_create);
  region_ = cache_->map(store_, options);
  std::atomic<std::uint64_t> wanted{0};
  std::atomic<std::uint64_t> touched{0};
  std::thread toucher([&] {
    for (std::uint64_t turn = 0; turn <= turns; ::sched_yield()) {
      if (wanted.load() > turn) {
        turn = wanted.load();
        const volatile std::byte* byte = at((turn - 1) % large_pages * large_page + large_page / 2);
        static_cast<void>(*byte);
        touched.store(turn);
        turn += turn == turns ? 1 : 0;
      }
    }
  });
  for (std::uint64_t turn = 1; turn <= turns; ++turn) {
    std::byte* const start = at((turn - 1) % large_pages * large_page);
    const bool reads = (turn - 1) / large_pages % 2 == 0;
    wanted.store(turn);
    unsigned char present = 0;
    while ((present & 1U) == 0 && touched.load() < turn) {
      ::mincore(start, 4096, &present);
    }
    if (reads) {
      EXPECT_EQ(::pread(direct, start, 4096, 4096), 4096);
    }
    while (touched.load() < turn) {
      ::sched_yield();
    }
    EXPECT_EQ(std::memcmp(start, pattern_.data() + 4096, 4096), 0) << "turn " << turn;
    if (!reads) {
      std::memset(start, 0, 4096);
    }
  }
  toucher.join();
  ::close(direct);
}

INSTANTIATE_TEST_SUITE_P(Engines, Transfers, testing::ValuesIn(all_engine_settings), engine_setting_name);

}  // namespace
}  // namespace tiermap
