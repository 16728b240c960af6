// What raises a signal in fault mode kernel: a forked child's accesses, and stores that find the disk full.
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "kernel_mode/kernel_cache.hpp"
#include "region/raised_signal.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

class ForkedChild : public KernelModeTest {
 protected:
  /// The signal that ends a child which reads the byte; 0 if it can.
  static int signal_in_child(const std::byte* address) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGSEGV, SIG_DFL);
      ::signal(SIGBUS, SIG_DFL);
      static_cast<void>(*static_cast<const volatile std::byte*>(address));
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
};

TEST_F(ForkedChild, HasNoAccessToAnyPartOfARegion) {
  write_file(path(), std::string(2 * page, 'x'));
  Cache cache(kernel_options(mebibyte));
  for (const Sharing sharing : {Sharing::shared, Sharing::private_copy}) {
    RegionOptions options;
    options.sharing = sharing;
    options.access = sharing == Sharing::shared ? Access::read_only : Access::read_write;
    options.length = 4 * page;
    options.reserve_bytes = 8 * page;
    Region region = cache.map(path(), options);
    region.resize(6 * page);
    EXPECT_EQ(region.data()[0], std::byte{'x'});
    // The file's bytes, zeros past its end, and what came by resize(), all of them mapped in the parent.
    for (const std::uint64_t offset : {std::uint64_t{0}, 2 * page - 1, 2 * page, 4 * page, 6 * page - 1}) {
      EXPECT_EQ(signal_in_child(region.data() + offset), SIGSEGV) << offset;
      EXPECT_EQ(region.data()[offset], offset < 2 * page ? std::byte{'x'} : std::byte{0});
    }
  }
}

/// A tmpfs of 1 MiB, half of which is taken.
class FullDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
    }
    write_file(directory_ / "ballast", std::string(mebibyte / 2, 'b'));
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(::umount(directory_.path().c_str()), 0);
    }
  }

  const TemporaryDirectory directory_;
  bool mounted_ = false;
};

TEST_F(FullDisk, StoresRaiseSigbusAndLoseNothing) {
  constexpr std::uint64_t pages = mebibyte / page;
  const std::string path = directory_ / "sparse";
  {
    Cache cache(kernel_options(mebibyte));
    RegionOptions options;
    options.access = Access::read_write;
    options.length = pages * page;
    Region region = cache.map(path, options);
    auto* bytes = reinterpret_cast<volatile char*>(region.data());
    volatile std::uint64_t stores = 0;
    const int raised = signal_raised_by([&] {
      for (std::uint64_t number = 0; number < pages; ++number) {
        bytes[number * page] = 'w';
        stores = number + 1;
      }
    });
    const std::uint64_t written = stores;
    EXPECT_EQ(raised, SIGBUS);
    EXPECT_GT(written, pages / 4);
    EXPECT_LT(written, pages);
    EXPECT_EQ(static_cast<std::byte*>(signal_address), region.data() + written * page);
    region.sync();
    // With room again, the same instruction does its work.
    std::filesystem::remove(directory_ / "ballast");
    EXPECT_EQ(signal_raised_by([&] { bytes[written * page] = 'w'; }), 0);
    region.sync();
    const std::string content = read_file(path);
    ASSERT_EQ(content.size(), pages * page);
    for (std::uint64_t number = 0; number < pages; ++number) {
      ASSERT_EQ(content[number * page], number <= written ? 'w' : '\0') << number;
    }
  }
}

}  // namespace
}  // namespace tiermap
