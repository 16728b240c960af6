// What a file store does beyond holding bytes: exact growth, files that others cut or add to, holes, creation that
// leaves nothing behind.
#include "store/file_store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "kernel_mode/refusals.hpp"
#include "store/file_transfer.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::unique_ptr<FileStore> create(const std::string& path, std::uint64_t bytes) {
  return FileStore::open(path, OpenMode::create, bytes, FileOptions());
}

std::uint64_t file_size(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return static_cast<std::uint64_t>(status.st_size);
}

TEST(FileStore, a_created_file_is_sparse_and_of_the_exact_size) {
  const TemporaryDirectory directory;
  const auto store = create(directory / "file", (std::uint64_t{1} << 40) + 3);
  EXPECT_EQ(store->size_bytes(), (std::uint64_t{1} << 40) + 3);
  struct stat status = {};
  ASSERT_EQ(::stat((directory / "file").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks, 100);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), store->size_bytes());
}

TEST(FileStore, a_hole_stays_a_hole_when_its_neighbours_are_written) {
  const TemporaryDirectory directory;
  const auto store = create(directory / "file", 64 << 20);
  const AlignedBuffer page = aligned_buffer(4096);
  std::memset(page.get(), 1, 4096);
  ASSERT_EQ(engine_write(*store, page.get(), 4096, 32 << 20), 0);
  ASSERT_EQ(store->flush(), 0);
  struct stat status = {};
  ASSERT_EQ(::stat((directory / "file").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
}

TEST(FileStore, growth_is_exact_for_calls_and_for_extents) {
  const TemporaryDirectory directory;
  const auto store = create(directory / "file", 0);
  const AlignedBuffer data = aligned_buffer(16384);
  std::memset(data.get(), 3, 16384);
  ASSERT_EQ(store->write(data.get(), 5001, 0), 5001);
  EXPECT_EQ(file_size(directory / "file"), 5001U);
  ASSERT_EQ(store->write(data.get(), 9000, 8192), 9000);
  EXPECT_EQ(file_size(directory / "file"), 8192U + 9000);
  // The aligned part by an extent, the rest by write(), as the engine does it.
  ASSERT_EQ(engine_write(*store, data.get(), 10'000, 40'960), 0);
  EXPECT_EQ(file_size(directory / "file"), 40'960U + 10'000);
  EXPECT_EQ(store->size_bytes(), 40'960U + 10'000);
  std::vector<char> expected(50'960, 0);
  std::fill_n(expected.begin(), 5001, 3);
  std::fill_n(expected.begin() + 8192, 9000, 3);
  std::fill_n(expected.begin() + 40'960, 10'000, 3);
  expect_equal(*store, expected);
}

TEST(FileStore, threads_that_append_lose_nothing) {
  const TemporaryDirectory directory;
  const auto store = create(directory / "file", 0);
  constexpr std::size_t threads = 8;
  constexpr std::size_t pieces = 60;
  std::vector<char> expected(threads * pieces * 4096);
  std::vector<std::thread> workers;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      const AlignedBuffer page = aligned_buffer(4096);
      std::memset(page.get(), static_cast<int>(thread + 1), 4096);
      for (std::size_t piece = 0; piece < pieces; ++piece) {
        // Odd threads grow the file by extents; even ones by calls.
        const std::uint64_t offset = (piece * threads + thread) * 4096;
        if (thread % 2 == 1) {
          EXPECT_EQ(engine_write(*store, page.get(), 4096, offset), 0);
        } else {
          EXPECT_EQ(store->write(page.get(), 4096, offset), 4096);
        }
        std::memcpy(expected.data() + offset, page.get(), 4096);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  expect_equal(*store, expected);
}

// Between a look at a file's size and a call that sets it another program may have made it longer.
TEST(FileStore, growth_for_an_extent_cannot_cut_the_file) {
  const TemporaryDirectory directory;
  const auto store = create(directory / "file", 4096);
  if (const FileDescriptor file(::open((directory / "file").c_str(), O_RDWR)); ::fallocate(file.get(), 0, 0, 1) != 0) {
    GTEST_SKIP() << "this file system has no call that only makes files longer: " << std::strerror(errno);
  }
  bool filtered = false;
  bool grown = false;
  std::thread([&] {
    filtered = Refusals().refuse(SYS_ftruncate, EIO).install();
    Extent extent;
    grown = store->locate_write(65536, 4096, extent);
  }).join();
  if (!filtered) {
    GTEST_SKIP() << "no seccomp filters here";
  }
  EXPECT_TRUE(grown);
  EXPECT_EQ(file_size(directory / "file"), 65536U + 4096);
}

TEST(FileStore, a_file_that_another_program_cuts_reads_as_zeros_past_its_end) {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  write_file(path, std::string(1 << 20, 'x'));
  const auto store = FileStore::open(path, OpenMode::read_write, 0, FileOptions());
  const AlignedBuffer buffer = aligned_buffer(65536);
  ASSERT_EQ(engine_read(*store, buffer.get(), 65536, 500'000 / 4096 * 4096), 0);
  ASSERT_EQ(::truncate(path.c_str(), 5000), 0);
  ASSERT_EQ(engine_read(*store, buffer.get(), 65536, 0), 0);
  for (std::size_t index = 0; index < 65536; ++index) {
    ASSERT_EQ(buffer.get()[index], index < 5000 ? 'x' : 0) << index;
  }
  EXPECT_EQ(store->read(buffer.get(), 4096, 524'288), 0);
  EXPECT_EQ(store->size_bytes(), 5000U);
  // Writing there goes on as to any file.
  std::memset(buffer.get(), 'y', 4096);
  ASSERT_EQ(engine_write(*store, buffer.get(), 4096, 524'288), 0);
  EXPECT_EQ(file_size(path), 528'384U);
  ASSERT_EQ(engine_read(*store, buffer.get(), 65536, 0), 0);
  EXPECT_EQ(buffer.get()[4999], 'x');
  EXPECT_EQ(buffer.get()[5000], 0);
}

TEST(FileStore, what_another_program_adds_is_seen) {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  write_file(path, std::string(4096, 'a'));
  const auto store = FileStore::open(path, OpenMode::read_only, 0, FileOptions());
  write_file(path, std::string(12288, 'b'));
  const AlignedBuffer buffer = aligned_buffer(8192);
  errno = 77;
  ASSERT_EQ(engine_read(*store, buffer.get(), 4096, 8192), 0);
  EXPECT_EQ(buffer.get()[4095], 'b');
  Extent extent;
  EXPECT_TRUE(store->locate_read(1 << 20, 4096, extent));
  EXPECT_TRUE(extent.hole);
  EXPECT_EQ(errno, 77);  // A signal handler may call it anywhere.
}

TEST(FileStore, read_only_never_writes) {
  const TemporaryDirectory directory;
  write_file(directory / "file", "content");
  const auto store = FileStore::open(directory / "file", OpenMode::read_only, 0, FileOptions());
  Extent extent;
  EXPECT_FALSE(store->writable());
  EXPECT_FALSE(store->growable());
  EXPECT_EQ(store->write("x", 1, 0), -EROFS);
  EXPECT_EQ(store->resize(1), -EROFS);
  EXPECT_FALSE(store->locate_write(0, 4096, extent));
  EXPECT_EQ(store->flush(), 0);
  EXPECT_EQ(read_file(directory / "file"), "content");
}

TEST(FileStore, an_empty_file_has_size_zero) {
  const TemporaryDirectory directory;
  write_file(directory / "file", "");
  const auto store = FileStore::open(directory / "file", OpenMode::read_only, 0, FileOptions());
  char byte = 0;
  EXPECT_EQ(store->size_bytes(), 0U);
  EXPECT_EQ(store->read(&byte, 1, 0), 0);
}

TEST(FileStore, a_creation_that_fails_leaves_nothing) {
  const TemporaryDirectory directory;
  // More than ext4 and tmpfs take for one file.
  EXPECT_THROW(create(directory / "file", std::uint64_t{1} << 62), StoreError);
  EXPECT_NE(::access((directory / "file").c_str(), F_OK), 0);
  write_file(directory / "there", "kept");
  EXPECT_THROW(create(directory / "there", 100), StoreError);
  EXPECT_EQ(read_file(directory / "there"), "kept");
}

TEST(FileStore, many_threads_open_or_create_one_file) {
  const TemporaryDirectory directory;
  std::vector<std::thread> workers;
  for (int thread = 0; thread < 8; ++thread) {
    workers.emplace_back([&] {
      const auto store = FileStore::open(directory / "file", OpenMode::open_or_create, 8192, FileOptions());
      EXPECT_TRUE(store->writable());
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(file_size(directory / "file"), 8192U);
}

// ThreadSanitizer took what each of them tries direct input into for one memory, where they had it one after the other.
TEST(FileStore, threads_that_try_direct_input_at_once_share_no_memory) {
  const TemporaryDirectory directory("/dev/shm");  // A file system that does not say what it wants.
  write_file(directory / "file", std::string(1 << 20, 'x'));
  const FileDescriptor direct(::open((directory / "file").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!direct.valid()) {
    GTEST_SKIP() << "this file system refuses O_DIRECT";
  }
  std::vector<std::thread> workers;
  for (int thread = 0; thread < 4; ++thread) {
    const int own = ::fcntl(direct.get(), F_DUPFD_CLOEXEC, 0);  // One in common would put the threads in order.
    workers.emplace_back([own] {
      const FileDescriptor file(own);
      for (int time = 0; time < 500; ++time) {
        EXPECT_GT(probe_direct_alignment(file.get()), 0U);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
}

TEST(FileStore, raises_a_soft_limit_of_which_half_is_used) {
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 700) {
    GTEST_SKIP() << "the hard limit of open files is only " << before.rlim_max;
  }
  const struct rlimit low = {150, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    const TemporaryDirectory directory;
    std::vector<std::unique_ptr<FileStore>> stores;
    for (int number = 0; number < 100; ++number) {
      stores.push_back(create(directory / std::to_string(number), 4096));
      const FileDescriptor free_for_program(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 2 * number));
      EXPECT_TRUE(free_for_program.valid()) << number;
    }
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(FileStore, what_is_aligned_goes_past_the_page_cache_where_the_file_system_lets_it) {
  const TemporaryDirectory directory;
  const auto store = create(directory / "file", 1 << 20);
  if (!FileDescriptor(::open((directory / "file").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)).valid()) {
    GTEST_SKIP() << "this file system refuses O_DIRECT";
  }
  EXPECT_GT(store->direct_alignment(), 1U);
  Extent extent;
  ASSERT_TRUE(store->locate_read(8192, 65536, extent));
  EXPECT_NE(::fcntl(extent.file_descriptor, F_GETFL) & O_DIRECT, 0);
  ASSERT_TRUE(store->locate_write(8192, 65536, extent));
  EXPECT_NE(::fcntl(extent.file_descriptor, F_GETFL) & O_DIRECT, 0);
}

TEST(FileStore, mixed_direct_and_buffered_access_agree) {
  const TemporaryDirectory directory;
  const auto store = create(directory / "file", 1 << 20);
  if (store->direct_alignment() == 1) {
    GTEST_SKIP() << "this file system refuses O_DIRECT";
  }
  const AlignedBuffer buffer = aligned_buffer(4096);
  for (int round = 0; round < 200; ++round) {
    std::memset(buffer.get(), round, 4096);
    ASSERT_EQ(engine_write(*store, buffer.get(), 4096, 4096), 0);  // direct
    ASSERT_EQ(store->write(buffer.get() + 1, 7, 4096 + 100), 7);   // through the page cache
    std::memset(buffer.get(), 0x55, 4096);
    ASSERT_EQ(engine_read(*store, buffer.get(), 4096, 4096), 0);  // direct
    char odd[3];
    ASSERT_EQ(store->read(odd, 3, 4096 + 99), 3);  // through the page cache
    EXPECT_EQ(buffer.get()[102], static_cast<char>(round));
    EXPECT_EQ(odd[1], static_cast<char>(round));
  }
}

/// A file made into a block device for a while.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& file) {
    const FileDescriptor control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const int number = control.valid() ? ::ioctl(control.get(), LOOP_CTL_GET_FREE) : -1;
    path_ = "/dev/loop" + std::to_string(number);
    const FileDescriptor backing(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    device_ = FileDescriptor(number < 0 ? -1 : ::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    good_ = device_.valid() && ::ioctl(device_.get(), LOOP_SET_FD, backing.get()) == 0;
  }
  ~LoopDevice() {
    if (good_) {
      ::ioctl(device_.get(), LOOP_CLR_FD, 0);
    }
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  bool good() const { return good_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor device_;
  bool good_ = false;
};

TEST(FileStore, a_block_device_has_its_size_and_does_not_grow) {
  const TemporaryDirectory directory;
  write_file(directory / "disk", std::string(1 << 20, 'd'));
  const LoopDevice device(directory / "disk");
  if (!device.good()) {
    GTEST_SKIP() << "loop devices are not permitted here: " << std::strerror(errno);
  }
  const auto store = FileStore::open(device.path(), OpenMode::read_write, 0, FileOptions());
  std::vector<char> expected(1 << 20, 'd');
  EXPECT_FALSE(store->growable());
  expect_equal(*store, expected);
  random_work(*store, expected, 0, expected.size(), 100, 2);
  expect_equal(*store, expected);
  EXPECT_EQ(store->write("end", 3, (1 << 20) - 2), 2);
  EXPECT_EQ(store->write("end", 3, 1 << 20), -ENOSPC);
  Extent extent;
  EXPECT_FALSE(store->locate_write(1 << 20, 4096, extent));
  EXPECT_EQ(store->resize(1), -ENOTSUP);
  EXPECT_EQ(store->flush(), 0);
}

}  // namespace
}  // namespace tiermap
